"""What a search node needs from the world, and what it offers to front doors and to other nodes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from argosy.search.documents import Source
from argosy.search.fleet.model import (
    FileRequest,
    FileText,
    FolderListing,
    FolderRequest,
    ListResult,
    NodeStatus,
    RepoSpec,
    SearchRequest,
)
from argosy.search.model import Branch, SearchResult


class Fetcher(Protocol):
    """Brings repositories to this machine. What goes wrong is told by remedy: Unavailable will pass by itself,
    everything else needs somebody to act; messages carry no secret."""

    async def heads(self, spec: RepoSpec) -> tuple[Branch, ...]:
        """Where the wished branches stand at the origin now, without fetching anything."""
        ...

    def fetch(self, spec: RepoSpec, progress: Callable[[float], None]) -> AbstractAsyncContextManager[Source]:
        """The repository, readable until the context ends. Cancelling ends the processes at work. `progress` is told
        the part that has arrived, 0 to 1, if anybody knows."""
        ...


class Node(Protocol):
    """What a node answers, asked in the same process or over HTTP."""

    def search(self, asked: SearchRequest) -> Awaitable[SearchResult]:
        """The best matches in the named repositories; those that this node may not answer for are `missing`."""
        ...

    async def list(self, asked: SearchRequest) -> ListResult:
        """Those of the named repositories that satisfy the query."""
        ...

    async def file(self, asked: FileRequest) -> FileText:
        """NotOwner if this node may not answer for the repository, NotFound if there is no such file."""
        ...

    async def folder(self, asked: FolderRequest) -> FolderListing: ...

    async def status(self) -> NodeStatus: ...

    def index(self, repository: str) -> AsyncIterator[bytes]:
        """The finished index as a byte stream, for a node that is to hold it next."""
        ...


class Nodes(Protocol):
    """Nodes by the addresses in their leases."""

    def at(self, address: str) -> Node: ...
