"""The keyspace: one index spread over query nodes, each responsible for a part of the multihashes.

Ingest nodes are ordinary indexers whose store is a `ShardedStore`: their own rows stay local, and entries go to the
query nodes that a hash ring names. Reading order: `slots` (the parts), `layout` (their owners and moves), `state`
(what a node may serve), `query_node`, `maintenance` (moving and clearing), `backends/sharded`, `query_frontend`,
`runtime`.
"""
