"""Stores of shards (SlateDB in a directory, on S3 or in memory) and of the shard map; disks that tests can break."""
