"""The query layer: index data in nodes that are each responsible for a part of the multihashes.

Ingest nodes are ordinary indexers whose store is a `ShardedStore`: their own rows stay with them, and what they ingest
goes to the query nodes that a ring names. See slots (the parts), layout (who has them), plan (what moves), state (what
a node may claim), service (a query node), worker (its moving and clearing), backends/sharded (the way in).
"""
