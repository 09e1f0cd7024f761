"""Workers that ask all shards of a node at once."""
