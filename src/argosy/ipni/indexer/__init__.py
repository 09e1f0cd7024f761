"""The indexer: reads publishers' chains, stores what they say oldest first, and answers who has what."""
