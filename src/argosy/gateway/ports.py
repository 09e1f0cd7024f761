"""The port that the gateway offers to its APIs and the web UI."""

from collections.abc import AsyncIterator, Collection
from typing import Protocol

from argosy.gateway.model import FleetStatus
from argosy.search.fleet.model import FileRequest, FileText, FolderListing, FolderRequest, ListResult
from argosy.search.model import Options, Repository, SearchResult
from argosy.search.query.tree import Query


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

    async def file(self, asked: FileRequest) -> FileText: ...

    async def folder(self, asked: FolderRequest) -> FolderListing: ...

    async def status(self) -> FleetStatus: ...

    def is_ready(self) -> bool: ...
