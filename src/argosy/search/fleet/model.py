"""Requests and results between gateways and search nodes, as msgpack.

A request names its repositories. A node answers for those alone, and gives a reason for each that it could not search.
"""

from enum import Enum

import msgspec

from argosy.search.model import Branch, Missing, Options, Repository


class RepoSpec(msgspec.Struct, frozen=True):
    """The desired state of one repository, with what the catalog recorded of it. Times are milliseconds since 1970."""

    name: str
    url: str  # or a path, where the settings allow it
    branches: tuple[str, ...] = ()  # empty: the branch the origin's HEAD points to
    is_pinned: bool = False
    footprint_bytes: int | None = None  # memory of the last index
    replicas: int = 0
    max_bids: int | None = None
    reindex_requested_at: int | None = None
    pushed_at: int | None = None  # last push notification of its origin
    last_commit: str | None = None
    last_indexed_at: int | None = None
    failures: int = 0
    last_error: str | None = None
    last_failed_at: int | None = None


class Phase(Enum):
    """State of a repository on a node."""

    WAITING = "waiting"  # queued
    FETCHING = "fetching"  # from its origin
    RECEIVING = "receiving"  # the finished index, from another node
    INDEXING = "indexing"
    READY = "ready"
    FAILED = "failed"  # a retry is due at `retry_at`


class RepoStatus(msgspec.Struct, frozen=True):
    """State of one held repository."""

    name: str
    phase: Phase
    replica: int = 0
    reason: str = ""  # of the last failure, redacted
    progress: float = 0.0  # of fetching, receiving or indexing, 0 to 1
    is_refreshing: bool = False  # ready, and a newer index is under way
    is_pinned: bool = False
    branches: tuple[Branch, ...] = ()
    documents: int = 0
    content_bytes: int = 0
    memory_bytes: int = 0
    fetch_time_ms: float = 0.0
    index_time_ms: float = 0.0
    claim_latency_s: float = 0.0  # from unowned to held
    indexed_at: float = 0.0  # seconds since 1970, as the next two
    last_served_at: float = 0.0
    retry_at: float = 0.0
    searches: int = 0


class NodeStatus(msgspec.Struct, frozen=True):
    """State of one node."""

    node: str
    address: str
    version: str
    started_at: float
    is_draining: bool
    budget_bytes: int  # memory budget of all indexes
    held_bytes: int  # memory of all indexes
    free_bytes: int  # the amount of its next bid
    repositories: tuple[RepoStatus, ...] = ()


class SearchRequest(msgspec.Struct, frozen=True):
    """A query over some repositories. `query` is its encoded tree with a version (search/query/codec.py): bytes,
    because a gateway encodes a query once and sends it to many nodes."""

    query: bytes
    repositories: tuple[str, ...]
    options: Options = Options()


class RepoListing(msgspec.Struct, frozen=True):
    """One repository of a list, with counts of its index."""

    repository: Repository
    documents: int = 0
    content_bytes: int = 0
    memory_bytes: int = 0
    lines: int = 0
    indexed_at: float = 0.0
    has_symbols: bool = False
    languages: dict[str, int] = {}  # documents in each


class ListResult(msgspec.Struct, frozen=True):
    """The repositories that satisfy a query, and those that could not be searched."""

    entries: tuple[RepoListing, ...] = ()
    missing: tuple[Missing, ...] = ()


class FileRequest(msgspec.Struct, frozen=True):
    repository: str
    path: str
    branch: str = ""  # "": the first branch


class OutlineEntry(msgspec.Struct, frozen=True):
    """A definition in a file; `parent` is the position of the enclosing one in the same list, or -1."""

    name: str
    kind: str
    line: int
    parent: int = -1


class FileText(msgspec.Struct, frozen=True):
    """A file as indexed."""

    repository: Repository
    path: str
    content: bytes
    language: str = ""
    branches: tuple[str, ...] = ()
    version: str = ""
    skipped: str = ""  # the reason why content is missing
    outline: tuple[OutlineEntry, ...] = ()


class FolderRequest(msgspec.Struct, frozen=True):
    repository: str
    path: str = ""  # "": the root
    branch: str = ""


class FolderListing(msgspec.Struct, frozen=True):
    """The names in a folder; subfolders end with a slash and come first."""

    repository: Repository
    path: str
    names: tuple[str, ...] = ()
    is_cut: bool = False  # cut at the limit of names
