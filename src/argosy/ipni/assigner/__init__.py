"""The assigner: chooses which indexers of a pool ingest which publisher, and who succeeds a full one.

It stores nothing. Its state comes from the indexers, so it may be destroyed and replaced at any time, and while it is
down the indexers continue with the publishers that they have. The choice itself is `ownership.assigner`. Reading
order: `configuration`, `pool_state` (what is known of the pool), `advice`, `pool_member` (requests to one indexer),
`service` (announcements, polls, handoffs), `runtime`, `http`.

Announcements arrive over HTTP. Gossip is not supported, because the original's documentation calls it deprecated in
favour of HTTP (decision 29).
"""
