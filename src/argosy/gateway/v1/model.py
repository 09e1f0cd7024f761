"""Responses of the v1 API. Text is UTF-8 (invalid bytes become U+FFFD), offsets are bytes in the file,
lines and columns count from one, columns in characters, times are seconds since 1970."""

from typing import Literal, TypeAlias

import msgspec

from argosy.gateway.ports import RepoState
from argosy.search.model import Branch, LimitHit, Location, MissingReason, Stats

Encoding: TypeAlias = Literal["utf-8", "base64"]


class FoundDefinition(msgspec.Struct, frozen=True):
    """The definition that contains a match."""

    name: str
    kind: str
    parent: str = ""
    parent_kind: str = ""


class FoundRange(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    start: Location
    end: Location
    symbol: FoundDefinition | None = None


class FoundChunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whole lines, or the file's name, with matches in them."""

    text: str
    start: Location
    ranges: list[FoundRange]
    best_line: int
    score: float
    in_file_name: bool = False
    clipped: bool = False  # long lines are truncated
    explanation: str = ""


class FoundFragment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A match within a line; `line_offset` and `length` are bytes."""

    line_offset: int
    offset: int
    length: int
    symbol: FoundDefinition | None = None


class FoundLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line with matches; number 0 is the file's name."""

    number: int
    text: str
    start: int
    end: int
    fragments: list[FoundFragment]
    score: float
    before: list[str] = []
    after: list[str] = []
    in_file_name: bool = False
    clipped: bool = False
    explanation: str = ""


class FoundFile(msgspec.Struct, frozen=True, omit_defaults=True):
    repository: str
    path: str
    language: str
    branches: list[str]
    version: str
    score: float
    match_count: int
    url: str = ""  # on the code host
    chunks: list[FoundChunk] = []
    lines: list[FoundLine] = []
    content: str | None = None
    skipped: str = ""  # why the content was not indexed
    explanation: str = ""


class MissingRepository(msgspec.Struct, frozen=True):
    """A repository missing from the result, and why."""

    repository: str
    why: MissingReason
    detail: str


class SearchResponse(msgspec.Struct, frozen=True):
    """`complete` is false if a limit was hit (`limits_hit`) or a repository could not be searched (`missing`)."""

    query: str
    complete: bool
    files: list[FoundFile]
    stats: Stats
    limits_hit: list[LimitHit]
    missing: list[MissingRepository]


class FileRef(msgspec.Struct, frozen=True):
    repository: str
    path: str
    branches: list[str]


class StreamPart(msgspec.Struct, frozen=True, tag="part", tag_field="event"):
    """Files of the nodes that responded since the last part, best first."""

    files: list[FoundFile]
    missing: list[MissingRepository] = []


class StreamEnd(msgspec.Struct, frozen=True, tag="end", tag_field="event"):
    """All nodes have responded or timed out. `order` is the ranking over all parts; a file that is not in it
    was crowded out by better ones."""

    query: str
    complete: bool
    order: list[FileRef]
    stats: Stats
    limits_hit: list[LimitHit]
    missing: list[MissingRepository]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    status: int
    message: str
    position: int | None = None  # in the query, in characters from 0


class StreamFailure(msgspec.Struct, frozen=True, tag="error", tag_field="event"):
    """The stream ended early; no further parts follow."""

    error: Problem


StreamEvent: TypeAlias = StreamPart | StreamEnd | StreamFailure


def event_name(event: StreamEvent) -> str:
    match event:
        case StreamPart():
            return "part"
        case StreamEnd():
            return "end"
        case StreamFailure():
            return "error"


class ErrorResponse(msgspec.Struct, frozen=True):
    error: Problem


class Holder(msgspec.Struct, frozen=True):
    node: str
    address: str
    replica: int  # 0 is the primary
    epoch: int
    state: str


class RepositoryView(msgspec.Struct, frozen=True):
    name: str
    id: int  # as in zoekt's API
    url: str
    state: RepoState
    reason: str  # why it is not ready, or not up to date
    pinned: bool
    replicas: int
    branches: list[Branch]
    holders: list[Holder]
    phase: str
    progress: float
    refreshing: bool
    documents: int
    content_bytes: int
    memory_bytes: int
    index_time_ms: float
    fetch_time_ms: float
    claim_latency_s: float
    indexed_at: float
    last_served_at: float
    searches: int
    failures: int


class RepositoriesResponse(msgspec.Struct, frozen=True):
    """`next` is the value of `after` for the next page; empty on the last page."""

    repositories: list[RepositoryView]
    next: str


class OutlineItem(msgspec.Struct, frozen=True):
    """A definition; `parent` is the enclosing one's place in the same list, or -1."""

    name: str
    kind: str
    line: int
    parent: int


class FileResponse(msgspec.Struct, frozen=True):
    repository: str
    path: str
    branches: list[str]
    version: str
    language: str
    encoding: Encoding  # of `content`: base64 if it is not text
    content: str
    skipped: str  # why there is no content
    url: str  # on the code host
    outline: list[OutlineItem]


class FolderResponse(msgspec.Struct, frozen=True):
    """Folders end with a slash and come first; `cut`: the list is truncated."""

    repository: str
    path: str
    names: list[str]
    cut: bool


class CatalogEntry(msgspec.Struct, frozen=True):
    """The desired state of a repository."""

    name: str
    url: str
    branches: list[str]
    pinned: bool
    replicas: int
    max_bids: int | None
    note: str = ""  # a remark for the caller


class WebhookResponse(msgspec.Struct, frozen=True):
    """The repositories whose holders were notified to check for new commits."""

    notified: list[str]
