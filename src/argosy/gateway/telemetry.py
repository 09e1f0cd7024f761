"""Metrics and log lines of the gateway; no other module of the package logs or declares metrics."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from argosy.base import logs
from argosy.base.metrics import Metrics, counter, gauge, histogram
from argosy.gateway.load_balancer import BreakerState
from argosy.search.model import Missing

QUERIES = counter("argosy_gateway_queries", "Queries by outcome", ("outcome",))
QUERY_SECONDS = histogram("argosy_gateway_query_seconds", "Query latency, cached answers included")
NODE_REQUESTS = counter(
    "argosy_gateway_node_requests", "Requests to search nodes by address and outcome", ("address", "outcome")
)
NODE_SECONDS = histogram("argosy_gateway_node_seconds", "Response time of search nodes", labels=("address",))
HEDGES = counter("argosy_gateway_hedges", "Hedged requests: duplicates sent because the first one was slow")
BREAKER_OPEN = gauge("argosy_gateway_breaker_open", "1 while the node's circuit breaker is open", ("address",))
CACHE = counter("argosy_gateway_cache", "Queries by the source of the answer: cache, shared, nodes", ("source",))
CACHE_BYTES = gauge("argosy_gateway_cache_bytes", "Approximate memory of cached answers")
MISSING = counter("argosy_gateway_missing", "Repositories missing from answers, by reason", ("reason",))
IN_FLIGHT = gauge("argosy_gateway_in_flight", "Queries waiting for nodes")


class GatewayTelemetry:
    """The metrics and log lines of one gateway.

    A query causes about a dozen of these calls, so bound series are looked up once and cached.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.log = logs.get("gateway")
        self._metrics = metrics
        self._open: set[str] = set()
        self._queries: dict[str, _Record] = {}  # by outcome
        self._sources: dict[str, _Record] = {}
        self._node_requests: dict[tuple[str, str], _Record] = {}  # by address and outcome
        self._node_seconds: dict[str, _Record] = {}  # by address
        self._cache_bytes = -1  # as last exported

    @cached_property
    def _query_seconds(self) -> "_Record":
        return self._metrics.observer(QUERY_SECONDS)

    @cached_property
    def set_in_flight(self) -> "_Record":
        """Set the number of queries in progress."""
        return self._metrics.setter(IN_FLIGHT)

    def record_query(self, outcome: str, missing: Collection[Missing], took_s: float) -> None:
        count = self._queries.get(outcome)
        if count is None:
            count = self._queries[outcome] = self._metrics.adder(QUERIES, outcome=outcome)
        count(1.0)
        self._query_seconds(took_s)
        if missing:
            # One call per reason: in a fleet that starts, hundreds of repositories are missing.
            for why, lacking in Counter([each.why for each in missing]).items():
                self._metrics.inc(MISSING, by=lacking, reason=why.value)

    def record_source(self, source: str) -> None:
        count = self._sources.get(source)
        if count is None:
            count = self._sources[source] = self._metrics.adder(CACHE, source=source)
        count(1.0)

    def record_cache_bytes(self, held_bytes: int) -> None:
        if held_bytes != self._cache_bytes:
            self._cache_bytes = held_bytes
            self._metrics.set(CACHE_BYTES, held_bytes)

    def record_hedges(self, count: int) -> None:
        if count:
            self._metrics.inc(HEDGES, by=count)

    def record_node_request(
        self, address: str, outcome: str, took_s: float | None = None, *, state: BreakerState
    ) -> None:
        """Count a finished request; `state` is the state of the node's circuit breaker after it."""
        count = self._node_requests.get((address, outcome))
        if count is None:
            count = self._metrics.adder(NODE_REQUESTS, address=address, outcome=outcome)
            self._node_requests[address, outcome] = count
        count(1.0)
        if took_s is not None:
            observe = self._node_seconds.get(address)
            if observe is None:
                observe = self._node_seconds[address] = self._metrics.observer(NODE_SECONDS, address=address)
            observe(took_s)
        is_open = state is not BreakerState.CLOSED
        if is_open != (address in self._open):
            self._metrics.set(BREAKER_OPEN, float(is_open), address=address)
            (self._open.add if is_open else self._open.discard)(address)
            if is_open:
                self.log.warning("circuit breaker opened", address=address, after=outcome)
            else:
                self.log.info("circuit breaker closed", address=address)

    def remove_nodes(self, addresses: Iterable[str]) -> None:
        """Remove the series of nodes that left, so that their last values are not exported forever."""
        for address in addresses:
            self._open.discard(address)
            self._metrics.remove(BREAKER_OPEN, address=address)
            self._metrics.remove(NODE_SECONDS, address=address)
            self._node_seconds.pop(address, None)
            for each in [each for each in self._node_requests if each[0] == address]:
                del self._node_requests[each]
                self._metrics.remove(NODE_REQUESTS, address=address, outcome=each[1])


_Record = Callable[[float], None]
