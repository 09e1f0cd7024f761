"""Who holds what."""
