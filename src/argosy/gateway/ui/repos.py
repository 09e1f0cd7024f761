"""View model of the repository table: filtered, sorted and counted."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from argosy.base.errors import Invalid
from argosy.base.redact import redact
from argosy.gateway.ports import FleetStatus, RepoState, RepoView
from argosy.gateway.ui.links import folder_url, web_url
from argosy.gateway.ui.number_format import age_text, count_text, size_text, version_text

ROWS_MAX = 2_000  # rows per page; the filter applies to all repositories

_WORST_FIRST = (RepoState.FAILED, RepoState.UNOWNED, RepoState.WARMING, RepoState.DRAINING, RepoState.READY)


@dataclass(frozen=True, slots=True)
class RepoRow:
    name: str
    url: str
    state: str
    phase: str  # progress on its node, if it is not simply ready
    progress: float
    is_pinned: bool
    memory: str
    documents: str
    indexed: str
    version: str
    holders: tuple[str, ...]
    reason: str
    origin: str  # its page at the code host


@dataclass(frozen=True, slots=True)
class RepoTable:
    rows: tuple[RepoRow, ...]
    found: int  # before the limit on rows
    total: int
    states: tuple[tuple[str, int], ...]
    sort: str
    is_descending: bool


def _commit(view: RepoView) -> str:
    if view.status and view.status.branches:
        return view.status.branches[0].version
    return view.spec.last_commit or ""


def _index_time(view: RepoView) -> float:
    if view.status and view.status.indexed_at:
        return view.status.indexed_at
    return (view.spec.last_indexed_at or 0) / 1000


def _memory(view: RepoView) -> int:
    return (view.status.memory_bytes if view.status else 0) or view.spec.footprint_bytes or 0


SORTS: dict[str, Callable[[RepoView], Any]] = {
    "name": lambda view: view.name.lower(),
    "state": lambda view: _WORST_FIRST.index(view.state),
    "memory": _memory,
    "documents": lambda view: view.status.documents if view.status else 0,
    "indexed": _index_time,
    "holders": lambda view: len(view.holders),
}


def table(
    status: FleetStatus, *, sort: str = "name", is_descending: bool = False, words: str = "", state: str = ""
) -> RepoTable:
    """`words` must all occur in the name; `state` is a RepoState value or empty."""
    if sort not in SORTS:
        raise Invalid(f"invalid sort key {sort!r}; use one of {', '.join(SORTS)}")
    named = [view for view in status.repositories if _has(view.name, words)]
    # Before the filter by state, so that the page shows how many there are in the other states.
    states = Counter(view.state.value for view in named)
    chosen = [view for view in named if not state or view.state.value == state]
    # Sorts are stable: equal values stay in the order of their names, also when descending.
    chosen.sort(key=lambda view: view.name)
    chosen.sort(key=SORTS[sort], reverse=is_descending)
    return RepoTable(
        rows=tuple(_row(view, status.at) for view in chosen[:ROWS_MAX]),
        found=len(chosen),
        total=len(status.repositories),
        states=tuple((each.value, states[each.value]) for each in reversed(_WORST_FIRST) if states[each.value]),
        sort=sort,
        is_descending=is_descending,
    )


def _has(name: str, words: str) -> bool:
    return all(word in name.lower() for word in words.lower().split())


def _row(view: RepoView, now: float) -> RepoRow:
    status, memory = view.status, _memory(view)
    is_busy = status is not None and view.state is RepoState.WARMING
    return RepoRow(
        name=view.name,
        url=folder_url(view.name),
        state=view.state.value,
        phase=status.phase.value if status and is_busy else "refreshing" if status and status.is_refreshing else "",
        progress=status.progress if status and is_busy else 0.0,
        is_pinned=view.spec.is_pinned,
        memory=size_text(memory) if memory else "–",
        documents=count_text(status.documents) if status and status.documents else "–",
        indexed=age_text(_index_time(view), now),
        version=version_text(_commit(view)),
        holders=holders(view),
        reason=redact(view.reason or (view.spec.last_error or "" if view.state is RepoState.FAILED else "")),
        origin=web_url(redact(view.spec.url)),
    )


def holders(view: RepoView) -> tuple[str, ...]:
    """Names of the holders, the primary first, with the role of the others."""
    return tuple(f"{holder.node}{role(holder.replica)}" for holder in view.holders)


def role(replica: int) -> str:
    """The role of a slot as a suffix of the node name; empty for the primary."""
    return "" if replica == 0 else " (successor)" if replica < 0 else f" (replica {replica})"


def state_counts(views: Iterable[RepoView]) -> tuple[tuple[str, int], ...]:
    counts = Counter(view.state.value for view in views)
    return tuple((each.value, counts[each.value]) for each in reversed(_WORST_FIRST) if counts[each.value])
