"""Replica choice and circuit breakers.

The load balancer takes the better of two random holders (power of two choices), by recent latency times requests in
flight. Two random ones, because always taking the best makes all gateways pick the same node until its load shows. The
average latency of a node decays while it gets no requests, so that a node that was slow is tried again. A request is
hedged when it is slower than the 95th percentile of its node, and a token bucket bounds hedges to a share of all
requests: when every node is slow, hedging would only double the load (The Tail at Scale).

A circuit breaker sends no requests to an address after consecutive failures; then a single probe decides.

    closed ──consecutive failures──▶ open ──backoff elapsed, one probe is sent──▶ half open ──response──▶ closed
                                      ▲───────────────probe failed, longer backoff──────┘

The backoff is jittered, so that many gateways do not probe a recovering node at the same moment. Any response closes
the breaker, even to a request sent before it opened: the response proves that the node is alive.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from math import inf

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.gateway.settings import GatewaySettings


class BreakerState(Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"  # one probe is in flight


class Breaker:
    """The breaker of one address. The caller checks `admits`, then reports `on_start` and exactly one outcome."""

    def __init__(self, failures_max: int, backoff: Backoff, random: Random) -> None:
        self.state = BreakerState.CLOSED
        self.retry_at = 0.0  # while open
        self._failures_max = failures_max
        self._backoff = backoff
        self._random = random
        self._failures = 0  # in a row
        self._openings = 0  # in a row

    def admits(self, now: float) -> bool:
        if self.state is BreakerState.OPEN:
            return now >= self.retry_at
        # Half open: until the probe's outcome is known, nothing else is sent.
        return self.state is BreakerState.CLOSED

    def on_start(self, now: float) -> None:
        if self.state is BreakerState.OPEN and now >= self.retry_at:
            self.state = BreakerState.HALF_OPEN

    def on_success(self) -> None:
        self.state = BreakerState.CLOSED
        self._failures = self._openings = 0

    def on_failure(self, now: float) -> None:
        self._failures += 1
        # A failure while open belongs to a request sent before it opened, and must not lengthen the backoff.
        if self.state is BreakerState.HALF_OPEN or (
            self.state is BreakerState.CLOSED and self._failures >= self._failures_max
        ):
            self.trip(now)

    def trip(self, now: float) -> None:
        """Open the breaker, or extend it with a longer backoff if it is open already."""
        self._openings += 1
        self.state = BreakerState.OPEN
        self.retry_at = now + self._backoff.delay(self._openings, self._random)

    def on_cancel(self, now: float) -> None:
        """The request was cancelled by its caller. If it was the probe, the next request may probe at once."""
        if self.state is BreakerState.HALF_OPEN:
            self.state, self.retry_at = BreakerState.OPEN, now


LATENCIES_MAX = 64  # per node
LATENCIES_MIN = 10  # new samples before the percentile is computed again; fewer are too noisy
LATE_UNKNOWN_S = 0.5  # assumed 95th percentile of a node without samples; too short, and a new node is hedged always
LATE_SHARE = 0.95
NEWEST_WEIGHT = 0.3  # of the latest sample in the moving average
HALF_LIFE_S = 10.0  # of the average while no samples arrive
STALLED_REQUESTS_MIN = 8  # with fewer in flight, a silent node may be busy with one expensive query
# A full bucket at the start, so that the first slow node after a start is hedged.
HEDGE_BURST_MAX = 10.0  # tokens in the bucket: hedges that may be sent in a burst


class NodeStats:
    """Latency statistics, requests in flight and circuit breaker of one address."""

    def __init__(self, breaker: Breaker) -> None:
        self.breaker = breaker
        self.in_flight = 0
        self._average_s = 0.0
        self._average_at = -inf
        self._last_response_at = -inf  # or the first request sent to an idle node, so that idle time is not a stall
        self._latencies: deque[float] = deque(maxlen=LATENCIES_MAX)
        self._late_s = LATE_UNKNOWN_S
        self._until_review = LATENCIES_MIN

    def on_start(self, now: float) -> None:
        if self.in_flight == 0:
            self._last_response_at = now
        self.in_flight += 1
        self.breaker.on_start(now)

    def observe_latency(self, took_s: float, now: float) -> None:
        # Against the decayed average: after a pause the newest sample outweighs what was measured before it.
        known = self.average_s(now)
        self._average_s = took_s if known == 0.0 else known + NEWEST_WEIGHT * (took_s - known)
        self._average_at = now

    def on_response(self, took_s: float, now: float) -> None:
        self._last_response_at = now
        self.observe_latency(took_s, now)
        self._latencies.append(took_s)
        # Once per LATENCIES_MIN responses and not for each: every query gets a response from every node.
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
        """Expected wait of one more request. The constant makes nodes without samples compare by requests in flight."""
        return float((self.in_flight + 1) * (self.average_s(now) + 1e-6))

    def is_stalled(self, stall_s: float, now: float) -> bool:
        return self.in_flight >= STALLED_REQUESTS_MIN and now - self._last_response_at > stall_s

    @property
    def late_s(self) -> float:
        return self._late_s


class LoadBalancer:
    """Picks replicas. Each request reports `on_start`, then exactly one of the five outcomes below.

    `holders_of` returns the addresses that serve a repository now.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        random: Random,
        holders_of: Callable[[str], Sequence[str]] = lambda name: (),
    ) -> None:
        self._settings = settings
        self._random = random
        self._holders_of = holders_of
        self._stats_by_node: dict[str, NodeStats] = {}
        self._hedges = HEDGE_BURST_MAX

    # -- picking ----------------------------------------------------------------------------------------------------

    def pick(self, addresses: Sequence[str], now: float) -> str | None:
        """The address to send to; None if the circuits of all are open."""
        open_ones = [address for address in addresses if self.admits(address, now)]
        if len(open_ones) > 2:
            # Two different ones: the second draw leaves out the first.
            first = self._random.randrange(0, len(open_ones))
            second = self._random.randrange(0, len(open_ones) - 1)
            open_ones = [open_ones[first], open_ones[second + (second >= first)]]
        if len(open_ones) < 2:
            return open_ones[0] if open_ones else None
        one, other = (self._stats(address).load(now) for address in open_ones)
        if one == other:  # two idle nodes without samples; the first of the list must not get all queries
            return self._random.choice(open_ones)
        return open_ones[0] if one < other else open_ones[1]

    def another(self, name: str, tried: Collection[str], now: float) -> str | None:
        """A holder of the repository that has not been tried; None if there is none.

        From the current routes and not those at the start of the query: a retry is often due to a change of leases.
        """
        return self.pick([address for address in self._holders_of(name) if address not in tried], now)

    def admits(self, address: str, now: float) -> bool:
        stats = self._stats_by_node.get(address)
        if stats is None:
            return True
        # A stalled node accepts requests and responds to none. Its breaker opens without waiting until they time out,
        # which would take the deadline of three queries.
        if stats.breaker.state is BreakerState.CLOSED and stats.is_stalled(self._settings.stall_s, now):
            stats.breaker.trip(now)
        return stats.breaker.admits(now)

    def hedge_after_s(self, address: str) -> float:
        """How long to wait for a response before sending a hedged request."""
        return max(self._settings.hedge_min_s, self._stats(address).late_s)

    def may_hedge(self) -> bool:
        """Take a hedge token, if there is one."""
        if not self._settings.with_hedging or self._hedges < 1.0:
            return False
        self._hedges -= 1.0
        return True

    # -- request outcomes -------------------------------------------------------------------------------------------

    def on_start(self, address: str, now: float) -> None:
        # Each request adds a share of a token, so hedges are at most that share of all requests, beyond one burst.
        self._hedges = min(HEDGE_BURST_MAX, self._hedges + self._settings.hedge_share)
        self._stats(address).on_start(now)

    def on_response(self, address: str, took_s: float, now: float) -> None:
        stats = self._finish(address)
        stats.on_response(took_s, now)
        stats.breaker.on_success()

    def on_refusal(self, address: str, now: float) -> None:
        """The node responded with an error of the request: it is alive, so the breaker counts a success."""
        self._finish(address).breaker.on_success()

    def on_failure(self, address: str, now: float) -> None:
        self._finish(address).breaker.on_failure(now)

    def on_overtaken(self, address: str, took_s: float, now: float) -> None:
        """Another holder responded first. The elapsed time is a lower bound of the latency, and still informative."""
        stats = self._finish(address)
        stats.observe_latency(took_s, now)
        stats.breaker.on_cancel(now)

    def on_cancel(self, address: str, now: float) -> None:
        """The caller cancelled the request, through no fault of the node."""
        self._finish(address).breaker.on_cancel(now)

    # -- state ------------------------------------------------------------------------------------------------------

    def breaker(self, address: str) -> Breaker:
        return self._stats(address).breaker

    def states(self) -> dict[str, BreakerState]:
        return {address: stats.breaker.state for address, stats in self._stats_by_node.items()}

    def retain_only(self, addresses: Collection[str]) -> list[str]:
        """Drop other nodes without requests in flight; returns the dropped addresses."""
        removed = [each for each, stats in self._stats_by_node.items() if each not in addresses and not stats.in_flight]
        for address in removed:
            del self._stats_by_node[address]
        return removed

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
