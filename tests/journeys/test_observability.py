"""Observability of a fleet of real processes: metrics under the documented names, traces across processes, the
autoscaler signal, and no secrets in any output."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from argosy.search.fleet.telemetry import PER_REPOSITORY
from tests.architecture.tree import ROOT
from tests.journeys.fleet import eventually
from tests.journeys.search_fleet import ANSWER_S, PATIENCE_S, TOKEN, Fleet, Member, create_origin, fleet_in
from tests.journeys.test_tracing import Collector, run_collector
from tests.servers.git_http import git_server
from tests.servers.valkey import Valkey

PLANTED = {
    "the admin token": TOKEN,
    "the fleet token": "fleet-hunter2",
    "the webhook's secret": "webhook-hunter2",
    "a credential": "credential-hunter2",
    "a password in an address": "address-hunter2",
    "a credential in a request": b64encode(b"robot:credential-hunter2").decode(),
}
TRACEPARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


@dataclass
class TracedFleet:
    """A fleet with secrets in its settings, after a search and with tracing."""

    fleet: Fleet
    collector: Collector

    @property
    def gateway(self) -> Member:
        return self.fleet.gateways[0]

    def spans(self) -> list[Span]:
        """All spans received."""
        sent = [ExportTraceServiceRequest.FromString(body) for body in list(self.collector.bodies)]
        scopes = [scope for each in sent for resource in each.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]


@pytest.fixture(scope="module")
def traced_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedFleet]:
    folder = tmp_path_factory.mktemp("observed")
    with ExitStack() as stack:
        valkey = stack.enter_context(Valkey())
        collector = stack.enter_context(run_collector())
        server = stack.enter_context(git_server(folder / "served"))
        server.faults.passwords |= {"private.git": "robot:credential-hunter2", "locked.git": "robot:another"}
        credentials = folder / "credentials"
        credentials.write_text(f"http://robot:credential-hunter2@127.0.0.1:{server.port}\n")
        credentials.chmod(0o600)
        ships = [create_origin(folder / "origins", number) for number in range(3)]
        fleet = stack.enter_context(
            fleet_in(
                folder,
                ownership_store=valkey.url,
                registry_url=valkey.url,
                ownership_grace_s="0",
                log_level="debug",
                node_fleet_token=PLANTED["the fleet token"],
                api_webhook_secret=PLANTED["the webhook's secret"],
                fetch_credentials_file=str(credentials),
                tracing_endpoint=collector.url,
            )
        )
        fleet.start(gateways=1, nodes=2)
        for ship in ships[:2]:
            fleet.add(ship)
        addresses = {
            "private": server.serve_clone(ships[2], "private.git"),
            "locked": server.serve_clone(ships[2], "locked.git"),
            "nowhere": "http://robot:address-hunter2@127.0.0.1:9/nowhere.git",
        }
        for name, url in addresses.items():
            status, body = fleet.gateways[0].post("/v1/repositories", {"url": url, "name": name})
            assert status == 201, body
        yield wait_settled(TracedFleet(fleet, collector))


def wait_settled(traced_fleet: TracedFleet) -> TracedFleet:
    """Wait until three repositories are ready and two have a reason, then send one traced search."""

    def is_settled() -> bool:
        received = traced_fleet.fleet.repositories()
        ready = {name for name, each in received.items() if each["state"] == "ready"}
        with_reason = {name for name, each in received.items() if each["reason"]}
        return ready == {"ship-00", "ship-01", "private"} and {"locked", "nowhere"} <= with_reason

    eventually(is_settled, within_s=PATIENCE_S, what="three are ready and two have failed")
    get_text(traced_fleet.gateway, "/v1/search?q=anchor", {"traceparent": TRACEPARENT})
    return traced_fleet


def get_text(member: Member, path: str, headers: dict[str, str] | None = None) -> str:
    connection = HTTPConnection(member.address() or "nowhere", timeout=ANSWER_S)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        return text
    finally:
        connection.close()


def read_series(member: Member) -> dict[str, float]:
    lines = [line for line in get_text(member, "/metrics").splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def holder(traced_fleet: TracedFleet, name: str) -> Member:
    [node] = [node for node in traced_fleet.fleet.nodes if name in traced_fleet.fleet.held_by(node)]
    return node


@pytest.mark.parametrize("name", ["ship-00", "ship-01", "private"])
def test_a_node_exports_metrics_of_each_repository_it_holds(traced_fleet: TracedFleet, name: str) -> None:
    node = holder(traced_fleet, name)
    required = {f'{metric.name}{{repository="{name}"}}' for metric in PER_REPOSITORY}
    assert {metric.name for metric in PER_REPOSITORY} >= {
        "argosy_index_time_ms",
        "argosy_index_memory_bytes",
        "argosy_last_served_at",
        "argosy_repository_claim_latency_seconds",
    }
    eventually(
        lambda: required <= read_series(node).keys(), within_s=PATIENCE_S, what=f"all metrics of {name} are present"
    )
    received = read_series(node)
    assert received[f'argosy_index_memory_bytes{{repository="{name}"}}'] > 0
    assert received[f'argosy_last_served_at{{repository="{name}"}}'] > 1.7e9
    others = [each for each in traced_fleet.fleet.nodes if each is not node]
    assert not any(f'repository="{name}"' in line for each in others for line in read_series(each))


def test_the_gateway_reports_its_requests_and_what_each_node_holds(traced_fleet: TracedFleet) -> None:
    received = read_series(traced_fleet.gateway)
    assert sum(value for name, value in received.items() if name.startswith("argosy_gateway_queries_total")) >= 1
    assert any(name.startswith("argosy_gateway_node_seconds_bucket{") for name in received)
    body = json.loads(get_text(traced_fleet.gateway, "/v1/repositories"))["repositories"]
    [ship] = [each for each in body if each["name"] == "ship-00"]
    for figure in ("memory_bytes", "index_time_ms", "last_served_at", "claim_latency_s"):
        assert figure in json.dumps(ship), figure


def test_every_name_at_the_metrics_route_is_documented(traced_fleet: TracedFleet) -> None:
    documented = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "reference" / "metrics.md").read_text(), re.MULTILINE))
    for member in (traced_fleet.gateway, *traced_fleet.fleet.nodes):
        families = re.findall(r"^# TYPE (\S+) ", get_text(member, "/metrics"), re.MULTILINE)
        assert {family.removesuffix("_total") for family in families} <= documented


def test_both_roles_serve_the_autoscaler_signal(traced_fleet: TracedFleet) -> None:
    for member in (traced_fleet.gateway, *traced_fleet.fleet.nodes):
        status, signal = member.get("/scale", ANSWER_S)
        assert (status, signal["current_nodes"]) == (200, 2)
        assert signal["desired_nodes"] >= 1


def spans_named(traced_fleet: TracedFleet, name: str, **attributes: str) -> list[Span]:
    def fits(span: Span) -> bool:
        actual = {each.key: each.value.string_value for each in span.attributes}
        return span.name == name and attributes.items() <= actual.items()

    return [span for span in traced_fleet.spans() if fits(span)]


def test_one_trace_spans_from_clone_to_serving(traced_fleet: TracedFleet) -> None:
    def is_received() -> bool:
        return bool(spans_named(traced_fleet, "serve", repository="ship-00"))

    eventually(is_received, within_s=PATIENCE_S, what="the spans of ship-00 are received")
    [provision] = spans_named(traced_fleet, "make index", repository="ship-00")

    def parent_names() -> list[str]:
        return [span.name for span in traced_fleet.spans() if span.span_id == provision.parent_span_id]

    eventually(lambda: bool(parent_names()), within_s=PATIENCE_S, what="the parent span is received")
    assert parent_names() == ["ownership WarmUnit"]
    for step in ("fetch", "index", "serve"):
        [span] = spans_named(traced_fleet, step, repository="ship-00")
        assert (span.trace_id, span.parent_span_id) == (provision.trace_id, provision.span_id)


def test_a_search_is_one_trace_from_the_client_through_the_gateway_to_the_nodes(traced_fleet: TracedFleet) -> None:
    trace, client = TRACEPARENT.split("-")[1:3]

    def of_trace() -> dict[str, list[Span]]:
        received: dict[str, list[Span]] = {}
        for span in traced_fleet.spans():
            if span.trace_id.hex() == trace:
                received.setdefault(span.name, []).append(span)
        return received

    required = {"gateway search", "gateway scatter", "search serve"}
    eventually(lambda: required <= of_trace().keys(), within_s=PATIENCE_S, what="the trace is complete")
    received = of_trace()
    [search] = received["gateway search"]
    assert search.parent_span_id.hex() == client
    assert {span.parent_span_id for span in received["gateway scatter"]} == {search.span_id}
    scatters = {span.span_id for span in received["gateway scatter"]}
    assert {span.parent_span_id for span in received["search serve"]} <= scatters


def all_responses(traced_fleet: TracedFleet) -> Iterator[tuple[str, str]]:
    pages = ("/fleet", "/repos", "/search?q=anchor")
    for path in ("/v1/repositories", "/v1/fleet", "/v1/openapi.json", "/metrics", "/v1/search?q=anchor", *pages):
        yield f"the gateway's {path}", get_text(traced_fleet.gateway, path)
    for node in traced_fleet.fleet.nodes:
        for path in ("/metrics", "/v1/leases", "/v1/members", "/scale"):
            yield f"{node.name}'s {path}", get_text(node, path)


def test_no_secret_is_in_any_log_line_response_or_span(traced_fleet: TracedFleet) -> None:
    shown: list[tuple[str, Any]] = [*all_responses(traced_fleet)]
    shown += [(member.log.name, member.log.read_text()) for member in (traced_fleet.gateway, *traced_fleet.fleet.nodes)]
    shown += [("a span", body.decode("latin-1")) for body in list(traced_fleet.collector.bodies)]
    assert [(place, secret) for place, text in shown for secret, value in PLANTED.items() if value in text] == []
    # Without a reason at each use of a secret, the test would prove nothing.
    reasons = {name: each["reason"] for name, each in traced_fleet.fleet.repositories().items()}
    assert "credential" in reasons["locked"]
    assert reasons["nowhere"]
