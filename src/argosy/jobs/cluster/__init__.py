"""Shards on many nodes: the shard map, which node serves which shard, moves and splits.

Reading order: `shardmap` and `seal` (the map and how a split commits), `ports`, `shard_map_cache`, `lease_guard` and
`owned_rows` (what stands before a shard), `split_cleanup`, `shard_host` (opens shards under leases), `splitter`,
`poller`, `service` (`JobsNode`, all of it).
"""
