"""What is known of each indexer: whether it is left alone, how much it has to do, and how late is late for it.

An indexer is late when it takes four times as long as 19 of 20 of its answers did; never before `patience_min_s`, so
that a hiccup costs nothing, and always after `patience_max_s`, so that one that is slow by habit does not make all
finds slow. What is late is measured all the same, by which an indexer that has recovered is waited for again.
"""

from collections.abc import Collection

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.gateway.breaker import Breaker, BreakerState
from argosy.gateway.content.model import Outcome
from argosy.gateway.content.settings import ContentSettings
from argosy.gateway.load_balancer import Record

LATE_FACTOR = 4.0


class Book:
    """One entry per indexer, by name. Every `began` is followed by exactly one `ended` or `abandoned`."""

    def __init__(self, settings: ContentSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._records: dict[str, Record] = {}

    def refusal(self, name: str, now: float) -> Outcome | None:
        """Why this indexer is not asked just now; None if it is."""
        record = self._record(name)
        breaker = record.breaker
        if breaker.state is BreakerState.CLOSED and record.is_stalled(self._settings.stall_s, now):
            breaker.trip(now)
        if not breaker.admits(now):
            return Outcome.LEFT_ALONE
        return Outcome.BUSY if record.in_flight >= self._settings.questions_max else None

    def patience_s(self, name: str) -> float:
        usual_s = LATE_FACTOR * self._record(name).late_s
        return min(max(usual_s, self._settings.patience_min_s), self._settings.patience_max_s)

    def began(self, name: str, now: float) -> None:
        self._record(name).began(now)

    def answered(self, name: str, took_s: float, now: float) -> None:
        """It has answered, or begun to; how it ends is told by `ended`."""
        record = self._record(name)
        record.answered(took_s, now)
        record.breaker.succeeded()

    def ended(self, name: str, outcome: Outcome, now: float) -> None:
        breaker = self._closed(name).breaker
        if outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.TIMED_OUT):
            breaker.failed(now)
        else:
            breaker.succeeded()

    def abandoned(self, name: str, now: float) -> None:
        """Nobody waits for the answer any more, through no fault of the indexer."""
        self._closed(name).breaker.abandoned(now)

    def state(self, name: str) -> BreakerState:
        return self._record(name).breaker.state

    def keep(self, names: Collection[str]) -> list[str]:
        """Forgets all others but those with questions under way; returns those forgotten."""
        gone = [name for name, record in self._records.items() if name not in names and not record.in_flight]
        for name in gone:
            del self._records[name]
        return gone

    def _closed(self, name: str) -> Record:
        record = self._record(name)
        record.in_flight -= 1
        assert record.in_flight >= 0, name
        return record

    def _record(self, name: str) -> Record:
        record = self._records.get(name)
        if record is None:
            settings = self._settings
            backoff = Backoff(settings.breaker_first_s, settings.breaker_ceiling_s)
            record = self._records[name] = Record(Breaker(settings.breaker_failures, backoff, self._random))
        return record
