"""The keyspace: one index spread over query nodes, each responsible for a part of the multihashes.

Ingest nodes are ordinary indexers whose store is a `ShardedStore`: their own rows stay local, and entries go to the
query nodes that a hash ring names. Reading order: `layout` (the slots, their owners and moves), `state` (what a node
may serve), `query_node`, `maintenance` (moving and clearing), `sharded_store`, `query_frontend`, `runtime`.
"""
