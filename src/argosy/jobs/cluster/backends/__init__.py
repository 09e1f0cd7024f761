"""Where the map of shards is kept, and shards in memory."""
