"""The ingest surface: announcements, address records, and how far the syncs have come."""
