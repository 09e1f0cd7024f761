"""The indexer: reads publishers' chains, applies them oldest first, and answers finds.

Reading order: `policy` and `assignments` (who may publish), `ingest_state` (cursors, applied advertisements,
providers), `sync_service` (which chains are synced when), `chain` (reading a chain), `follower` and `apply_ad`
(applying it), `prefetch` (fetching entries), `freeze`, `maintenance`, `resolver` (finds), `telemetry`, `service`
(all of it).
"""
