"""The numbers of a search node: what it keeps in memory, and how it fetches."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class SearchSettings:
    """What a node keeps in memory and how it keeps it fresh."""

    SECTION: ClassVar[str] = "search"

    budget_bytes: int | None = setting(
        None, min=1, doc="memory all indexes together may take; by default budget_share of what this process may use"
    )
    budget_share: float = setting(0.7, min=0.05, max=0.95, doc="the rest is for builds, answers and the interpreter")
    high_watermark: float = setting(0.95, min=0.1, max=1.0, doc="part of the budget above which indexes are evicted")
    low_watermark: float = setting(0.85, min=0.05, max=1.0, doc="part of the budget down to which they are evicted")
    evict_by: str = setting(
        "lru", choices=("lru", "cost"), doc="who goes first: the longest unserved, or the largest for its traffic"
    )
    builds_max: int = setting(2, min=1, max=64, doc="indexes built at a time; the kernels use a core each")
    fetches_max: int = setting(4, min=1, max=64, doc="repositories fetched at a time")
    looks_max: int = setting(8, min=1, max=256, doc="origins asked for new commits at a time")
    refresh_s: float = setting(60.0, min=1.0, doc="how often an origin is asked for new commits")
    retry_first_s: float = setting(5.0, min=0.1, doc="wait after a first failure to refresh; doubles each time")
    retry_ceiling_s: float = setting(900.0, min=1.0, doc="longest wait between two tries")
    check_s: float = setting(600.0, min=1.0, doc="each index is checked against its checksums this often")
    with_symbols: bool = setting(True, doc="find definitions; building is about four times faster without")
    file_bytes_max: int = setting(2 * MIB, min=1, doc="content of larger files is not indexed")
    result_files_max: int = setting(10_000, min=1, doc="files one answer of a node may carry")
    snapshot_dir: str | None = setting(
        None, doc="where very large indexes are kept on disk to come back quickly after a restart; off by default"
    )
    snapshot_min_bytes: int = setting(GIB, min=1, doc="smaller indexes are never kept on disk")
    snapshot_bytes_max: int = setting(64 * GIB, min=1, doc="above this the oldest on disk are deleted")

    advertise: bool = setting(
        False, doc="tell a content index the sha2-256 of every indexed file, and give files to whoever asks by it"
    )
    advertise_folder: str = setting(
        "{data}/advertised", doc="where the key and the chain of what is advertised lie; a folder for each node"
    )
    announce_urls: tuple[str, ...] = setting((), doc="indexers and assigners that are told of it, as http://host:port")
    announce_s: float = setting(3600.0, min=1.0, doc="they are told again this often, for one may have forgotten")

    def check(self) -> Iterable[str]:
        if self.low_watermark >= self.high_watermark:
            yield f"low_watermark ({self.low_watermark}) must be below high_watermark ({self.high_watermark})"


@dataclass(frozen=True)
class FetchSettings:
    """How repositories come to this machine."""

    SECTION: ClassVar[str] = "fetch"

    mode: str = setting(
        "mirror", choices=("mirror", "shallow"), doc="keep bare mirrors and fetch into them, or clone the tip each time"
    )
    folder: str = setting("{data}/mirrors", doc="where mirrors and passing clones lie; several nodes may share it")
    folder_bytes_max: int = setting(50 * GIB, min=MIB, doc="mirrors longest unused are deleted above this size")
    timeout_s: float = setting(1800.0, min=1.0, doc="one clone or fetch may take this long")
    ask_timeout_s: float = setting(30.0, min=1.0, doc="one look at an origin's branches may take this long")
    repository_bytes_max: int = setting(20 * GIB, min=MIB, doc="larger repositories are refused while they are fetched")
    allow_local: bool = setting(False, doc="whether paths and file:// may be added; whoever may add can then read them")
    allow_private: bool = setting(
        True, doc="whether origins may be at private addresses; a redirect from a public one to a private one never is"
    )
    credentials_file: str | None = setting(
        None, doc="lines of https://user:token@host, as git's own credential store keeps them"
    )
    credentials_command: str | None = setting(
        None, doc="run as `COMMAND host`; prints user:token, asked again when it is refused or older than 5 minutes"
    )
