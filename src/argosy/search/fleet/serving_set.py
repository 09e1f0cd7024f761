"""Which repositories a node may answer for at this instant, and why not for the others.

Two things must hold: the lease, which only ownership knows, and an index at hand.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from argosy.base.errors import NotFound, NotOwner, Unavailable
from argosy.search.fleet.model import Phase, RepoStatus
from argosy.search.index.index import Index
from argosy.search.model import Missing, MissingReason

_COUNTED = (Phase.FETCHING, Phase.RECEIVING, Phase.INDEXING)


class IndexLookup(Protocol):
    """Indexes by name; NotFound if there is none."""

    def get(self, name: str) -> Index: ...


class Progress(Protocol):
    """Who says how far each repository is."""

    def statuses(self) -> tuple[RepoStatus, ...]: ...


class ServingSet:
    """What the node `node_id` has to say for itself. Nothing here waits, so what is told holds until the next await."""

    def __init__(
        self,
        indexes: IndexLookup,
        progress: Progress,
        *,
        node_id: str,
        may_answer: Callable[[str], bool],
        holder_of: Callable[[str], str | None],  # the address to try instead
    ) -> None:
        self._indexes = indexes
        self._progress = progress
        self._node_id = node_id
        self._may_answer = may_answer
        self._holder_of = holder_of

    def sorted(self, names: Iterable[str]) -> tuple[dict[str, Index], list[Missing]]:
        """The indexes of those that can be answered for, and why the others cannot."""
        held: dict[str, Index] = {}
        absent: dict[str, None] = {}
        for name in names:
            index = self._at_hand(name) if self._may_answer(name) else None
            if index is None:
                absent[name] = None
            else:
                held[name] = index
        return held, self._missing(list(absent)) if absent else []

    def lost(self, held: dict[str, Index]) -> list[Missing]:
        """Why some can no longer be answered for; they are taken out of `held`."""
        lost = [name for name in held if not self._may_answer(name) or self._at_hand(name) is None]
        if not lost:
            return []
        for name in lost:
            del held[name]
        return self._missing(lost)

    def index(self, name: str) -> Index:
        """NotOwner if this node may not answer for the repository, Unavailable if it has no index of it yet."""
        self.check(name)
        index = self._at_hand(name)
        if index is None:
            why = self._why(name, self.statuses().get(name))
            raise Unavailable(f"{name!r} cannot be looked at yet ({why.why.value}: {why.detail}): ask again shortly")
        return index

    def check(self, name: str) -> None:
        if not self._may_answer(name):
            hint = self._holder_of(name)
            raise NotOwner(f"node {self._node_id} does not hold {name!r}: ask its holder", hint=hint)

    def statuses(self) -> dict[str, RepoStatus]:
        return {each.name: each for each in self._progress.statuses()}

    def _missing(self, names: list[str]) -> list[Missing]:
        known = self.statuses() if names else {}
        return [self._why(name, known.get(name)) for name in names]

    def _why(self, name: str, status: RepoStatus | None) -> Missing:
        if not self._may_answer(name):
            return Missing(name, MissingReason.UNOWNED, f"node {self._node_id} does not hold it")
        if status is not None and status.phase is Phase.FAILED:
            return Missing(name, MissingReason.FAILED, status.reason)
        return Missing(name, MissingReason.WARMING, _how_far(status))

    def _at_hand(self, name: str) -> Index | None:
        try:
            return self._indexes.get(name)
        except NotFound:
            return None


def _how_far(status: RepoStatus | None) -> str:
    if status is None:
        return Phase.WAITING.value
    return f"{status.phase.value}, {status.progress:.0%}" if status.phase in _COUNTED else status.phase.value
