"""What the assigner knows of its pool: the indexers' own answers, and what they have accepted since.

Nothing here is a fact of its own: an answer replaces all that was known of an indexer, but for what the indexer has
accepted while the answer was under way, for there the answer may be the older of the two. An indexer is named by its
admin URL, which is known before it has answered; the peer ids in its answers are translated as they become known.

Three things are counted as if an indexer held the publisher, lest another one is asked, too: a request under way, a
request whose answer was lost, and (by `ownership.assigner`) an indexer of which nothing is known.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ownership.assigner import (
    IndexerState,
    Pool,
    audience,
    holders,
    owed,
    plan_assignment,
    required,
)


@dataclass(frozen=True)
class IndexerReport:
    """What one indexer said of itself. `assigned` leads to the peer id it was taken over from, or to an empty text."""

    id: str
    is_frozen: bool = False
    usage_percent: float = -1.0
    assigned: Mapping[str, str] = field(default_factory=dict)
    preferred: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AssignmentStep:
    """One request to make: `target` should take the publisher, from where `source` stopped if there is one."""

    publisher: str
    target: str
    source: str | None = None


@dataclass
class _IndexerRecord:
    """One indexer of the pool. `changes` counts what is learnt other than by asking, and so tells older from newer."""

    entry: PoolEntry
    answer: IndexerReport | None = None
    problem: str = ""  # why it did not answer when it was last asked
    is_silent: bool = False  # it left the last request unanswered
    changes: int = 0
    under_way: set[str] = field(default_factory=set)  # publishers it is being asked to take
    lost: dict[str, int] = field(default_factory=dict)  # publishers it may have taken, and since which change
    recent: dict[str, int] = field(default_factory=dict)  # publishers it has taken since it was last asked


class PoolState:
    """The pool as it is known; everything that happens is told to it by the method named after it."""

    def __init__(self, configuration: Configuration) -> None:
        self._known: dict[str, _IndexerRecord] = {}
        self._states: dict[str, IndexerState] = {}
        self._pool: Pool | None = None
        self._urls: dict[str, str] = {}
        # Handoffs that were accepted and took nothing over, as the frozen indexer no longer has the publisher.
        self._moot: set[tuple[str, str]] = set()
        self.configured(configuration)

    # -- what has happened --------------------------------------------------------------------------------------------

    def configured(self, configuration: Configuration) -> None:
        """What is known of those who stay is kept; those who are gone are forgotten with all they held."""
        self.configuration = configuration
        self.policy = configuration.policy()
        old = self._known
        self._known = {
            entry.admin_url: old.get(entry.admin_url) or _IndexerRecord(entry) for entry in configuration.entries
        }
        for entry in configuration.entries:
            self._known[entry.admin_url].entry = entry
        self._moot = {(source, publisher) for source, publisher in self._moot if source in self._known}
        self._forget_states()

    def asked(self, url: str) -> int:
        """To be given back with the answer."""
        return self._known[url].changes

    def answered(self, url: str, answer: IndexerReport, asked: int) -> None:
        known = self._known.get(url)
        if known is None:
            return
        known.lost = {publisher: since for publisher, since in known.lost.items() if since > asked}
        known.recent = {publisher: since for publisher, since in known.recent.items() if since > asked}
        if known.answer is not None and known.recent:
            newer = {publisher: known.answer.assigned[publisher] for publisher in known.recent}
            answer = replace(answer, assigned={**answer.assigned, **newer})
        known.answer, known.problem, known.is_silent = answer, "", False
        if not answer.is_frozen:
            self._moot = {(source, publisher) for source, publisher in self._moot if source != url}
        self._forget_states()

    def missed(self, url: str, why: str) -> None:
        """It did not answer; what it said before holds on."""
        if url in self._known:
            self._known[url].problem = why

    def began(self, step: AssignmentStep) -> None:
        if known := self._changed(step.target):
            known.under_way.add(step.publisher)

    def accepted(self, step: AssignmentStep) -> None:
        known = self._changed(step.target)
        if known is None or known.answer is None:
            return
        known.under_way.discard(step.publisher)
        known.recent[step.publisher] = known.changes
        assigned = {**known.answer.assigned, step.publisher: self._id_of(step.source)}
        known.answer = replace(known.answer, assigned=assigned)

    def refused(self, step: AssignmentStep) -> None:
        if known := self._changed(step.target):
            known.under_way.discard(step.publisher)

    def lost(self, step: AssignmentStep) -> None:
        """No answer came: it may have been accepted, and stays counted so until the indexer is heard again."""
        if known := self._changed(step.target):
            known.under_way.discard(step.publisher)
            known.lost[step.publisher] = known.changes
            known.is_silent = True

    def came_to_nothing(self, step: AssignmentStep) -> None:
        assert step.source is not None
        self._moot.add((step.source, step.publisher))

    def is_moot(self, step: AssignmentStep) -> bool:
        return (step.source or "", step.publisher) in self._moot

    def has_moot(self, publisher: str) -> bool:
        """A frozen indexer has nothing of it to go on from: it must begin anew elsewhere."""
        return any(each == publisher for _, each in self._moot)

    # -- what follows from it -----------------------------------------------------------------------------------------

    def pool(self) -> Pool:
        """The indexers as the choice sees them; one that answers at two URLs counts once."""
        if self._pool is None:
            doubles = self.doubles()
            self._pool = tuple(self._state(url) for url in self._known if url not in doubles)
        return self._pool

    def next_step(self, publisher: str, refused: Collection[str] = (), *, is_announced: bool) -> AssignmentStep | None:
        """Whom to ask next, if anybody. Without an announcement only what a frozen indexer owes is handed on."""
        plan = plan_assignment(publisher, self.pool(), self.policy)
        sources = [source for source in plan.resume_from if (source, publisher) not in self._moot]
        left = [target for target in plan.candidates if target not in refused]
        if not left or not (plan.needed if is_announced else sources):
            return None
        left.sort(key=lambda url: self._known[url].is_silent)  # stable: the order of the plan within each half
        return AssignmentStep(publisher, left[0], sources[0] if sources else None)

    def is_short(self, publisher: str) -> bool:
        """Fewer hold it for certain than should."""
        if not self.policy.allows(publisher):
            return False
        pool = self.pool()
        certain = [url for url in holders(publisher, pool, self.policy) if self.holds(url, publisher)]
        return len(certain) < required(publisher, self.policy, len(pool))

    def audience(self, publisher: str) -> tuple[str, ...]:
        return audience(publisher, self.pool(), self.policy)

    def holds(self, url: str, publisher: str) -> bool:
        known = self._known.get(url)
        return known is not None and known.answer is not None and publisher in known.answer.assigned

    def owed(self) -> dict[str, tuple[str, ...]]:
        """By frozen indexer: the publishers it has still to hand on."""
        pool = self.pool()
        return {
            state.id: tuple(sorted(p for p in owed(state.id, pool, self.policy) if (state.id, p) not in self._moot))
            for state in pool
            if state.is_frozen
        }

    def unanswered(self) -> tuple[str, ...]:
        """Those that may hold more than is known."""
        return tuple(url for url, known in self._known.items() if known.answer is None or known.lost)

    def urls(self) -> tuple[str, ...]:
        return tuple(self._known)

    def entry(self, url: str) -> PoolEntry | None:
        known = self._known.get(url)
        return None if known is None else known.entry

    def answer(self, url: str) -> IndexerReport | None:
        known = self._known.get(url)
        return None if known is None else known.answer

    def problem(self, url: str) -> str:
        known = self._known.get(url)
        return "" if known is None else known.problem

    def doubles(self) -> dict[str, str]:
        """Indexers that are in the pool a second time, under another URL: that URL to the one that counts."""
        first: dict[str, str] = {}
        doubles: dict[str, str] = {}
        for url, known in self._known.items():
            if known.answer is not None and first.setdefault(known.answer.id, url) != url:
                doubles[url] = first[known.answer.id]
        return doubles

    # -- keeping it cheap: a state is made anew only for the indexer that has changed ----------------------------------

    def _state(self, url: str) -> IndexerState:
        if url not in self._states:
            self._states[url] = self._made(url, self._known[url])
        return self._states[url]

    def _made(self, url: str, known: _IndexerRecord) -> IndexerState:
        if known.answer is None:
            return IndexerState(url, is_known=False)
        answer = known.answer
        continued = {publisher: self._urls.get(id, id) for publisher, id in answer.assigned.items() if id}
        held = frozenset(answer.assigned).union(known.under_way, known.lost)
        return IndexerState(url, True, answer.is_frozen, held, answer.preferred, continued)

    def _changed(self, url: str) -> _IndexerRecord | None:
        """The indexer, about to change; None if it has left the pool."""
        known = self._known.get(url)
        if known is not None:
            known.changes += 1
            self._states.pop(url, None)
            self._pool = None
        return known

    def _forget_states(self) -> None:
        self._urls = {known.answer.id: url for url, known in reversed(self._known.items()) if known.answer is not None}
        self._states.clear()
        self._pool = None

    def _id_of(self, url: str | None) -> str:
        answer = None if url is None else self.answer(url)
        return "" if answer is None else answer.id
