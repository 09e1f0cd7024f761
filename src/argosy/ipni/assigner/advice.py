"""Advice for the operator of a pool. Nothing is done automatically, because moving a publisher means ingesting it
again.

Placement counts publishers, and publishers differ in size; so an indexer may hold far more than the others, or fill
up without a successor. The remedies are the operator's: add an indexer, freeze one (its publishers are handed off),
or unassign a publisher that too many indexers hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from argosy.ipni.assigner.pool_state import PoolState
from argosy.ownership.assigner import IndexerState, Pool, candidates, holders, target_replication

Kind = Literal["twice", "silent", "stuck", "full", "no room", "overloaded", "too many", "done"]

NEARLY_FULL_PERCENT = 80.0  # as the indexers' own first warning, ten points below the default limit
OVERLOAD_FACTOR = 2.0  # times the mean of the active indexers
OVERLOAD_PUBLISHERS_MIN = 10  # a small pool is uneven by nature
# Bounds the page and its JSON for a pool with many publishers.
PUBLISHERS_SHOWN_MAX = 1_000


@dataclass(frozen=True)
class Advice:
    """One recommendation; `publishers` are those concerned, up to a bound."""

    kind: Kind
    indexer: str
    text: str
    publishers: tuple[str, ...] = ()


def advise(pool_state: PoolState) -> list[Advice]:
    """All advice, most urgent first."""
    pool = pool_state.pool()
    return [
        *_duplicates(pool_state),
        *_unreachable(pool_state),
        *_stuck_handoffs(pool_state, pool),
        *_nearly_full(pool_state, pool),
        *_no_spare(pool_state, pool),
        *_find_imbalance(pool),
        *_extra_holders(pool_state, pool),
        *_removable(pool_state, pool),
    ]


def _active(pool: Pool) -> list[IndexerState]:
    return [state for state in pool if state.is_known and not state.is_frozen]


def _duplicates(pool_state: PoolState) -> Iterator[Advice]:
    for url, first in pool_state.doubles().items():
        yield Advice("twice", url, f"same indexer as {first}; remove one of the two from the pool")


def _unreachable(pool_state: PoolState) -> Iterator[Advice]:
    for url in pool_state.urls():
        if why := pool_state.problem(url):
            is_new = pool_state.report(url) is None
            # Without a report it may hold any publisher, so none that it may hold is assigned elsewhere (see
            # `pool_state`).
            effect = "publishers that it may hold wait for it" if is_new else "its last report is still counted"
            yield Advice("silent", url, f"unreachable, and {effect}; fix it or remove it from the pool ({why})")


def _stuck_handoffs(pool_state: PoolState, pool: Pool) -> Iterator[Advice]:
    for url, publishers in pool_state.pending_handoffs().items():
        # Only publishers without a candidate: the others are handed off at the next poll without help.
        stuck = tuple(p for p in publishers if not candidates(p, pool, pool_state.policy))
        if stuck:
            text = f"frozen, and {len(stuck)} of its publishers have no successor; add an indexer"
            yield Advice("stuck", url, text, stuck[:PUBLISHERS_SHOWN_MAX])


def _nearly_full(pool_state: PoolState, pool: Pool) -> Iterator[Advice]:
    for state in _active(pool):
        report = pool_state.report(state.id)
        if report is not None and report.usage_percent >= NEARLY_FULL_PERCENT:
            text = f"its disk is {report.usage_percent:.0f} % full; add space, or let it freeze and hand off"
            yield Advice("full", state.id, text)


def _no_spare(pool_state: PoolState, pool: Pool) -> Iterator[Advice]:
    """With only as many active indexers as replicas, the publishers of one that freezes have no successor."""
    active = _active(pool)
    if pool and len(active) <= pool_state.policy.replication:
        text = (
            f"{len(active)} indexers are active for a replication of {pool_state.policy.replication}: add at least one"
        )
        yield Advice("no room", "", f"{text}, or a frozen one has no successor")


def _find_imbalance(pool: Pool) -> Iterator[Advice]:
    active = _active(pool)
    if len(active) < 2:
        return
    # Frozen indexers are left out: their publishers only wait to be handed off.
    mean = sum(len(state.assigned) for state in active) / len(active)
    for state in active:
        count = len(state.assigned)
        if count >= OVERLOAD_PUBLISHERS_MIN and count > OVERLOAD_FACTOR * mean:
            text = f"it has {count} publishers and the mean is {mean:.0f}; freeze it if it cannot keep up"
            yield Advice("overloaded", state.id, f"{text}: they continue elsewhere, and its content stays findable")


def _extra_holders(pool_state: PoolState, pool: Pool) -> Iterator[Advice]:
    """Publishers with too many holders, for example after an indexer unfroze; the advice names the most loaded one."""
    loads = {state.id: len(state.assigned) for state in pool}
    spare: dict[str, list[str]] = {}
    for publisher in sorted(set[str]().union(*(state.assigned for state in pool))):
        held = sorted(holders(publisher, pool, pool_state.policy), key=lambda url: (-loads[url], url))
        for url in held[: max(0, len(held) - target_replication(publisher, pool_state.policy, len(pool)))]:
            spare.setdefault(url, []).append(publisher)
    for url, publishers in spare.items():
        text = f"{len(publishers)} of its publishers have more holders than required; unassign them here"
        yield Advice("too many", url, text, tuple(publishers[:PUBLISHERS_SHOWN_MAX]))


def _removable(pool_state: PoolState, pool: Pool) -> Iterator[Advice]:
    owed = pool_state.pending_handoffs()
    for state in pool:
        if state.is_frozen and not owed[state.id]:
            yield Advice(
                "done",
                state.id,
                "frozen without pending handoffs; remove it once its data is no longer needed",
            )
