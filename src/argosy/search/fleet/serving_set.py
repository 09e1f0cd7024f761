"""The repositories a node may answer for at this instant, and why it may not answer for the others.

Two conditions must hold: the lease, which only ownership knows, and a loaded index.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from argosy.base.errors import NotFound, NotOwner, Unavailable
from argosy.search.fleet.model import Phase, RepoStatus
from argosy.search.index.index import Index
from argosy.search.model import Missing, MissingReason

_WITH_PROGRESS = (Phase.FETCHING, Phase.RECEIVING, Phase.INDEXING)


class IndexLookup(Protocol):
    """Loaded indexes by name; NotFound if there is none."""

    def get(self, name: str) -> Index: ...


class StatusSource(Protocol):
    """The state of every held repository."""

    def statuses(self) -> tuple[RepoStatus, ...]: ...


class ServingSet:
    """The serving set of one node. No method awaits, so a result is valid until the caller's next await."""

    def __init__(
        self,
        indexes: IndexLookup,
        status_source: StatusSource,
        *,
        node_id: str,
        may_answer: Callable[[str], bool],
        holder_of: Callable[[str], str | None],  # the address to try instead
    ) -> None:
        self._indexes = indexes
        self._status_source = status_source
        self._node_id = node_id
        self._may_answer = may_answer
        self._holder_of = holder_of

    def split(self, names: Iterable[str]) -> tuple[dict[str, Index], list[Missing]]:
        """The indexes of the repositories that can be served, and the reasons for the others."""
        held: dict[str, Index] = {}
        absent: dict[str, None] = {}
        for name in names:
            index = self._find(name) if self._may_answer(name) else None
            if index is None:
                absent[name] = None
            else:
                held[name] = index
        return held, self._missing(list(absent)) if absent else []

    def drop_lost(self, held: dict[str, Index]) -> list[Missing]:
        """Removes from `held` what can no longer be served, and returns the reasons."""
        lost = [name for name in held if not self._may_answer(name) or self._find(name) is None]
        if not lost:
            return []
        for name in lost:
            del held[name]
        return self._missing(lost)

    def index(self, name: str) -> Index:
        """NotOwner if this node may not answer for the repository, Unavailable if its index is not loaded yet."""
        self.check(name)
        index = self._find(name)
        if index is None:
            missing = self._reason(name, self.statuses().get(name))
            raise Unavailable(f"{name!r}: index not ready ({missing.why.value}: {missing.detail}); retry")
        return index

    def check(self, name: str) -> None:
        if not self._may_answer(name):
            hint = self._holder_of(name)
            raise NotOwner(f"node {self._node_id} does not hold {name!r}; retry at its holder", hint=hint)

    def statuses(self) -> dict[str, RepoStatus]:
        return {each.name: each for each in self._status_source.statuses()}

    def _missing(self, names: list[str]) -> list[Missing]:
        statuses = self.statuses() if names else {}
        return [self._reason(name, statuses.get(name)) for name in names]

    def _reason(self, name: str, status: RepoStatus | None) -> Missing:
        if not self._may_answer(name):
            return Missing(name, MissingReason.UNOWNED, f"node {self._node_id} does not hold it")
        if status is not None and status.phase is Phase.FAILED:
            return Missing(name, MissingReason.FAILED, status.reason)
        return Missing(name, MissingReason.WARMING, _progress_text(status))

    def _find(self, name: str) -> Index | None:
        try:
            return self._indexes.get(name)
        except NotFound:
            return None


def _progress_text(status: RepoStatus | None) -> str:
    if status is None:
        return Phase.WAITING.value
    phase = status.phase
    return f"{phase.value}, {status.progress:.0%}" if phase in _WITH_PROGRESS else phase.value
