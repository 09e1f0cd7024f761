"""Ports of a search node: what it needs (`Fetcher`, `Nodes`), and what it offers (`Node`)."""

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
    """Fetches repositories. Unavailable means that a retry may succeed; every other error needs an operator. Messages
    contain no secrets."""

    async def heads(self, spec: RepoSpec) -> tuple[Branch, ...]:
        """The commits of the spec's branches at the origin, without a fetch."""
        ...

    def fetch(self, spec: RepoSpec, progress: Callable[[float], None]) -> AbstractAsyncContextManager[Source]:
        """The repository, readable until the context ends. A cancellation ends the processes at work. `progress` is
        called with the fraction that has arrived, where it is known."""
        ...


class Node(Protocol):
    """The requests a node answers, in process or over the network."""

    def search(self, request: SearchRequest) -> Awaitable[SearchResult]:
        """The best matches in the requested repositories; those this node may not answer for are `missing`."""
        ...

    async def list(self, request: SearchRequest) -> ListResult:
        """Those of the requested repositories that satisfy the query."""
        ...

    async def file(self, request: FileRequest) -> FileText:
        """NotOwner if this node may not answer for the repository, NotFound if there is no such file."""
        ...

    async def folder(self, request: FolderRequest) -> FolderListing: ...

    async def status(self) -> NodeStatus: ...

    def index(self, repository: str) -> AsyncIterator[bytes]:
        """The finished index as a byte stream, for the node that holds the unit next."""
        ...


class Nodes(Protocol):
    """Nodes by the address in their leases."""

    def at(self, address: str) -> Node: ...
