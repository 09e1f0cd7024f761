"""The indexer: reads publishers' chains, applies them oldest first, and answers finds.

Reading order: `policy` and `assignments` (who may publish), `sync_queue` and `sync_service` (which chains are synced
when), `chain` (reading a chain), `follower` and `apply_ad` (applying it), `prefetch` (fetching entries), `sync_state`
and `provider_table` (what is stored), `freeze`, `contact_log` and `maintenance`, `resolver` (finds), `service` (all of
it).
"""
