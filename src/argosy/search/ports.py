"""The ports of the engine: searching (one index, many, or a fleet) and advertising indexes."""

from typing import TYPE_CHECKING, Protocol

from argosy.search.model import Options, Repository, SearchResult
from argosy.search.query.tree import Query

if TYPE_CHECKING:
    from argosy.search.index.index import Index


class Searcher(Protocol):
    """Searches. Cancelling a call stops the search within about twenty milliseconds."""

    async def search(self, query: Query, options: Options) -> SearchResult:
        """The best matches. An incomplete result says so (GW-1)."""
        ...

    async def repositories(self, query: Query) -> tuple[Repository, ...]:
        """The repositories with a match, by name. A query only about repositories reads no text."""
        ...


class Advertiser(Protocol):
    """Advertises the indexed files of a node, so that others find them by content.

    The methods do not block or raise.
    """

    def on_indexed(self, index: "Index") -> None:
        """The node has indexed the repository; this index replaces any previous one."""
        ...

    def on_dropped(self, name: str) -> None:
        """The node no longer has an index of the repository, if it ever had one."""
        ...
