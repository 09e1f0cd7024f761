"""The numbers of an indexer, declared once, with the reason for each."""

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
    """What an indexer takes in, from whom, and when it stops."""

    SECTION: ClassVar[str] = "ipni"

    dir: str = setting("{data}/ipni", doc="where the index lies")
    is_double_hashed: bool = setting(
        False, doc="keep second hashes too, for readers who hide what they look for; about 20 bytes more for each"
    )
    key_file: str | None = setting(
        None, doc="file with the private key, as base64 of what libp2p writes; by default one is made and kept inside"
    )

    allow: bool = setting(True, doc="whether peers may publish and provide unless they are in allow_except")
    allow_except: tuple[str, ...] = setting((), doc="peer ids for which the opposite of allow holds")
    publish: bool = setting(True, doc="whether a peer may publish for another provider, unless in publish_except")
    publish_except: tuple[str, ...] = setting((), doc="publishers for which the opposite of publish holds")
    publishers_for: tuple[str, ...] = setting(
        (), doc="PROVIDER=PUBLISHER: only those named may publish for it; PROVIDER=!PUBLISHER: all but those named"
    )

    use_assigner: bool = setting(False, doc="only publishers that an assigner has given to this indexer may announce")
    adopt_known: bool = setting(
        False, doc="with an assigner: publishers already known are assigned at start; otherwise offered as preferred"
    )

    freeze_at_percent: float = setting(
        90.0, max=100.0, doc="usage of a disk at which no more entries are stored; negative turns freezing off"
    )
    unfreeze_on_start: bool = setting(
        False, doc="begin again where the indexer froze; start fails while the disk is still too full"
    )
    usage_file: str | None = setting(
        None, doc="file with the percentage in use, for disks whose own figures mean nothing, such as network volumes"
    )

    workers_max: int = setting(10, min=1, max=1000, doc="publishers whose advertisements are applied at one time")
    scans_max: int = setting(32, min=1, max=1000, doc="publishers whose chains are read at one time")
    waiting_max: int = setting(100_000, min=1, doc="publishers that may wait; further announcements are refused")
    sync_timeout_s: float = setting(2 * HOUR_S, min=1.0, doc="reading one chain may take this long")
    segment_ads: int = setting(2000, min=1, max=100_000, doc="advertisements written down at a time while reading")
    ads_depth_max: int = setting(1 << 22, min=1, doc="how far back a chain is read; older advertisements are left out")
    first_depth: int = setting(0, min=0, doc="how far back a chain is read the first time; 0 reads all of it")
    entries_depth_max: int = setting(65_536, min=1, doc="blocks of entries of one advertisement; the rest is left out")
    pending_bytes_max: int = setting(
        256 * MIB, min=0, doc="advertisements kept between reading and applying, per publisher; more are read twice"
    )
    bad_ads_pause_s: float = setting(
        2 * HOUR_S, min=0, doc="a publisher of a provider without any address is not listened to for this long"
    )

    poll_after_s: float = setting(DAY_S, min=1.0, doc="a publisher not heard of for this long is asked for news")
    poll_retry_s: float = setting(5 * HOUR_S, min=1.0, doc="and again after this long, while it does not answer")
    deactivate_after_s: float = setting(7 * DAY_S, min=1.0, doc="silence after which a provider is hidden from finds")
    remove_after_s: float = setting(14 * DAY_S, min=1.0, doc="silence after which a provider is removed")
    tick_s: float = setting(60.0, min=0.05, max=HOUR_S, doc="how often silence, usage and figures are looked at")
    sweep_entries: int = setting(50_000, min=1, doc="removed entries whose space is freed at a time")
    sweep_s: float = setting(1.0, min=0.01, doc="pause between two sweeps, for ingest and finds to go first")

    mirror_write: str | None = setting(None, doc="folder that gets a CAR file of every advertisement with entries")
    mirror_read: str | None = setting(None, doc="folder whose CAR files are read instead of asking the publisher")

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
    """An indexer's own ports. With one port all three surfaces are on it; the original has them on 3000, 3001, 3002."""

    SECTION: ClassVar[str] = "ipni_http"

    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(3000, min=0, max=65535, doc="port of finds, and of all that has no port of its own; 0: any")
    ingest_port: int | None = setting(None, min=0, max=65535, doc="port of announcements and sync status; 0: any")
    admin_port: int | None = setting(None, min=0, max=65535, doc="port of the admin API; 0: any")
    is_private_network: bool = setting(
        False, doc="admin routes take no token, as the original's clients expect: only where nobody else can reach them"
    )


@dataclass(frozen=True)
class SyncSettings:
    """The bounds of reading from publishers."""

    SECTION: ClassVar[str] = "ipni_sync"

    allow_private: bool = setting(
        False, doc="whether publishers may be at private, loopback or link-local addresses; anyone can announce those"
    )
    grace_s: float = setting(10.0, min=0.05, doc="an answer may take this long, however little of it comes")
    rate_bytes_s_min: int = setting(
        64 * KIB, min=1, doc="beyond the grace, an answer must have come at this rate on the whole, or it is given up"
    )
    head_bytes_max: int = setting(16 * KIB, min=KIB, doc="a larger signed head is refused")
    ad_bytes_max: int = setting(256 * KIB, min=KIB, doc="a larger advertisement is refused")
    entries_bytes_max: int = setting(4 * MIB, min=KIB, doc="a larger block of entries is refused, packed or unpacked")
    connections_max: int = setting(128, min=1, doc="connections to publishers at one time")
    connections_per_host_max: int = setting(8, min=1, doc="connections to one publisher's host at one time")
