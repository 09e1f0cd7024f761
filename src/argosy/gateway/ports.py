"""What the front door needs from outside, somebody who says who may come in, and what it offers to every API."""

from collections.abc import AsyncIterator, Collection
from typing import Protocol

from argosy.gateway.model import FleetStatus
from argosy.search.fleet.model import FileRequest, FileText, FolderListing, FolderRequest, ListResult
from argosy.search.model import Options, Repository, SearchResult
from argosy.search.query.tree import Query


class AdmissionTicket(Protocol):
    """One admitted request; its end is told, so that whoever admits learns how much there is to share out."""

    def done(self, *, is_exhausted: bool) -> None:
        """`is_exhausted`: it could not be served for want of capacity."""
        ...


class Admission(Protocol):
    """Decides locally and at once: no request waits for a shared store (THR-2)."""

    def admit(self, client: str) -> AdmissionTicket:
        """Throttled if this client has to wait."""
        ...


class SearchGateway(Protocol):
    """Answers for the whole fleet; an answer that is not complete says so (GW-1)."""

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        """`only` restricts to repositories of these names."""
        ...

    def stream(
        self, query: Query, options: Options, *, only: Collection[str] | None = None
    ) -> AsyncIterator[SearchResult]:
        """Parts as nodes answer; the last one is the whole merged answer."""
        ...

    async def repositories(self, query: Query) -> tuple[Repository, ...]: ...

    async def list(self, query: Query, *, only: Collection[str] | None = None) -> ListResult: ...

    async def file(self, asked: FileRequest) -> FileText: ...

    async def folder(self, asked: FolderRequest) -> FolderListing: ...

    async def status(self) -> FleetStatus: ...

    def is_ready(self) -> bool: ...
