"""Metrics of the indexer, and the sync status of each publisher.

The status answers whether an advertisement is indexed, and if not, why. Its shape is storetheindex's (`Scan`,
`Processing`, `Download`, each with its last ten runs, newest first), with the distance to the head added.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from argosy.base.metrics import counter, gauge, histogram

_SYNC_BUCKETS_S = (0.05, 0.25, 1, 5, 30, 120, 600, 3600, 7200)  # up to the default of ipni.sync_timeout_s

USAGE_PERCENT = gauge("argosy_ipni_usage_percent", "Usage of the indexer's fullest disk in percent; -1 if unreadable")
IS_FROZEN = gauge("argosy_ipni_is_frozen", "1 while the indexer is frozen")
ANNOUNCES = counter(
    "argosy_ipni_announces", "Announcements by outcome: accepted, known, repeated, forbidden", ("outcome",)
)
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


# As in storetheindex.
HISTORY_MAX = 10
STATUSES_MAX = 10_000  # publishers; the one without activity for longest is dropped first


@dataclass
class SyncRun:
    """One scan, processing or download; `fields` appear in the JSON under their own names."""

    started_at: float
    fields: dict[str, object] = field(default_factory=dict)
    ended_at: float | None = None
    error: str = ""

    def add(self, name: str, by: int) -> None:
        was = self.fields.get(name, 0)
        assert isinstance(was, int), f"{name} is not a count"
        self.fields[name] = was + by

    def to_json(self, now: float) -> dict[str, object]:
        fields_json: dict[str, object] = {"StartTime": format_time(self.started_at)}
        if self.ended_at is not None:
            fields_json["EndTime"] = format_time(self.ended_at)
        fields_json["Ongoing"] = self.ended_at is None
        fields_json["Elapsed"] = format_duration((self.ended_at or now) - self.started_at)
        if self.error:
            fields_json["Error"] = self.error
        return fields_json | self.fields


class RunHistory:
    """The runs of one kind: the current one and those before it."""

    def __init__(self) -> None:
        self.now: SyncRun | None = None
        self.history: deque[SyncRun] = deque(maxlen=HISTORY_MAX)

    def begin(self, at: float, **fields: object) -> SyncRun:
        # A run that was interrupted, such as by a cancelled sync, still goes to the history.
        self.end(at)
        self.now = SyncRun(at, dict(fields))
        return self.now

    def end(self, at: float, error: str = "") -> None:
        if self.now is not None:
            self.now.ended_at, self.now.error = at, error
            self.history.appendleft(self.now)
            self.now = None


class PublisherStatus:
    """Status of one publisher. `distance` is the number of known advertisements not applied yet; None before the first
    scan."""

    def __init__(self, publisher: str) -> None:
        self.publisher = publisher
        self.state = "idle"  # idle, waiting, scanning, processing
        self.head = ""
        self.distance: int | None = None
        self.error = ""
        self.scan = RunHistory()
        self.processing = RunHistory()
        self.download = RunHistory()

    def to_json(self, now: float) -> dict[str, object]:
        fields_json: dict[str, object] = {"Provider": self.publisher, "State": self.state}
        for name, track in (("Scan", self.scan), ("Processing", self.processing), ("Download", self.download)):
            if track.now is not None:
                fields_json[name] = track.now.to_json(now)
            if track.history:
                fields_json[f"{name}History"] = [run.to_json(now) for run in track.history]
        if self.head:
            fields_json["HeadAd"] = self.head
        if self.distance is not None:
            fields_json["Distance"] = self.distance
        if self.error:
            fields_json["Error"] = self.error
        return fields_json


class PublisherStatuses:
    """The statuses of the most recently active publishers."""

    def __init__(self) -> None:
        self._by_publisher: OrderedDict[str, PublisherStatus] = OrderedDict()

    def of(self, publisher: str) -> PublisherStatus:
        status = self._by_publisher.setdefault(publisher, PublisherStatus(publisher))
        # Anyone may announce under new ids, so the table is bounded; active publishers stay.
        self._by_publisher.move_to_end(publisher)
        while len(self._by_publisher) > STATUSES_MAX:
            self._by_publisher.popitem(last=False)
        return status

    def to_json(self, now: float, publisher: str | None = None) -> Mapping[str, object]:
        ids = [publisher] if publisher is not None else list(self._by_publisher)
        return {id: self._by_publisher[id].to_json(now) for id in ids if id in self._by_publisher}

    def distance(self) -> int:
        """Sum over all publishers, as far as known."""
        return sum(status.distance or 0 for status in self._by_publisher.values())


class IngestRates:
    """Ingest rate of each provider since the last read."""

    def __init__(self) -> None:
        self._by_provider: dict[str, tuple[int, float, int]] = {}

    def add(self, provider: str, multihashes: int, seconds: float) -> None:
        count, spent, samples = self._by_provider.get(provider, (0, 0.0, 0))
        self._by_provider[provider] = (count + multihashes, spent + seconds, samples + 1)

    def drain(self) -> Mapping[str, tuple[int, float, int]]:
        rates, self._by_provider = self._by_provider, {}
        return rates


def format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_duration(seconds: float) -> str:
    """As Go writes durations: 1h2m3s, 15s, 250ms."""
    if seconds < 1:
        return f"{round(max(seconds, 0.0) * 1000)}ms"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else "") + f"{rest}s"
