"""What the assigner knows of its pool: the indexers' own answers, and what they have accepted since.

Nothing here is a fact of its own: an report replaces all that was record of an indexer, but for what the indexer has
accepted while the report was under way, for there the report may be the older of the two. An indexer is named by its
admin URL, which is record before it has answered; the peer ids in its answers are translated as they become record.

Three things are counted as if an indexer held the publisher, lest another one is asked, too: a request under way, a
request whose report was lost, and (by `ownership.assigner`) an indexer of which nothing is record.
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
    report: IndexerReport | None = None
    problem: str = ""  # why it did not report when it was last asked
    is_silent: bool = False  # it left the last request unanswered
    changes: int = 0
    under_way: set[str] = field(default_factory=set)  # publishers it is being asked to take
    lost: dict[str, int] = field(default_factory=dict)  # publishers it may have taken, and since which change
    recent: dict[str, int] = field(default_factory=dict)  # publishers it has taken since it was last asked


class PoolState:
    """The pool as it is record; everything that happens is told to it by the method named after it."""

    def __init__(self, configuration: Configuration) -> None:
        self._records: dict[str, _IndexerRecord] = {}
        self._states: dict[str, IndexerState] = {}
        self._pool: Pool | None = None
        self._urls: dict[str, str] = {}
        # Handoffs that were accepted and took nothing over, as the frozen indexer no longer has the publisher.
        self._moot_handoffs: set[tuple[str, str]] = set()
        self.configure(configuration)

    # -- what has happened --------------------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> None:
        """What is record of those who stay is kept; those who are gone are forgotten with all they held."""
        self.configuration = configuration
        self.policy = configuration.policy()
        old = self._records
        self._records = {
            entry.admin_url: old.get(entry.admin_url) or _IndexerRecord(entry) for entry in configuration.entries
        }
        for entry in configuration.entries:
            self._records[entry.admin_url].entry = entry
        self._moot_handoffs = {
            (source, publisher) for source, publisher in self._moot_handoffs if source in self._records
        }
        self._forget_states()

    def change_count(self, url: str) -> int:
        """To be given back with the report."""
        return self._records[url].changes

    def on_report(self, url: str, report: IndexerReport, asked: int) -> None:
        record = self._records.get(url)
        if record is None:
            return
        record.lost = {publisher: since for publisher, since in record.lost.items() if since > asked}
        record.recent = {publisher: since for publisher, since in record.recent.items() if since > asked}
        if record.report is not None and record.recent:
            newer = {publisher: record.report.assigned[publisher] for publisher in record.recent}
            report = replace(report, assigned={**report.assigned, **newer})
        record.report, record.problem, record.is_silent = report, "", False
        if not report.is_frozen:
            self._moot_handoffs = {(source, publisher) for source, publisher in self._moot_handoffs if source != url}
        self._forget_states()

    def on_poll_failure(self, url: str, why: str) -> None:
        """It did not report; what it said before holds on."""
        if url in self._records:
            self._records[url].problem = why

    def on_request(self, step: AssignmentStep) -> None:
        if record := self._touch(step.target):
            record.under_way.add(step.publisher)

    def on_accept(self, step: AssignmentStep) -> None:
        record = self._touch(step.target)
        if record is None or record.report is None:
            return
        record.under_way.discard(step.publisher)
        record.recent[step.publisher] = record.changes
        assigned = {**record.report.assigned, step.publisher: self._id_of(step.source)}
        record.report = replace(record.report, assigned=assigned)

    def on_refusal(self, step: AssignmentStep) -> None:
        if record := self._touch(step.target):
            record.under_way.discard(step.publisher)

    def on_unknown_outcome(self, step: AssignmentStep) -> None:
        """No report came: it may have been accepted, and stays counted so until the indexer is heard again."""
        if record := self._touch(step.target):
            record.under_way.discard(step.publisher)
            record.lost[step.publisher] = record.changes
            record.is_silent = True

    def on_moot_handoff(self, step: AssignmentStep) -> None:
        assert step.source is not None
        self._moot_handoffs.add((step.source, step.publisher))

    def is_moot(self, step: AssignmentStep) -> bool:
        return (step.source or "", step.publisher) in self._moot_handoffs

    def has_moot(self, publisher: str) -> bool:
        """A frozen indexer has nothing of it to go on from: it must begin anew elsewhere."""
        return any(each == publisher for _, each in self._moot_handoffs)

    # -- what follows from it -----------------------------------------------------------------------------------------

    def pool(self) -> Pool:
        """The indexers as the choice sees them; one that answers at two URLs counts once."""
        if self._pool is None:
            doubles = self.doubles()
            self._pool = tuple(self._state(url) for url in self._records if url not in doubles)
        return self._pool

    def next_step(self, publisher: str, refused: Collection[str] = (), *, is_announced: bool) -> AssignmentStep | None:
        """Whom to ask next, if anybody. Without an announcement only what a frozen indexer owes is handed on."""
        plan = plan_assignment(publisher, self.pool(), self.policy)
        sources = [source for source in plan.resume_from if (source, publisher) not in self._moot_handoffs]
        left = [target for target in plan.candidates if target not in refused]
        if not left or not (plan.needed if is_announced else sources):
            return None
        left.sort(key=lambda url: self._records[url].is_silent)  # stable: the order of the plan within each half
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
        record = self._records.get(url)
        return record is not None and record.report is not None and publisher in record.report.assigned

    def pending_handoffs(self) -> dict[str, tuple[str, ...]]:
        """By frozen indexer: the publishers it has still to hand on."""
        pool = self.pool()
        return {
            state.id: tuple(
                sorted(p for p in owed(state.id, pool, self.policy) if (state.id, p) not in self._moot_handoffs)
            )
            for state in pool
            if state.is_frozen
        }

    def uncertain_indexers(self) -> tuple[str, ...]:
        """Those that may hold more than is record."""
        return tuple(url for url, record in self._records.items() if record.report is None or record.lost)

    def urls(self) -> tuple[str, ...]:
        return tuple(self._records)

    def entry(self, url: str) -> PoolEntry | None:
        record = self._records.get(url)
        return None if record is None else record.entry

    def report(self, url: str) -> IndexerReport | None:
        record = self._records.get(url)
        return None if record is None else record.report

    def problem(self, url: str) -> str:
        record = self._records.get(url)
        return "" if record is None else record.problem

    def doubles(self) -> dict[str, str]:
        """Indexers that are in the pool a second time, under another URL: that URL to the one that counts."""
        first: dict[str, str] = {}
        doubles: dict[str, str] = {}
        for url, record in self._records.items():
            if record.report is not None and first.setdefault(record.report.id, url) != url:
                doubles[url] = first[record.report.id]
        return doubles

    # -- keeping it cheap: a state is made anew only for the indexer that has changed ----------------------------------

    def _state(self, url: str) -> IndexerState:
        if url not in self._states:
            self._states[url] = self._build_state(url, self._records[url])
        return self._states[url]

    def _build_state(self, url: str, record: _IndexerRecord) -> IndexerState:
        if record.report is None:
            return IndexerState(url, is_known=False)
        report = record.report
        continued = {publisher: self._urls.get(id, id) for publisher, id in report.assigned.items() if id}
        held = frozenset(report.assigned).union(record.under_way, record.lost)
        return IndexerState(url, True, report.is_frozen, held, report.preferred, continued)

    def _touch(self, url: str) -> _IndexerRecord | None:
        """The indexer, about to change; None if it has left the pool."""
        record = self._records.get(url)
        if record is not None:
            record.changes += 1
            self._states.pop(url, None)
            self._pool = None
        return record

    def _forget_states(self) -> None:
        self._urls = {
            record.report.id: url for url, record in reversed(self._records.items()) if record.report is not None
        }
        self._states.clear()
        self._pool = None

    def _id_of(self, url: str | None) -> str:
        report = None if url is None else self.report(url)
        return "" if report is None else report.id
