"""What the gateway offers to its APIs and the web UI: the port, the fleet status, and the errors of a query.

Both errors are `Unavailable` and carry a `Retry-After` estimate.
"""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from argosy.base.errors import Unavailable
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    ListResult,
    NodeStatus,
    RepoSpec,
    RepoStatus,
)
from argosy.search.model import Missing, MissingReason, Options, Repository, SearchResult
from argosy.search.query.tree import Query


class RepoState(Enum):
    """The state of a repository, from the best of its leases."""

    READY = "ready"
    DRAINING = "draining"  # still serves while it moves to another node
    WARMING = "warming"  # leased; being fetched, received or indexed
    UNOWNED = "unowned"  # no node holds a lease
    FAILED = "failed"  # no node holds a lease, and the last attempt failed


class SlotHolder(msgspec.Struct, frozen=True):
    """The node that holds the lease of one slot of a repository."""

    node: str
    address: str
    replica: int
    epoch: int
    state: str


class RepoView(msgspec.Struct, frozen=True):
    """A repository: its desired state, its holders, and the status that the best of them reports."""

    name: str
    state: RepoState
    spec: RepoSpec
    holders: tuple[SlotHolder, ...] = ()  # the primary first
    status: RepoStatus | None = None  # of the best holder, if its node responded
    reason: str = ""  # why it is not ready, or not up to date


class NodeView(msgspec.Struct, frozen=True):
    """A node with the status it reported, or with the reason why there is none."""

    node: str
    address: str
    is_member: bool  # takes part in bidding
    leases: int
    status: NodeStatus | None = None
    problem: str = ""


class AuctionView(msgspec.Struct, frozen=True):
    repository: str
    replica: int
    id: int
    max_bids: int
    closes_in_s: float


class FleetStatus(msgspec.Struct, frozen=True):
    """The fleet at one instant, as this gateway sees it."""

    at: float
    nodes: tuple[NodeView, ...] = ()
    repositories: tuple[RepoView, ...] = ()
    auctions: tuple[AuctionView, ...] = ()
    desired_nodes: int = 0
    reasons: tuple[str, ...] = ()  # for `desired_nodes`


EXAMPLES_MAX = 3  # repositories named in a message; the rest are only counted
RETRY_AFTER_S = {
    MissingReason.TIMED_OUT: 1.0,
    MissingReason.FAILED: 2.0,
    MissingReason.UNOWNED: 5.0,  # an auction has to close first
    MissingReason.WARMING: 5.0,  # the index is being fetched or built
}


class Unserved(Unavailable):
    """Every repository of the query is missing."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        super().__init__(_message(missing))
        self.missing = tuple(missing)
        self.retry_after_s = min(
            (RETRY_AFTER_S[each.why] for each in missing), default=RETRY_AFTER_S[MissingReason.FAILED]
        )


class Overloaded(Unavailable):
    """The gateway has as many queries in progress as it accepts."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _message(missing: Sequence[Missing]) -> str:
    counts = Counter(each.why for each in missing)
    reasons = ", ".join(f"{count} {why.value}" for why, count in counts.most_common())
    examples = "; ".join(f"{each.repository}: {each.detail or each.why.value}" for each in missing[:EXAMPLES_MAX])
    return f"none of the {len(missing)} repositories can be searched now ({reasons}): {examples}"


class SearchGateway(Protocol):
    """Answers for the whole fleet. An incomplete answer names what is missing (GW-1)."""

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        """`only` restricts the search to repositories of these names."""
        ...

    def stream(
        self, query: Query, options: Options, *, only: Collection[str] | None = None
    ) -> AsyncIterator[SearchResult]:
        """Yield partial results as nodes respond; the last one is the whole merged result."""
        ...

    async def repositories(self, query: Query) -> tuple[Repository, ...]: ...

    async def list(self, query: Query, *, only: Collection[str] | None = None) -> ListResult: ...

    async def file(self, request: FileRequest) -> FileText: ...

    async def folder(self, request: FolderRequest) -> FolderListing: ...

    async def status(self) -> FleetStatus: ...

    def is_ready(self) -> bool: ...
