"""Argosy's own JSON API: searching, reading, fleet status and catalog changes, described by its OpenAPI document."""
