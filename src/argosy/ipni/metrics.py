"""Metrics of the indexer."""

from argosy.base.metrics import counter, gauge, histogram

_SYNC_BUCKETS_S = (0.05, 0.25, 1, 5, 30, 120, 600, 3600, 7200)

USAGE_PERCENT = gauge("argosy_ipni_usage_percent", "Usage of the indexer's fullest disk in percent; -1 if unreadable")
IS_FROZEN = gauge("argosy_ipni_is_frozen", "1 while the indexer is frozen")
ANNOUNCES = counter("argosy_ipni_announces", "Announcements by outcome", ("outcome",))
ADS = counter("argosy_ipni_ads", "Applied advertisements by kind", ("kind",))
ADS_SKIPPED = counter("argosy_ipni_ads_skipped", "Advertisements skipped permanently: malformed, or entries missing")
MULTIHASHES = counter("argosy_ipni_multihashes", "Stored multihashes")
MULTIHASHES_BAD = counter("argosy_ipni_multihashes_bad", "Skipped entries that are not multihashes")
ENTRY_BYTES = counter("argosy_ipni_entry_bytes", "Fetched bytes of entries")
SYNCS = counter("argosy_ipni_syncs", "Chain syncs by outcome", ("outcome",))
SYNC_SECONDS = histogram("argosy_ipni_sync_seconds", "Duration of chain syncs", _SYNC_BUCKETS_S)
ADS_LEFT = gauge("argosy_ipni_ads_left", "Known advertisements that are not applied yet, over all publishers")
SYNCS_RUNNING = gauge("argosy_ipni_syncs_running", "Running chain syncs")
PROVIDERS = gauge("argosy_ipni_providers", "Known providers")
SWEPT = counter("argosy_ipni_swept", "Removed entries whose space was freed")
ENTRIES = gauge("argosy_ipni_entries", "Pairs of multihash and value, as estimated by the store")
DISK_BYTES = gauge("argosy_ipni_disk_bytes", "Bytes of the index on disk")
