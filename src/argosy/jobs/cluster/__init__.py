"""Shards on many nodes: the shard map, which node serves which shard, moves and splits.

Reading order: `shard_map`, `ports`, `seal` (how a split commits), `lease_guard` (what stands before a shard),
`split_rows` (rows after a split), `shard_host` (opens shards under leases), `splitter`, `poller`, `node` (`JobsNode`,
all of it).
"""
