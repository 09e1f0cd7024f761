"""What the front door says of itself: metrics and log lines, in one place, so that no other module is about them.

A query is a dozen events here, so each series is looked up when it is first needed and kept.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from argosy.base import logs
from argosy.base.metrics import Metrics
from argosy.gateway import metrics as m
from argosy.gateway.breaker import BreakerState
from argosy.search.model import Missing


class GatewayTelemetry:
    """Speaks for one front door."""

    def __init__(self, metrics: Metrics) -> None:
        self.log = logs.get("gateway")
        self._metrics = metrics
        self._open: set[str] = set()
        self._queries: dict[str, _Tell] = {}  # by outcome
        self._sources: dict[str, _Tell] = {}
        self._questions: dict[tuple[str, str], _Tell] = {}  # by address and outcome
        self._node_seconds: dict[str, _Tell] = {}  # by address
        self._kept_bytes = -1  # as last told

    @cached_property
    def _query_seconds(self) -> "_Tell":
        return self._metrics.observer(m.QUERY_SECONDS)

    @cached_property
    def in_flight(self) -> "_Tell":
        """Takes how many queries are under way."""
        return self._metrics.setter(m.IN_FLIGHT)

    def record_query(self, outcome: str, missing: Collection[Missing], took_s: float) -> None:
        count = self._queries.get(outcome)
        if count is None:
            count = self._queries[outcome] = self._metrics.adder(m.QUERIES, outcome=outcome)
        count(1.0)
        self._query_seconds(took_s)
        if missing:
            for why, lacking in Counter([each.why for each in missing]).items():
                self._metrics.inc(m.MISSING, by=lacking, reason=why.value)

    def record_source(self, source: str) -> None:
        count = self._sources.get(source)
        if count is None:
            count = self._sources[source] = self._metrics.adder(m.CACHE, source=source)
        count(1.0)

    def record_cache_bytes(self, held_bytes: int) -> None:
        if held_bytes != self._kept_bytes:
            self._kept_bytes = held_bytes
            self._metrics.set(m.CACHE_BYTES, held_bytes)

    def record_hedges(self, count: int) -> None:
        if count:
            self._metrics.inc(m.HEDGES, by=count)

    def record_node_request(
        self, address: str, outcome: str, took_s: float | None = None, *, state: BreakerState
    ) -> None:
        """A question has ended, and this is where the node's breaker stands now."""
        count = self._questions.get((address, outcome))
        if count is None:
            count = self._metrics.adder(m.QUESTIONS, address=address, outcome=outcome)
            self._questions[address, outcome] = count
        count(1.0)
        if took_s is not None:
            observe = self._node_seconds.get(address)
            if observe is None:
                observe = self._node_seconds[address] = self._metrics.observer(m.NODE_SECONDS, address=address)
            observe(took_s)
        is_open = state is not BreakerState.CLOSED
        if is_open != (address in self._open):
            self._metrics.set(m.BREAKER_OPEN, float(is_open), address=address)
            (self._open.add if is_open else self._open.discard)(address)
            if is_open:
                self.log.warning("node left alone", address=address, after=outcome)
            else:
                self.log.info("node asked again", address=address)

    def remove_nodes(self, addresses: Iterable[str]) -> None:
        """Nodes that are gone have no series any more."""
        for address in addresses:
            self._open.discard(address)
            self._metrics.remove(m.BREAKER_OPEN, address=address)
            self._metrics.remove(m.NODE_SECONDS, address=address)
            self._node_seconds.pop(address, None)
            for each in [each for each in self._questions if each[0] == address]:
                del self._questions[each]
                self._metrics.remove(m.QUESTIONS, address=address, outcome=each[1])


_Tell = Callable[[float], None]
