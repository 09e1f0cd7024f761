"""The assigner: which indexers of a pool ingest which publisher, and who goes on where a full one stopped.

It keeps nothing: what it knows it has been told by the indexers, and it may be destroyed and replaced at any time. The
choice itself is `ownership.assigner`. Reading order: `configuration`, `picture` (what is known of the pool), `advice`,
`service` (announcements, polls, handoffs), `worker` (announcements passed on), `http`.

Announcements come in by HTTP. Gossip is left out: publishers' tools have deprecated it in favour of HTTP.
"""
