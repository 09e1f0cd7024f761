"""Placement of publishers: which indexers should ingest a publisher, and which one resumes it after a frozen indexer.

The assigner only proposes; each indexer's own allow-list is authoritative. `IndexerState` is an indexer's last report,
and `after_assignment` and `after_handoff` change it exactly as the indexer changes itself, so that a pool kept up to
date and a pool rebuilt from reports are equal. A frozen indexer keeps its assignments: it still follows its publishers,
because it must apply their removals (IPN-2).

Three rules decide how many indexers a publisher lacks:
  - a frozen indexer never counts towards replication;
  - an indexer without a report may already hold the publisher, so it is counted as if it did;
  - an assignment outside a publisher's presets is ignored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from argosy.base.errors import Invalid, NotFound


@dataclass(frozen=True)
class IndexerState:
    """The last report of one indexer of the pool. `id` is its peer id, to which the `continued` of others refer."""

    id: str
    is_known: bool = True  # it has reported since this assigner started; until then all fields below are empty
    is_frozen: bool = False
    assigned: frozenset[str] = frozenset()
    preferred: frozenset[str] = frozenset()  # publishers whose data it has from before it joined the pool
    # Publisher to the frozen indexer that it was handed off from: the proof that the handoff is done.
    continued: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        # A copy that cannot be changed: the pool is shared by plans, and a report must not change under them.
        object.__setattr__(self, "continued", MappingProxyType(dict(self.continued)))


Pool = tuple[IndexerState, ...]


@dataclass(frozen=True)
class PoolPolicy:
    """The operator's policy for the pool."""

    replication: int = 1
    preset_replication: int = 1
    presets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    is_open: bool = True  # True: all publishers except `exceptions`; False: only `exceptions`
    exceptions: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("replication", "preset_replication"):
            if getattr(self, name) < 1:
                raise Invalid(f"{name} must be at least 1, not {getattr(self, name)}")
        empty = sorted(publisher for publisher, indexers in self.presets.items() if not indexers)
        if empty:
            raise Invalid(f"presets of {empty[0]!r} name no indexer; name one, or remove the publisher")
        object.__setattr__(self, "presets", MappingProxyType(dict(self.presets)))

    def allows(self, publisher: str) -> bool:
        return self.is_open != (publisher in self.exceptions)

    def may_hold(self, indexer: str, publisher: str) -> bool:
        return publisher not in self.presets or indexer in self.presets[publisher]


@dataclass(frozen=True)
class AssignmentPlan:
    """Offer the publisher to `candidates` in order until `needed` have accepted.

    The first acceptances continue from the frozen indexers in `resume_from`, one each, as handoffs; the rest are plain
    assignments, which ingest from the beginning.
    """

    needed: int
    candidates: tuple[str, ...] = ()
    resume_from: tuple[str, ...] = ()

    @property
    def is_short(self) -> bool:
        """Even if all candidates accept, there will be fewer holders than required."""
        return self.needed > len(self.candidates)


def target_replication(publisher: str, policy: PoolPolicy, pool_size: int) -> int:
    """How many indexers should hold the publisher; never more than there are candidates."""
    if publisher in policy.presets:
        return min(policy.preset_replication, len(set(policy.presets[publisher])), pool_size)
    return min(policy.replication, pool_size)


def holders(publisher: str, pool: Pool, policy: PoolPolicy) -> tuple[str, ...]:
    """The indexers that count: they store the publisher's new entries."""
    return tuple(i.id for i in _followers(publisher, pool, policy) if not i.is_frozen)


def audience(publisher: str, pool: Pool, policy: PoolPolicy) -> tuple[str, ...]:
    """The indexers to which an announcement is forwarded: holders, and frozen ones, which still apply removals."""
    return tuple(i.id for i in _followers(publisher, pool, policy))


def candidates(publisher: str, pool: Pool, policy: PoolPolicy) -> tuple[str, ...]:
    """The indexers that may get the publisher, best first: preferred, then fewest assignments, then by id."""
    return _candidates(publisher, pool, policy, {i.id: len(i.assigned) for i in pool})


def plan_assignment(publisher: str, pool: Pool, policy: PoolPolicy) -> AssignmentPlan:
    """The plan after an announcement of `publisher`; empty if enough indexers hold it or may hold it, or if the policy
    excludes it."""
    # An indexer without a report may hold the publisher already; assigning it elsewhere could store everything twice.
    needed = _missing(publisher, pool, policy) - _unknown_count(publisher, pool, policy)
    if needed <= 0:
        return AssignmentPlan(0)
    resume_from = sorted(
        i.id for i in _followers(publisher, pool, policy) if _must_hand_off(i, publisher, pool, policy)
    )
    # Not more handoffs than new holders are needed: each acceptance continues from one frozen indexer.
    return AssignmentPlan(needed, candidates(publisher, pool, policy), tuple(resume_from[:needed]))


def pending_handoffs(frozen: str, pool: Pool, policy: PoolPolicy) -> frozenset[str]:
    """The publishers that a frozen indexer must still hand off; empty for one that is not frozen.

    A publisher is done when another indexer, even one that is frozen by now, reports that it continued from this one;
    or when enough others hold it anyway. The second case occurs when the middle indexer of a chain of handoffs has left
    the pool, and the proof with it.
    """
    indexer = _of(pool, frozen)
    return frozenset(publisher for publisher in indexer.assigned if _must_hand_off(indexer, publisher, pool, policy))


def plan_handoff(frozen: str, pool: Pool, policy: PoolPolicy) -> dict[str, tuple[str, ...]]:
    """Every publisher still to hand off, with the indexers to offer it to in order until one accepts.

    No candidates means that this handoff must wait: no indexer is free, or one without a report may have accepted it
    already. Each publisher is independent of the others. The lists are balanced as if every first candidate accepted;
    after rejections, a new plan is better balanced.
    """
    loads = {i.id: len(i.assigned) for i in pool}
    plan: dict[str, tuple[str, ...]] = {}
    # Sorted, so that the same pool gives the same plan on every assigner.
    for publisher in sorted(pending_handoffs(frozen, pool, policy)):
        must_wait = _missing(publisher, pool, policy) <= _unknown_count(publisher, pool, policy)
        plan[publisher] = () if must_wait else _candidates(publisher, pool, policy, loads)
        if plan[publisher]:
            # Counted as accepted; otherwise the least loaded indexer would be first in the list of every publisher.
            loads[plan[publisher][0]] += 1
    return plan


def after_assignment(pool: Pool, publisher: str, target: str) -> Pool:
    """The pool once `target` has accepted the publisher."""
    return _with_assignment(pool, publisher, target, {})


def after_handoff(pool: Pool, publisher: str, *, frozen: str, target: str) -> Pool:
    """The pool once `target` has accepted to resume the publisher where `frozen` stopped."""
    assert frozen != target, frozen
    return _with_assignment(pool, publisher, target, {publisher: frozen})


def _with_assignment(pool: Pool, publisher: str, target: str, continued: Mapping[str, str]) -> Pool:
    old = _of(pool, target)
    # Exactly what the indexer itself does when it accepts, so that its next report changes nothing.
    new = replace(old, assigned=old.assigned | {publisher}, continued={**old.continued, **continued})
    return tuple(new if i is old else i for i in pool)


def _of(pool: Pool, indexer: str) -> IndexerState:
    for state in pool:
        if state.id == indexer:
            return state
    raise NotFound(f"indexer {indexer!r} is not in the pool; add it to the assigner's configuration")


def _followers(publisher: str, pool: Pool, policy: PoolPolicy) -> Iterable[IndexerState]:
    return (i for i in pool if publisher in i.assigned and policy.may_hold(i.id, publisher))


def _must_hand_off(indexer: IndexerState, publisher: str, pool: Pool, policy: PoolPolicy) -> bool:
    if not indexer.is_frozen or not policy.may_hold(indexer.id, publisher):
        return False
    # The proof is with the successor and not with the frozen indexer, which may have gone before it could record it.
    is_done = any(i.continued.get(publisher) == indexer.id for i in pool if i is not indexer)
    return not is_done and _missing(publisher, pool, policy) > 0


def _missing(publisher: str, pool: Pool, policy: PoolPolicy) -> int:
    if not policy.allows(publisher):
        return 0
    # Frozen indexers count in the size of the pool and not among the holders: they store nothing new (IPN-2).
    return max(0, target_replication(publisher, policy, len(pool)) - len(holders(publisher, pool, policy)))


def _unknown_count(publisher: str, pool: Pool, policy: PoolPolicy) -> int:
    return sum(not i.is_known and policy.may_hold(i.id, publisher) for i in pool)


def _candidates(publisher: str, pool: Pool, policy: PoolPolicy, loads: Mapping[str, int]) -> tuple[str, ...]:
    able = (
        i
        for i in pool
        if i.is_known and not i.is_frozen and publisher not in i.assigned and policy.may_hold(i.id, publisher)
    )
    # Preferred ones have the publisher's data already; the id makes the order the same everywhere.
    best_first = sorted(able, key=lambda i: (publisher not in i.preferred, loads[i.id], i.id))
    return tuple(i.id for i in best_first)
