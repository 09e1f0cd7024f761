"""Shards on many nodes: the map of shards, who serves which, moving them, splitting them."""
