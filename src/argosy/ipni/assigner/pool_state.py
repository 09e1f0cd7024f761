"""State of the pool: the indexers' own reports, and what they have accepted since.

A report replaces everything known of an indexer, except what the indexer accepted while the report was under way,
because then the report may be older. An indexer is identified by its admin URL, which is known before it answers;
peer ids in reports are translated once known.

Three cases count as if an indexer held the publisher, so that no second one is assigned: a request under way, a
request with unknown outcome, and (in `ownership.assigner`) an indexer without a report. Over-assignment is the worse
error: the data would be ingested twice, and nothing takes it back.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ownership.assigner import (
    IndexerState,
    Pool,
    audience,
    holders,
    pending_handoffs,
    plan_assignment,
    target_replication,
)


@dataclass(frozen=True)
class IndexerReport:
    """Report of one indexer. `assigned` maps each publisher to the peer id of the frozen indexer that handed it
    off, or to an empty text."""

    id: str
    is_frozen: bool = False
    usage_percent: float = -1.0
    assigned: Mapping[str, str] = field(default_factory=dict)
    preferred: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AssignmentStep:
    """A request to make: `target` gets the publisher and, with a `source`, resumes where that frozen indexer
    stopped."""

    publisher: str
    target: str
    source: str | None = None


@dataclass
class _IndexerRecord:
    """One indexer of the pool. `changes` counts changes other than reports: a report is older than a change that
    was made after it was requested."""

    entry: PoolEntry
    report: IndexerReport | None = None
    problem: str = ""  # why the last poll failed
    is_silent: bool = False  # its last request has an unknown outcome
    changes: int = 0
    under_way: set[str] = field(default_factory=set)  # publishers with a request under way
    lost: dict[str, int] = field(default_factory=dict)  # publishers it may have accepted, and since which change
    recent: dict[str, int] = field(default_factory=dict)  # publishers accepted since the last report


class PoolState:
    """The pool as known; each method `on_<event>` applies one event."""

    def __init__(self, configuration: Configuration) -> None:
        self._records: dict[str, _IndexerRecord] = {}
        self._states: dict[str, IndexerState] = {}
        # Cached: one announcement needs it several times, and rebuilding it touches every assignment of the pool.
        self._pool: Pool | None = None
        self._urls: dict[str, str] = {}
        # Handoffs that were accepted without effect, because the frozen indexer no longer has the publisher.
        self._moot_handoffs: set[tuple[str, str]] = set()
        self.configure(configuration)

    # -- events -------------------------------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> None:
        """Applies a configuration. Records of remaining indexers stay, those of removed ones are dropped."""
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
        self._invalidate_states()

    def change_count(self, url: str) -> int:
        """The change counter; pass it to `on_report`."""
        return self._records[url].changes

    def on_report(self, url: str, report: IndexerReport, changes_before: int) -> None:
        """Applies a report that was requested at the given `change_count`."""
        record = self._records.get(url)
        if record is None:
            return
        # What changed after the report was requested may be missing in it, so it is kept until the next one.
        record.lost = {publisher: since for publisher, since in record.lost.items() if since > changes_before}
        record.recent = {publisher: since for publisher, since in record.recent.items() if since > changes_before}
        if record.report is not None and record.recent:
            newer = {publisher: record.report.assigned[publisher] for publisher in record.recent}
            report = replace(report, assigned={**report.assigned, **newer})
        record.report, record.problem, record.is_silent = report, "", False
        if not report.is_frozen:
            # An indexer that unfroze ingests again: its next freeze is a new handoff.
            self._moot_handoffs = {(source, publisher) for source, publisher in self._moot_handoffs if source != url}
        self._invalidate_states()

    def on_poll_failure(self, url: str, why: str) -> None:
        """The poll failed; the last report stays valid."""
        if url in self._records:
            self._records[url].problem = why

    def on_request(self, step: AssignmentStep) -> None:
        if record := self._touch(step.target):
            record.under_way.add(step.publisher)

    def on_accept(self, step: AssignmentStep) -> None:
        record = self._touch(step.target)
        # Assignments go only to indexers with a report; without one the indexer has left the pool and come back
        # meanwhile.
        if record is None or record.report is None:
            return
        record.under_way.discard(step.publisher)
        record.recent[step.publisher] = record.changes
        # With its source, as the indexer's own report will say: a repeated plan then sees that the handoff is done.
        assigned = {**record.report.assigned, step.publisher: self._id_of(step.source)}
        record.report = replace(record.report, assigned=assigned)

    def on_refusal(self, step: AssignmentStep) -> None:
        if record := self._touch(step.target):
            record.under_way.discard(step.publisher)

    def on_unknown_outcome(self, step: AssignmentStep) -> None:
        """The outcome is unknown: the request counts as accepted until the next report."""
        if record := self._touch(step.target):
            record.under_way.discard(step.publisher)
            # The number of this change, by which `on_report` tells whether a report is newer.
            record.lost[step.publisher] = record.changes
            record.is_silent = True

    def on_moot_handoff(self, step: AssignmentStep) -> None:
        assert step.source is not None
        self._moot_handoffs.add((step.source, step.publisher))

    def is_moot(self, step: AssignmentStep) -> bool:
        return (step.source or "", step.publisher) in self._moot_handoffs

    def has_moot(self, publisher: str) -> bool:
        """Whether a handoff was moot: the publisher must start from the beginning elsewhere."""
        return any(each == publisher for _, each in self._moot_handoffs)

    # -- queries ------------------------------------------------------------------------------------------------------

    def pool(self) -> Pool:
        """The pool for `ownership.assigner`; an indexer listed under two URLs counts once."""
        if self._pool is None:
            doubles = self.doubles()
            self._pool = tuple(self._state(url) for url in self._records if url not in doubles)
        return self._pool

    def next_step(self, publisher: str, refused: Collection[str] = (), *, is_announced: bool) -> AssignmentStep | None:
        """The next request, if any. Without an announcement only pending handoffs are continued."""
        plan = plan_assignment(publisher, self.pool(), self.policy)
        sources = [source for source in plan.resume_from if (source, publisher) not in self._moot_handoffs]
        left = [target for target in plan.candidates if target not in refused]
        if not left or not (plan.needed if is_announced else sources):
            return None
        left.sort(key=lambda url: self._records[url].is_silent)  # stable sort: within each half the plan's order stays
        return AssignmentStep(publisher, left[0], sources[0] if sources else None)

    def is_short(self, publisher: str) -> bool:
        """Whether fewer indexers certainly hold the publisher than required."""
        if not self.policy.allows(publisher):
            return False
        pool = self.pool()
        # Requests under way and with unknown outcome count for placement, and not for this: they may still fail.
        certain = [url for url in holders(publisher, pool, self.policy) if self.holds(url, publisher)]
        return len(certain) < target_replication(publisher, self.policy, len(pool))

    def audience(self, publisher: str) -> tuple[str, ...]:
        return audience(publisher, self.pool(), self.policy)

    def holds(self, url: str, publisher: str) -> bool:
        record = self._records.get(url)
        return record is not None and record.report is not None and publisher in record.report.assigned

    def pending_handoffs(self) -> dict[str, tuple[str, ...]]:
        """Publishers to hand off, by frozen indexer."""
        pool = self.pool()
        return {
            state.id: tuple(
                sorted(
                    p for p in pending_handoffs(state.id, pool, self.policy) if (state.id, p) not in self._moot_handoffs
                )
            )
            for state in pool
            if state.is_frozen
        }

    def uncertain_indexers(self) -> tuple[str, ...]:
        """Indexers that may hold more than is known."""
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
        """Indexers listed twice: the redundant URL to the one that counts."""
        first: dict[str, str] = {}
        doubles: dict[str, str] = {}
        for url, record in self._records.items():
            # By peer id: two URLs of one indexer would make it count as two replicas.
            if record.report is not None and first.setdefault(record.report.id, url) != url:
                doubles[url] = first[record.report.id]
        return doubles

    # -- cached states: one is rebuilt only when its indexer changes --------------------------------------------------

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
        """Marks the indexer's state as changed; None if it has left the pool."""
        record = self._records.get(url)
        if record is not None:
            record.changes += 1
            self._states.pop(url, None)
            self._pool = None
        return record

    def _invalidate_states(self) -> None:
        self._urls = {
            record.report.id: url for url, record in reversed(self._records.items()) if record.report is not None
        }
        self._states.clear()
        self._pool = None

    def _id_of(self, url: str | None) -> str:
        report = None if url is None else self.report(url)
        return "" if report is None else report.id
