"""What is measured, and that nodes that have left leave no series behind."""

from argosy.base.metrics import Metrics
from argosy.gateway.load_balancer import BreakerState
from argosy.gateway.telemetry import BREAKER_OPEN, MISSING, NODE_REQUESTS, NODE_SECONDS, QUERIES, GatewayTelemetry
from argosy.search.model import Missing, MissingReason


def test_requests_and_breakers_are_counted_by_address() -> None:
    metrics = Metrics()
    telemetry = GatewayTelemetry(metrics)
    telemetry.record_node_request("n1", "answered", 0.1, state=BreakerState.CLOSED)
    telemetry.record_node_request("n1", "failed", state=BreakerState.OPEN)
    telemetry.record_node_request("n1", "failed", state=BreakerState.HALF_OPEN)
    assert metrics.value(NODE_REQUESTS, address="n1", outcome="failed") == 2
    assert metrics.value(NODE_SECONDS, address="n1") == 1
    assert metrics.value(BREAKER_OPEN, address="n1") == 1
    telemetry.record_node_request("n1", "answered", 0.1, state=BreakerState.CLOSED)
    assert metrics.value(BREAKER_OPEN, address="n1") == 0


def test_a_removed_node_has_no_metrics() -> None:
    metrics = Metrics()
    telemetry = GatewayTelemetry(metrics)
    telemetry.record_node_request("n1", "failed", 0.1, state=BreakerState.OPEN)
    telemetry.record_node_request("n2", "failed", 0.1, state=BreakerState.OPEN)
    telemetry.remove_nodes(["n1"])
    shown = metrics.exposition().decode()
    assert 'address="n2"' in shown
    assert 'address="n1"' not in shown
    telemetry.record_node_request("n1", "failed", 0.1, state=BreakerState.OPEN)
    assert metrics.value(NODE_REQUESTS, address="n1", outcome="failed") == 1, "back again, it is counted anew"
    assert metrics.value(NODE_SECONDS, address="n1") == 1


def test_missing_repositories_are_counted_by_reason() -> None:
    metrics = Metrics()
    missing = [
        Missing("a", MissingReason.WARMING),
        Missing("b", MissingReason.WARMING),
        Missing("c", MissingReason.UNOWNED),
    ]
    GatewayTelemetry(metrics).record_query("partial", missing, 0.1)
    assert metrics.value(MISSING, reason="warming") == 2
    assert metrics.value(MISSING, reason="unowned") == 1
    assert metrics.value(QUERIES, outcome="partial") == 1
