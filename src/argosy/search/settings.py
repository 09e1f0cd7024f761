"""Settings of a search node: memory, freshness, and how repositories are fetched."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class SearchSettings:
    """Index memory, refresh intervals and eviction."""

    SECTION: ClassVar[str] = "search"

    budget_bytes: int | None = setting(
        None, min=1, doc="memory for all indexes; default: budget_share of what the process may use"
    )
    budget_share: float = setting(
        0.7,
        min=0.05,
        max=0.95,
        doc="share of the process memory for indexes; the rest is for builds, results and the interpreter",
    )
    high_watermark: float = setting(0.95, min=0.1, max=1.0, doc="eviction starts above this share of the budget")
    low_watermark: float = setting(0.85, min=0.05, max=1.0, doc="eviction stops below this share of the budget")
    evict_by: str = setting(
        "lru", choices=("lru", "cost"), doc="eviction order: least recently searched, or largest for its traffic"
    )
    builds_max: int = setting(2, min=1, max=64, doc="concurrent index builds; each uses a core")
    fetches_max: int = setting(4, min=1, max=64, doc="concurrent fetches")
    origin_checks_max: int = setting(8, min=1, max=256, doc="concurrent checks of origins for new commits")
    refresh_s: float = setting(60.0, min=1.0, doc="interval between checks of an origin for new commits")
    retry_first_s: float = setting(5.0, min=0.1, doc="delay after the first failed refresh; doubles each time")
    retry_ceiling_s: float = setting(900.0, min=1.0, doc="longest delay between retries")
    verify_s: float = setting(600.0, min=1.0, doc="interval between checksum verifications of an index")
    with_symbols: bool = setting(True, doc="index symbol definitions; builds are about four times faster without")
    file_bytes_max: int = setting(2 * MIB, min=1, doc="larger files are listed without content")
    result_files_max: int = setting(10_000, min=1, doc="files in one search result of a node")
    snapshot_dir: str | None = setting(
        None, doc="directory for snapshots of very large indexes, read after a restart; default: no snapshots"
    )
    snapshot_min_bytes: int = setting(GIB, min=1, doc="smaller indexes are not snapshotted")
    snapshot_bytes_max: int = setting(64 * GIB, min=1, doc="the oldest snapshots are deleted above this size")

    advertise: bool = setting(
        False, doc="advertise the sha2-256 of every indexed file to a content index, and serve files by digest"
    )
    advertise_dir: str = setting(
        "{data}/advertised", doc="directory of the publisher key and the advertisement chain; one per node"
    )
    announce_urls: tuple[str, ...] = setting((), doc="indexers and assigners to announce to, as http://host:port")
    announce_s: float = setting(3600.0, min=1.0, doc="interval of repeated announcements")

    # With equal marks, eviction would start again with every index that is added.
    def check(self) -> Iterable[str]:
        if self.low_watermark >= self.high_watermark:
            yield f"low_watermark ({self.low_watermark}) must be below high_watermark ({self.high_watermark})"


@dataclass(frozen=True)
class FetchSettings:
    """How repositories are fetched."""

    SECTION: ClassVar[str] = "fetch"

    mode: str = setting(
        "mirror",
        choices=("mirror", "shallow"),
        doc="mirror fetches into bare mirrors, shallow clones the tip each time",
    )
    dir: str = setting(
        "{data}/mirrors", doc="directory of mirrors and temporary clones; may be shared by several nodes"
    )
    dir_bytes_max: int = setting(50 * GIB, min=MIB, doc="the least recently used mirrors are deleted above this size")
    timeout_s: float = setting(1800.0, min=1.0, doc="timeout of one clone or fetch")
    ls_remote_timeout_s: float = setting(30.0, min=1.0, doc="timeout of one git ls-remote")
    repository_bytes_max: int = setting(20 * GIB, min=MIB, doc="the fetch of a larger repository is aborted")
    allow_local: bool = setting(
        False, doc="allow local paths and file:// URLs; users who may add repositories can then read those files"
    )
    allow_private: bool = setting(
        True, doc="allow origins at private addresses; a redirect from a public to a private address is always rejected"
    )
    credentials_file: str | None = setting(
        None, doc="file with lines https://user:token@host, the format of git-credential-store"
    )
    credentials_command: str | None = setting(
        None, doc="run as `COMMAND host`; prints user:token; run again when a token is rejected or 5 minutes old"
    )
