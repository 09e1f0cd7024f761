"""The assigner: chooses which indexers of a pool ingest which publisher, and who succeeds a full one.

It stores nothing. Its state comes from the indexers, so it may be destroyed and replaced at any time. The choice
itself is `ownership.assigner`. Reading order: `configuration`, `pool_state` (what is known of the pool), `advice`,
`pool_member` (requests to one indexer), `service` (announcements, polls, handoffs), `runtime`, `http`.

Announcements arrive over HTTP. Gossip is not supported, because publishers' tools have deprecated it in favour of
HTTP.
"""
