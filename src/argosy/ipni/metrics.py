"""What an indexer measures."""

from argosy.base.metrics import counter, gauge, histogram

_SYNC_BUCKETS_S = (0.05, 0.25, 1, 5, 30, 120, 600, 3600, 7200)

USAGE_PERCENT = gauge("argosy_ipni_usage_percent", "the fullest disk of the indexer, in percent; -1 if unreadable")
IS_FROZEN = gauge("argosy_ipni_is_frozen", "1 while the indexer stores no more entries")
ANNOUNCES = counter("argosy_ipni_announces", "announcements, by what became of them", ("outcome",))
ADS = counter("argosy_ipni_ads", "advertisements applied, by what they did", ("kind",))
ADS_SKIPPED = counter("argosy_ipni_ads_skipped", "advertisements given up for good: malformed, or entries not there")
MULTIHASHES = counter("argosy_ipni_multihashes", "multihashes stored")
MULTIHASHES_BAD = counter("argosy_ipni_multihashes_bad", "entries that are no multihashes, passed over")
ENTRY_BYTES = counter("argosy_ipni_entry_bytes", "bytes of entries fetched")
SYNCS = counter("argosy_ipni_syncs", "chains read and applied, by how it ended", ("outcome",))
SYNC_SECONDS = histogram("argosy_ipni_sync_seconds", "how long reading and applying a chain took", _SYNC_BUCKETS_S)
ADS_LEFT = gauge("argosy_ipni_ads_left", "advertisements known and not yet applied, over all publishers")
SYNCS_RUNNING = gauge("argosy_ipni_syncs_running", "publishers whose chains are being read or applied")
PROVIDERS = gauge("argosy_ipni_providers", "providers known")
SWEPT = counter("argosy_ipni_swept", "removed entries whose space was freed")
ENTRIES = gauge("argosy_ipni_entries", "pairs of multihash and value, as well as the store can tell")
DISK_BYTES = gauge("argosy_ipni_disk_bytes", "bytes the index takes on disk")
