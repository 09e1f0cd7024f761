"""Settings of the content index: the indexer, its HTTP listeners, reading chains, the assigner, the keyspace."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

KIB = 1 << 10
MIB = 1 << 20
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@dataclass(frozen=True)
class IndexerSettings:
    """What an indexer ingests and from which publishers, and when it freezes."""

    SECTION: ClassVar[str] = "ipni"

    dir: str = setting("{data}/ipni", doc="directory of the index")
    is_double_hashed: bool = setting(
        False, doc="store second hashes too, for double-hashed lookups; about 20 more bytes per multihash"
    )
    key_file: str | None = setting(
        None,
        doc="file with the private key, as base64 of libp2p's encoding; by default one is created in the index",
    )

    allow: bool = setting(True, doc="allow peers to publish and provide, except those in allow_except")
    allow_except: tuple[str, ...] = setting((), doc="peer ids to which the opposite of allow applies")
    publish: bool = setting(True, doc="allow peers to publish for other providers, except those in publish_except")
    publish_except: tuple[str, ...] = setting((), doc="publishers to which the opposite of publish applies")
    publishers_for: tuple[str, ...] = setting(
        (), doc="PROVIDER=PUBLISHER: only those named may publish for it; PROVIDER=!PUBLISHER: all but those named"
    )

    use_assigner: bool = setting(
        False, doc="accept announcements only of publishers that an assigner has assigned to this indexer"
    )
    adopt_known: bool = setting(
        False,
        doc="with an assigner: assign known publishers at start; otherwise they are offered as preferred publishers",
    )

    freeze_at_percent: float = setting(
        90.0, max=100.0, doc="disk usage in percent at which the indexer freezes; negative disables freezing"
    )
    unfreeze_on_start: bool = setting(
        False, doc="unfreeze at start and resume where the indexer froze; the start fails while the disk is too full"
    )
    usage_file: str | None = setting(
        None,
        doc="file with the disk usage in percent, for disks such as network volumes",
    )

    # Concurrency, timeouts and intervals are storetheindex's defaults, so that operators who move here see the same
    # behaviour.
    workers_max: int = setting(10, min=1, max=1000, doc="publishers whose advertisements are applied concurrently")
    scans_max: int = setting(32, min=1, max=1000, doc="publishers whose chains are read concurrently")
    waiting_max: int = setting(
        100_000, min=1, doc="publishers that may wait for a sync; further announcements are rejected"
    )
    sync_timeout_s: float = setting(2 * HOUR_S, min=1.0, doc="timeout of reading one chain")
    segment_ads: int = setting(2000, min=1, max=100_000, doc="advertisements stored per batch while a chain is read")
    ads_depth_max: int = setting(
        1 << 22, min=1, doc="maximum number of advertisements read from a chain; older ones are skipped"
    )
    first_depth: int = setting(
        0, min=0, doc="maximum number of advertisements read on the first sync of a chain; 0 reads all"
    )
    entries_depth_max: int = setting(
        65_536, min=1, doc="maximum number of entry blocks per advertisement; the rest is skipped"
    )
    pending_bytes_max: int = setting(
        256 * MIB,
        min=0,
        doc="bytes of advertisements stored before they are applied, per publisher; more are read twice",
    )
    bad_ads_pause_s: float = setting(
        2 * HOUR_S, min=0, doc="how long a publisher is ignored after it advertised a provider without an address"
    )

    # Announcements are hints. With these defaults a publisher that went silent is polled about 29 times before it is
    # hidden.
    poll_after_s: float = setting(DAY_S, min=1.0, doc="a publisher without contact for this long is polled")
    poll_retry_s: float = setting(
        5 * HOUR_S, min=1.0, doc="interval of further polls while the publisher does not answer"
    )
    deactivate_after_s: float = setting(
        7 * DAY_S, min=1.0, doc="a provider without contact for this long is hidden from finds"
    )
    remove_after_s: float = setting(14 * DAY_S, min=1.0, doc="a provider without contact for this long is removed")
    tick_s: float = setting(60.0, min=0.05, max=HOUR_S, doc="interval of maintenance: polls, disk usage, statistics")
    sweep_entries: int = setting(50_000, min=1, doc="removed entries freed per sweep")
    sweep_s: float = setting(1.0, min=0.01, doc="pause between two sweeps, so that ingest and finds have priority")

    mirror_write: str | None = setting(None, doc="directory to write a CAR file of every advertisement with entries to")
    mirror_read: str | None = setting(None, doc="directory whose CAR files are read instead of the publisher")

    def check(self) -> Iterable[str]:
        if not self.poll_after_s <= self.deactivate_after_s <= self.remove_after_s:
            yield (
                f"poll_after_s ({self.poll_after_s}), deactivate_after_s ({self.deactivate_after_s}) and "
                f"remove_after_s ({self.remove_after_s}) must be in ascending order"
            )
        if any("=" not in rule.strip("=") for rule in self.publishers_for):
            yield "publishers_for must have the form PROVIDER=PUBLISHER or PROVIDER=!PUBLISHER"


@dataclass(frozen=True)
class IndexerHttpSettings:
    """Listeners of an indexer. By default one port serves all three APIs; storetheindex uses 3000, 3001 and 3002."""

    SECTION: ClassVar[str] = "ipni_http"

    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(
        3000,
        min=0,
        max=65535,
        doc="port of the find API and of every API without a port of its own; 0 selects a free port",
    )
    ingest_port: int | None = setting(
        None, min=0, max=65535, doc="port of announcements and sync status; 0 selects a free port"
    )
    admin_port: int | None = setting(None, min=0, max=65535, doc="port of the admin API; 0 selects a free port")
    is_private_network: bool = setting(
        False,
        doc="serve admin routes without a token, for storetheindex's clients; only in a private network",
    )


@dataclass(frozen=True)
class SyncSettings:
    """Limits of reading chains from publishers."""

    SECTION: ClassVar[str] = "ipni_sync"

    allow_private: bool = setting(
        False, doc="allow publishers at private, loopback or link-local addresses, which any client can announce"
    )
    # 10 s is the request timeout of Go's sync client, so a publisher that serves those serves this one too.
    grace_s: float = setting(10.0, min=0.05, doc="time that a response may take whatever its rate")
    rate_bytes_s_min: int = setting(
        64 * KIB, min=1, doc="minimum average rate of a response that takes longer than grace_s"
    )
    head_bytes_max: int = setting(16 * KIB, min=KIB, doc="maximum size of a signed head")
    ad_bytes_max: int = setting(256 * KIB, min=KIB, doc="maximum size of an advertisement")
    # The specification asks publishers to keep blocks below 4 MB.
    entries_bytes_max: int = setting(
        4 * MIB, min=KIB, doc="maximum size of a block of entries, compressed or decompressed"
    )
    connections_max: int = setting(128, min=1, doc="maximum number of concurrent connections to publishers")
    connections_per_host_max: int = setting(
        8, min=1, doc="maximum number of concurrent connections to the host of one publisher"
    )


@dataclass(frozen=True)
class AssignerSettings:
    """Assignment of publishers to indexers; the pool file overrides these settings."""

    SECTION: ClassVar[str] = "assigner"

    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(3001, min=0, max=65535, doc="port to listen on; 0 selects a free port")
    pool_file: str | None = setting(None, doc="JSON or TOML file with the list of indexers; reloaded when it changes")
    replication: int = setting(1, min=1, doc="number of indexers that ingest each publisher")
    preset_replication: int = setting(
        1, min=1, doc="number of its preset indexers that ingest a publisher with presets"
    )
    is_open: bool = setting(True, doc="handle all publishers except the exceptions; if false, only the exceptions")
    exceptions: tuple[str, ...] = setting((), doc="peer ids of publishers that are exceptions to is_open")
    forward_urls: tuple[str, ...] = setting(
        (), doc="ingest URLs that receive every announcement, regardless of assignment"
    )
    poll_s: float = setting(300.0, min=0, doc="interval of polling the indexers for their state; 0 disables polling")
    is_resending: bool = setting(True, doc="also forward announcements to indexers that already have the publisher")
    is_filtering: bool = setting(False, doc="drop private and loopback addresses from announcements")
    indexer_token: str | None = setting(None, secret=True, doc="bearer token for the admin APIs of the indexers")
    call_s: float = setting(10.0, min=0.1, max=600, doc="timeout of a request to an indexer")
    watch_s: float = setting(5.0, min=0.1, doc="interval of checking the pool file for changes")


@dataclass(frozen=True)
class KeyspaceSettings:
    """The keyspace: query nodes, each with a part of the multihashes, and the indexers that write to them."""

    SECTION: ClassVar[str] = "keyspace"

    layout_file: str | None = setting(
        None, doc="JSON or TOML file with the nodes of the keyspace; an indexer that has one stores no entries itself"
    )
    node: str = setting("", doc="name of this query node in the layout file")
    dir: str = setting("{data}/keyspace", doc="directory of a query node's part of the index")
    is_double_hashed: bool = setting(False, doc="store second hashes too, as ipni.is_double_hashed")
    host: str = setting("127.0.0.1", doc="address that a query node listens on")
    port: int = setting(3010, min=0, max=65535, doc="port to listen on; 0 selects a free port")
    token: str | None = setting(None, secret=True, doc="bearer token of requests to query nodes")
    call_s: float = setting(10.0, min=0.1, max=600, doc="timeout of a request to a query node")
    unreachable_s: float = setting(2.0, min=0, max=600, doc="for how long a node that did not answer is tried last")
    attempts_max: int = setting(6, min=1, max=100, doc="attempts per request")
    indexer_urls: tuple[str, ...] = setting(
        (), doc="find URLs of the indexers that write to the keyspace; the frontend reads their providers"
    )
    providers_s: float = setting(30.0, min=0.1, max=86_400, doc="interval of refreshing the providers")
    idle_s: float = setting(1.0, min=0.01, max=3600, doc="interval of checking for a new layout and for work")
    page_entries: int = setting(8192, min=1, max=16_384, doc="entries per request when slots move")
    clear_entries: int = setting(20_000, min=1, doc="entries deleted or swept at a time; requests run in between")

    def check(self) -> Iterable[str]:
        if self.layout_file is not None and not self.token:
            yield "token must be set with layout_file, because nodes store what its bearer sends"
