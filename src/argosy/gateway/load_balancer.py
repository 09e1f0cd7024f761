"""Which of several holders is asked: the better of two drawn at random, by how slow it was lately and how much it has
to do.

What is known of a node fades while nobody asks it, so that one that was slow is tried again. Second questions to
another holder are asked when the first is later than 19 of 20 before it, and only as a small part of all questions.
"""

from collections import deque
from collections.abc import Collection, Sequence
from math import inf

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.gateway.breaker import Breaker, BreakerState
from argosy.gateway.settings import GatewaySettings

LATENCIES_KEPT = 64  # per node
LATENCIES_MIN = 10  # fewer say nothing about how late is late
LATE_UNKNOWN_S = 0.5  # late, of a node that is not known yet
LATE_SHARE = 0.95
NEWEST_WEIGHT = 0.3  # of the latest latency in the average
HALF_LIFE_S = 10.0  # an average nobody renews is worth half after this
STALLED_QUESTIONS = 8  # with fewer under way a node may just be busy with a hard one
HEDGES_SAVED_MAX = 10.0  # second questions that may be asked in a burst


class Record:
    """What is known of one address."""

    def __init__(self, breaker: Breaker) -> None:
        self.breaker = breaker
        self.in_flight = 0
        self._average_s = 0.0
        self._average_at = -inf
        self._heard_at = -inf  # of the last answer, or of the question that ended a silence
        self._latencies: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._late_s = LATE_UNKNOWN_S
        self._until_review = LATENCIES_MIN

    def began(self, now: float) -> None:
        if self.in_flight == 0:
            self._heard_at = now
        self.in_flight += 1
        self.breaker.began(now)

    def measured(self, took_s: float, now: float) -> None:
        known = self.average_s(now)
        self._average_s = took_s if known == 0.0 else known + NEWEST_WEIGHT * (took_s - known)
        self._average_at = now

    def answered(self, took_s: float, now: float) -> None:
        self._heard_at = now
        self.measured(took_s, now)
        self._latencies.append(took_s)
        self._until_review -= 1
        if self._until_review <= 0:
            ranked = sorted(self._latencies)
            self._late_s = ranked[int(LATE_SHARE * (len(ranked) - 1))]
            self._until_review = LATENCIES_MIN

    def average_s(self, now: float) -> float:
        if self._average_at == -inf:
            return 0.0
        return float(self._average_s * 0.5 ** ((now - self._average_at) / HALF_LIFE_S))

    def load(self, now: float) -> float:
        """What a further question would have to wait for; of two that nobody has asked, the less busy one."""
        return float((self.in_flight + 1) * (self.average_s(now) + 1e-6))

    def is_stalled(self, stall_s: float, now: float) -> bool:
        return self.in_flight >= STALLED_QUESTIONS and now - self._heard_at > stall_s

    @property
    def late_s(self) -> float:
        return self._late_s


class Chooser:
    """Chooses by what it is told of every question: `began`, then exactly one of the five ways to end."""

    def __init__(self, settings: GatewaySettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._records: dict[str, Record] = {}
        self._hedges = HEDGES_SAVED_MAX

    # -- choosing ---------------------------------------------------------------------------------------------------

    def pick(self, addresses: Sequence[str], now: float) -> str | None:
        """The address to ask; None if all are left alone just now."""
        open_ones = [address for address in addresses if self.admits(address, now)]
        if len(open_ones) > 2:
            first = self._random.randrange(0, len(open_ones))
            second = self._random.randrange(0, len(open_ones) - 1)
            open_ones = [open_ones[first], open_ones[second + (second >= first)]]
        if len(open_ones) < 2:
            return open_ones[0] if open_ones else None
        one, other = (self._record(address).load(now) for address in open_ones)
        if one == other:
            return self._random.choice(open_ones)
        return open_ones[0] if one < other else open_ones[1]

    def admits(self, address: str, now: float) -> bool:
        record = self._records.get(address)
        if record is None:
            return True
        if record.breaker.state is BreakerState.CLOSED and record.is_stalled(self._settings.stall_s, now):
            record.breaker.trip(now)
        return record.breaker.admits(now)

    def hedge_after_s(self, address: str) -> float:
        """How long an answer may take before another holder is asked, too."""
        return max(self._settings.hedge_min_s, self._record(address).late_s)

    def may_hedge(self) -> bool:
        """Takes one second question from what has been saved up, if there is one."""
        if not self._settings.with_hedging or self._hedges < 1.0:
            return False
        self._hedges -= 1.0
        return True

    # -- what became of questions -----------------------------------------------------------------------------------

    def began(self, address: str, now: float) -> None:
        self._hedges = min(HEDGES_SAVED_MAX, self._hedges + self._settings.hedge_share)
        self._record(address).began(now)

    def answered(self, address: str, took_s: float, now: float) -> None:
        record = self._ended(address)
        record.answered(took_s, now)
        record.breaker.succeeded()

    def refused(self, address: str, now: float) -> None:
        """It lives and would not answer: that is no reason to leave it alone."""
        self._ended(address).breaker.succeeded()

    def failed(self, address: str, now: float) -> None:
        self._ended(address).breaker.failed(now)

    def overtaken(self, address: str, took_s: float, now: float) -> None:
        """Another holder was quicker: how long this one had is less than it would have taken."""
        record = self._ended(address)
        record.measured(took_s, now)
        record.breaker.abandoned(now)

    def abandoned(self, address: str, now: float) -> None:
        """Nobody waits for the answer any more, through no fault of the node."""
        self._ended(address).breaker.abandoned(now)

    # -- what is known ----------------------------------------------------------------------------------------------

    def breaker(self, address: str) -> Breaker:
        return self._record(address).breaker

    def states(self) -> dict[str, BreakerState]:
        return {address: record.breaker.state for address, record in self._records.items()}

    def keep(self, addresses: Collection[str]) -> list[str]:
        """Forgets all other nodes but those with questions under way; returns those forgotten."""
        gone = [each for each, record in self._records.items() if each not in addresses and not record.in_flight]
        for address in gone:
            del self._records[address]
        return gone

    def _ended(self, address: str) -> Record:
        record = self._record(address)
        record.in_flight -= 1
        assert record.in_flight >= 0, address
        return record

    def _record(self, address: str) -> Record:
        record = self._records.get(address)
        if record is None:
            settings = self._settings
            backoff = Backoff(settings.breaker_first_s, settings.breaker_ceiling_s)
            record = self._records[address] = Record(Breaker(settings.breaker_failures, backoff, self._random))
        return record
