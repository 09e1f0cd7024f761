"""What nodes are asked and what they tell: the words between a front door and the nodes behind it.

These structs travel as msgpack. A question names the repositories it is about, so that a node answers for those alone,
and says of each that it could not look at why.
"""

from enum import Enum

import msgspec

from argosy.search.model import Branch, Missing, Options, Repository


class RepoSpec(msgspec.Struct, frozen=True):
    """A repository that should be searchable, as the catalog has it. Times are milliseconds since 1970."""

    name: str
    url: str  # or a path, where the settings allow it
    branches: tuple[str, ...] = ()  # none: whatever the origin's HEAD points to
    is_pinned: bool = False
    footprint_bytes: int | None = None  # memory it took when it was last indexed
    replicas: int = 0
    max_bids: int | None = None
    reindex_requested_at: int | None = None
    pushed_at: int | None = None  # when its origin last said that it has news
    last_commit: str | None = None
    last_indexed_at: int | None = None
    failures: int = 0
    last_error: str | None = None
    last_failed_at: int | None = None


class Phase(Enum):
    """How far a node is with a repository."""

    WAITING = "waiting"  # held, in line behind others
    FETCHING = "fetching"  # from its origin
    RECEIVING = "receiving"  # the finished index, from the node that has it
    INDEXING = "indexing"
    READY = "ready"
    FAILED = "failed"  # tried, and not tried again before a while


class RepoStatus(msgspec.Struct, frozen=True):
    """What a node tells of one repository it works on."""

    name: str
    phase: Phase
    replica: int = 0
    reason: str = ""  # why it failed, fit to be shown
    progress: float = 0.0  # of fetching, receiving or indexing: 0 to 1
    is_refreshing: bool = False  # ready, and a newer index is being made
    is_pinned: bool = False
    branches: tuple[Branch, ...] = ()
    documents: int = 0
    content_bytes: int = 0
    memory_bytes: int = 0
    fetch_time_ms: float = 0.0
    index_time_ms: float = 0.0
    claim_latency_s: float = 0.0  # from open to held
    indexed_at: float = 0.0  # seconds since 1970, as the next two
    last_served_at: float = 0.0
    retry_at: float = 0.0
    searches: int = 0


class NodeStatus(msgspec.Struct, frozen=True):
    """What a node tells of itself."""

    node: str
    address: str
    version: str
    started_at: float
    is_draining: bool
    budget_bytes: int  # memory its indexes may take
    held_bytes: int  # memory they take
    free_bytes: int  # what it would bid
    repositories: tuple[RepoStatus, ...] = ()


class SearchRequest(msgspec.Struct, frozen=True):
    """A query about some repositories. The text is a query's printed form; every node parses it anew."""

    query: str
    repositories: tuple[str, ...]
    options: Options = Options()


class RepoListing(msgspec.Struct, frozen=True):
    """One repository in a list, with what its index holds."""

    repository: Repository
    documents: int = 0
    content_bytes: int = 0
    memory_bytes: int = 0
    lines: int = 0
    indexed_at: float = 0.0
    has_symbols: bool = False
    languages: dict[str, int] = {}  # documents in each


class ListResult(msgspec.Struct, frozen=True):
    """The repositories that satisfy a query, and those nobody could look at."""

    entries: tuple[RepoListing, ...] = ()
    missing: tuple[Missing, ...] = ()


class FileRequest(msgspec.Struct, frozen=True):
    repository: str
    path: str
    branch: str = ""  # "" is the first one


class OutlineEntry(msgspec.Struct, frozen=True):
    """A definition in a file; `parent` is the enclosing one's place in the same list, or -1."""

    name: str
    kind: str
    line: int
    parent: int = -1


class FileText(msgspec.Struct, frozen=True):
    """A file as it was indexed."""

    repository: Repository
    path: str
    content: bytes
    language: str = ""
    branches: tuple[str, ...] = ()
    version: str = ""
    skipped: str = ""  # why there is no content
    outline: tuple[OutlineEntry, ...] = ()


class FolderRequest(msgspec.Struct, frozen=True):
    repository: str
    path: str = ""  # "" is the top
    branch: str = ""


class FolderListing(msgspec.Struct, frozen=True):
    """What lies in a folder; folders end with a slash and come first."""

    repository: Repository
    path: str
    names: tuple[str, ...] = ()
    is_cut: bool = False  # there are more names than are told
