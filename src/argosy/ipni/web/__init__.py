"""The HTTP APIs of an indexer, wire-compatible with IPNI: find, ingest and admin, and their encoders."""
