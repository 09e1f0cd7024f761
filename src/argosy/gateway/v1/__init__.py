"""Our own API: searching, reading, watching the fleet, and changing the catalog, described by its OpenAPI document."""
