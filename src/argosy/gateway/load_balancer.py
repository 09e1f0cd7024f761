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


class NodeStats:
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

    def on_start(self, now: float) -> None:
        if self.in_flight == 0:
            self._heard_at = now
        self.in_flight += 1
        self.breaker.on_start(now)

    def observe_latency(self, took_s: float, now: float) -> None:
        known = self.average_s(now)
        self._average_s = took_s if known == 0.0 else known + NEWEST_WEIGHT * (took_s - known)
        self._average_at = now

    def on_response(self, took_s: float, now: float) -> None:
        self._heard_at = now
        self.observe_latency(took_s, now)
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


class LoadBalancer:
    """Chooses by what it is told of every question: `began`, then exactly one of the five ways to end."""

    def __init__(self, settings: GatewaySettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._stats_by_node: dict[str, NodeStats] = {}
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
        one, other = (self._stats(address).load(now) for address in open_ones)
        if one == other:
            return self._random.choice(open_ones)
        return open_ones[0] if one < other else open_ones[1]

    def admits(self, address: str, now: float) -> bool:
        stats = self._stats_by_node.get(address)
        if stats is None:
            return True
        if stats.breaker.state is BreakerState.CLOSED and stats.is_stalled(self._settings.stall_s, now):
            stats.breaker.trip(now)
        return stats.breaker.admits(now)

    def hedge_after_s(self, address: str) -> float:
        """How long an answer may take before another holder is asked, too."""
        return max(self._settings.hedge_min_s, self._stats(address).late_s)

    def may_hedge(self) -> bool:
        """Takes one second question from what has been saved up, if there is one."""
        if not self._settings.with_hedging or self._hedges < 1.0:
            return False
        self._hedges -= 1.0
        return True

    # -- what became of questions -----------------------------------------------------------------------------------

    def on_start(self, address: str, now: float) -> None:
        self._hedges = min(HEDGES_SAVED_MAX, self._hedges + self._settings.hedge_share)
        self._stats(address).on_start(now)

    def on_response(self, address: str, took_s: float, now: float) -> None:
        stats = self._finish(address)
        stats.on_response(took_s, now)
        stats.breaker.on_success()

    def on_refusal(self, address: str, now: float) -> None:
        """It lives and would not answer: that is no reason to leave it alone."""
        self._finish(address).breaker.on_success()

    def on_failure(self, address: str, now: float) -> None:
        self._finish(address).breaker.on_failure(now)

    def on_overtaken(self, address: str, took_s: float, now: float) -> None:
        """Another holder was quicker: how long this one had is less than it would have taken."""
        stats = self._finish(address)
        stats.observe_latency(took_s, now)
        stats.breaker.on_cancel(now)

    def on_cancel(self, address: str, now: float) -> None:
        """Nobody waits for the answer any more, through no fault of the node."""
        self._finish(address).breaker.on_cancel(now)

    # -- what is known ----------------------------------------------------------------------------------------------

    def breaker(self, address: str) -> Breaker:
        return self._stats(address).breaker

    def states(self) -> dict[str, BreakerState]:
        return {address: stats.breaker.state for address, stats in self._stats_by_node.items()}

    def retain_only(self, addresses: Collection[str]) -> list[str]:
        """Forgets all other nodes but those with questions under way; returns those forgotten."""
        gone = [each for each, stats in self._stats_by_node.items() if each not in addresses and not stats.in_flight]
        for address in gone:
            del self._stats_by_node[address]
        return gone

    def _finish(self, address: str) -> NodeStats:
        stats = self._stats(address)
        stats.in_flight -= 1
        assert stats.in_flight >= 0, address
        return stats

    def _stats(self, address: str) -> NodeStats:
        stats = self._stats_by_node.get(address)
        if stats is None:
            settings = self._settings
            backoff = Backoff(settings.breaker_first_s, settings.breaker_ceiling_s)
            stats = self._stats_by_node[address] = NodeStats(Breaker(settings.breaker_failures, backoff, self._random))
        return stats
