"""What answers queries, whatever stands behind it: one index, many, or a fleet of nodes."""

from typing import Protocol

from argosy.search.model import Answer, Options, Repository
from argosy.search.query.tree import Query


class Searcher(Protocol):
    """Cancelling the call ends the search, within about twenty milliseconds."""

    async def search(self, query: Query, options: Options) -> Answer:
        """The best matches. An answer that is not complete says so (GW-1)."""
        ...

    async def repositories(self, query: Query) -> tuple[Repository, ...]:
        """The repositories that have a match, by name; a query about nothing but repositories needs no text."""
        ...
