"""Ports of the gateway: `Admission`, which it uses, and `SearchGateway`, which it offers to every API."""

from collections.abc import AsyncIterator, Collection
from typing import Protocol

from argosy.gateway.model import FleetStatus
from argosy.search.fleet.model import FileRequest, FileText, FolderListing, FolderRequest, ListResult
from argosy.search.model import Options, Repository, SearchResult
from argosy.search.query.tree import Query


class AdmissionTicket(Protocol):
    """One admitted request. Its outcome is reported back, because admission learns the capacity from outcomes."""

    def done(self, *, is_exhausted: bool) -> None:
        """`is_exhausted`: the request failed for lack of capacity."""
        ...


class Admission(Protocol):
    """Decides from local state only: no request waits for a shared store (THR-2)."""

    def admit(self, client: str) -> AdmissionTicket:
        """Admit a request of the client; raises Throttled if the client must wait."""
        ...


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
