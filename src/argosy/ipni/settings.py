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
    """What an indexer ingests, from whom, and when it freezes."""

    SECTION: ClassVar[str] = "ipni"

    dir: str = setting("{data}/ipni", doc="Directory of the index.")
    is_double_hashed: bool = setting(
        False, doc="Store second hashes too, for double-hashed lookups; about 20 more bytes per multihash."
    )
    key_file: str | None = setting(
        None,
        doc="File with the private key, as base64 of libp2p's encoding; by default one is created in the index.",
    )

    allow: bool = setting(True, doc="whether peers may publish and provide unless they are in allow_except")
    allow_except: tuple[str, ...] = setting((), doc="peer ids for which the opposite of allow holds")
    publish: bool = setting(True, doc="whether a peer may publish for another provider, unless in publish_except")
    publish_except: tuple[str, ...] = setting((), doc="publishers for which the opposite of publish holds")
    publishers_for: tuple[str, ...] = setting(
        (), doc="PROVIDER=PUBLISHER: only those named may publish for it; PROVIDER=!PUBLISHER: all but those named"
    )

    use_assigner: bool = setting(
        False, doc="Accept announcements only of publishers that an assigner has assigned to this indexer."
    )
    adopt_known: bool = setting(
        False, doc="with an assigner: publishers already known are assigned at start; otherwise offered as preferred"
    )

    freeze_at_percent: float = setting(
        90.0, max=100.0, doc="Disk usage in percent at which the indexer freezes; negative disables freezing."
    )
    unfreeze_on_start: bool = setting(
        False, doc="Unfreeze at start and resume where the indexer froze; the start fails while the disk is too full."
    )
    usage_file: str | None = setting(
        None,
        doc="File with the disk usage in percent, for disks such as network volumes.",
    )

    workers_max: int = setting(10, min=1, max=1000, doc="Publishers whose advertisements are applied concurrently.")
    scans_max: int = setting(32, min=1, max=1000, doc="Publishers whose chains are read concurrently.")
    waiting_max: int = setting(
        100_000, min=1, doc="Publishers that may wait for a sync; further announcements are rejected."
    )
    sync_timeout_s: float = setting(2 * HOUR_S, min=1.0, doc="Timeout of reading one chain.")
    segment_ads: int = setting(2000, min=1, max=100_000, doc="Advertisements stored per batch while a chain is read.")
    ads_depth_max: int = setting(
        1 << 22, min=1, doc="Maximum number of advertisements read from a chain; older ones are skipped."
    )
    first_depth: int = setting(
        0, min=0, doc="Maximum number of advertisements read on the first sync of a chain; 0 reads all."
    )
    entries_depth_max: int = setting(
        65_536, min=1, doc="Maximum number of entry blocks per advertisement; the rest is skipped."
    )
    pending_bytes_max: int = setting(
        256 * MIB,
        min=0,
        doc="Bytes of advertisements stored before they are applied, per publisher; more are read twice.",
    )
    bad_ads_pause_s: float = setting(
        2 * HOUR_S, min=0, doc="How long a publisher is ignored after it advertised a provider without an address."
    )

    poll_after_s: float = setting(DAY_S, min=1.0, doc="A publisher without contact for this long is polled.")
    poll_retry_s: float = setting(
        5 * HOUR_S, min=1.0, doc="Interval of further polls while the publisher does not answer."
    )
    deactivate_after_s: float = setting(
        7 * DAY_S, min=1.0, doc="A provider without contact for this long is hidden from finds."
    )
    remove_after_s: float = setting(14 * DAY_S, min=1.0, doc="A provider without contact for this long is removed.")
    tick_s: float = setting(60.0, min=0.05, max=HOUR_S, doc="Interval of maintenance: polls, disk usage, statistics.")
    sweep_entries: int = setting(50_000, min=1, doc="Removed entries freed per sweep.")
    sweep_s: float = setting(1.0, min=0.01, doc="Pause between two sweeps, so that ingest and finds have priority.")

    mirror_write: str | None = setting(
        None, doc="Directory to write a CAR file of every advertisement with entries to."
    )
    mirror_read: str | None = setting(None, doc="Directory whose CAR files are read instead of the publisher.")

    def check(self) -> Iterable[str]:
        if not self.poll_after_s <= self.deactivate_after_s <= self.remove_after_s:
            yield (
                f"poll_after_s ({self.poll_after_s}), deactivate_after_s ({self.deactivate_after_s}) and "
                f"remove_after_s ({self.remove_after_s}) must not fall"
            )
        if any("=" not in rule.strip("=") for rule in self.publishers_for):
            yield "publishers_for are written PROVIDER=PUBLISHER or PROVIDER=!PUBLISHER"


@dataclass(frozen=True)
class IndexerHttpSettings:
    """Listeners of an indexer. By default one port serves all three APIs; storetheindex uses 3000, 3001 and 3002."""

    SECTION: ClassVar[str] = "ipni_http"

    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(
        3000, min=0, max=65535, doc="Port of the find API and of every API without a port of its own; 0: any free port."
    )
    ingest_port: int | None = setting(None, min=0, max=65535, doc="port of announcements and sync status; 0: any")
    admin_port: int | None = setting(None, min=0, max=65535, doc="port of the admin API; 0: any")
    is_private_network: bool = setting(
        False,
        doc="Serve admin routes without a token, for storetheindex's clients; only in a private network.",
    )


@dataclass(frozen=True)
class SyncSettings:
    """Limits of reading chains from publishers."""

    SECTION: ClassVar[str] = "ipni_sync"

    allow_private: bool = setting(
        False, doc="whether publishers may be at private, loopback or link-local addresses; anyone can announce those"
    )
    grace_s: float = setting(10.0, min=0.05, doc="An answer may take this long, however slow it is.")
    rate_bytes_s_min: int = setting(64 * KIB, min=1, doc="Minimum average rate of an answer beyond the grace period.")
    head_bytes_max: int = setting(16 * KIB, min=KIB, doc="Maximum size of a signed head.")
    ad_bytes_max: int = setting(256 * KIB, min=KIB, doc="Maximum size of an advertisement.")
    entries_bytes_max: int = setting(
        4 * MIB, min=KIB, doc="Maximum size of a block of entries, compressed or decompressed."
    )
    connections_max: int = setting(128, min=1, doc="connections to publishers at one time")
    connections_per_host_max: int = setting(8, min=1, doc="connections to one publisher's host at one time")


@dataclass(frozen=True)
class AssignerSettings:
    """Assignment of publishers to indexers; the pool file overrides these settings."""

    SECTION: ClassVar[str] = "assigner"

    host: str = setting("127.0.0.1", doc="Address to listen on.")
    port: int = setting(3001, min=0, max=65535, doc="port to listen on; 0 takes a free one")
    pool_file: str | None = setting(None, doc="JSON or TOML file with the list of indexers; read again when it changes")
    replication: int = setting(1, min=1, doc="how many indexers ingest each publisher")
    preset_replication: int = setting(1, min=1, doc="how many of its preset indexers ingest a publisher that has some")
    is_open: bool = setting(True, doc="every publisher is handled but the exceptions; if false, only they are")
    exceptions: tuple[str, ...] = setting((), doc="peer ids of publishers that are exceptions to is_open")
    forward_urls: tuple[str, ...] = setting(
        (), doc="Ingest URLs that receive every announcement, regardless of assignment."
    )
    poll_s: float = setting(300.0, min=0, doc="Interval of polling the indexers for their state; 0 disables polling.")
    is_resending: bool = setting(True, doc="pass announcements on to the indexers that follow the publisher already")
    is_filtering: bool = setting(False, doc="drop private and loopback addresses from announcements")
    indexer_token: str | None = setting(None, secret=True, doc="Bearer token for the admin APIs of the indexers.")
    call_s: float = setting(10.0, min=0.1, max=600, doc="Timeout of a request to an indexer.")
    watch_s: float = setting(5.0, min=0.1, doc="Interval of checking the pool file for changes.")


@dataclass(frozen=True)
class KeyspaceSettings:
    """The keyspace: query nodes, each with a part of the multihashes, and the indexers that write to them."""

    SECTION: ClassVar[str] = "keyspace"

    layout_file: str | None = setting(
        None, doc="JSON or TOML file with the nodes of the keyspace; an indexer that has one stores no entries itself"
    )
    node: str = setting("", doc="Name of this query node in the layout file.")
    dir: str = setting("{data}/keyspace", doc="Directory of a query node's part of the index.")
    is_double_hashed: bool = setting(False, doc="Store second hashes too, as ipni.is_double_hashed.")
    host: str = setting("127.0.0.1", doc="Address that a query node listens on.")
    port: int = setting(3010, min=0, max=65535, doc="port to listen on; 0 takes a free one")
    token: str | None = setting(None, secret=True, doc="Bearer token of requests to query nodes.")
    call_s: float = setting(10.0, min=0.1, max=600, doc="Timeout of a request to a query node.")
    unreachable_s: float = setting(2.0, min=0, max=600, doc="For how long a node that did not answer is tried last.")
    attempts_max: int = setting(6, min=1, max=100, doc="Attempts per request.")
    indexer_urls: tuple[str, ...] = setting(
        (), doc="Find URLs of the indexers that write to the keyspace; the frontend reads their providers."
    )
    providers_s: float = setting(30.0, min=0.1, max=86_400, doc="Interval of refreshing the providers.")
    idle_s: float = setting(1.0, min=0.01, max=3600, doc="Interval of checking for a new layout and for work.")
    page_entries: int = setting(8192, min=1, max=16_384, doc="Entries per request when slots move.")
    clear_entries: int = setting(20_000, min=1, doc="Entries deleted or swept at a time; requests run in between.")

    def check(self) -> Iterable[str]:
        if self.layout_file is not None and not self.token:
            yield "token must be set with layout_file, because nodes store what its bearer sends"
