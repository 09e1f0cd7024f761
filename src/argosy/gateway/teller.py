"""What the front door says of itself: metrics and log lines, in one place, so that no other module is about them."""

from collections import Counter
from collections.abc import Collection, Iterable

from argosy.base import logs
from argosy.base.metrics import Metrics
from argosy.gateway import metrics as m
from argosy.gateway.breaker import BreakerState
from argosy.search.model import Missing


class Teller:
    """Speaks for one front door."""

    def __init__(self, metrics: Metrics) -> None:
        self.log = logs.get("gateway")
        self._metrics = metrics
        self._open: set[str] = set()
        self._outcomes: set[tuple[str, str]] = set()
        self._kept_bytes = -1                           # as last told

    def query(self, outcome: str, missing: Collection[Missing], took_s: float) -> None:
        self._metrics.inc(m.QUERIES, outcome=outcome)
        self._metrics.observe(m.QUERY_SECONDS, took_s)
        if missing:
            for why, count in Counter([each.why for each in missing]).items():
                self._metrics.inc(m.MISSING, by=count, reason=why.value)

    def source(self, source: str) -> None:
        self._metrics.inc(m.CACHE, source=source)

    def kept(self, held_bytes: int) -> None:
        if held_bytes != self._kept_bytes:
            self._kept_bytes = held_bytes
            self._metrics.set(m.CACHE_BYTES, held_bytes)

    def in_flight(self, queries: int) -> None:
        self._metrics.set(m.IN_FLIGHT, queries)

    def hedged(self, count: int) -> None:
        if count:
            self._metrics.inc(m.HEDGES, by=count)

    def question(self, address: str, outcome: str, took_s: float | None = None, *, state: BreakerState) -> None:
        """A question has ended, and this is where the node's breaker stands now."""
        self._outcomes.add((address, outcome))
        self._metrics.inc(m.QUESTIONS, address=address, outcome=outcome)
        if took_s is not None:
            self._metrics.observe(m.NODE_SECONDS, took_s, address=address)
        is_open = state is not BreakerState.CLOSED
        if is_open != (address in self._open):
            self._metrics.set(m.BREAKER_OPEN, float(is_open), address=address)
            (self._open.add if is_open else self._open.discard)(address)
            if is_open:
                self.log.warning("node left alone", address=address, after=outcome)
            else:
                self.log.info("node asked again", address=address)

    def forgotten(self, addresses: Iterable[str]) -> None:
        """Nodes that are gone have no series any more."""
        for address in addresses:
            self._open.discard(address)
            self._metrics.remove(m.BREAKER_OPEN, address=address)
            self._metrics.remove(m.NODE_SECONDS, address=address)
            for each in [each for each in self._outcomes if each[0] == address]:
                self._outcomes.discard(each)
                self._metrics.remove(m.QUESTIONS, address=address, outcome=each[1])
