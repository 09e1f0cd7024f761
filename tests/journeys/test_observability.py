"""A fleet of real processes tells what it does: figures under the documented names, traces that hold together across
processes, the signal for autoscalers, and never a secret."""

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
from tests.journeys.search_fleet import ANSWER_S, PATIENCE_S, TOKEN, Fleet, Member, fleet_in, make_origin
from tests.journeys.test_tracing import Collector, collecting
from tests.servers.git_http import git_server
from tests.servers.valkey import Valkey

PLANTED = {
    "the admin token": TOKEN,
    "the fleet token": "fleet-hunter2",
    "the webhook's secret": "webhook-hunter2",
    "a credential": "credential-hunter2",
    "a password in an address": "address-hunter2",
    "a credential on its way": b64encode(b"robot:credential-hunter2").decode(),
}
TRACEPARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


@dataclass
class Harbour:
    """A fleet that was set up with secrets, searched and traced."""

    fleet: Fleet
    collector: Collector

    @property
    def door(self) -> Member:
        return self.fleet.doors[0]

    def spans(self) -> list[Span]:
        """All that were received."""
        sent = [ExportTraceServiceRequest.FromString(body) for body in list(self.collector.bodies)]
        scopes = [scope for each in sent for resource in each.resource_spans for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    folder = tmp_path_factory.mktemp("observed")
    with ExitStack() as stack:
        valkey = stack.enter_context(Valkey())
        collector = stack.enter_context(collecting())
        server = stack.enter_context(git_server(folder / "served"))
        server.moods.passwords |= {"private.git": "robot:credential-hunter2", "locked.git": "robot:another"}
        credentials = folder / "credentials"
        credentials.write_text(f"http://robot:credential-hunter2@127.0.0.1:{server.port}\n")
        credentials.chmod(0o600)
        ships = [make_origin(folder / "origins", number) for number in range(3)]
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
        fleet.start(doors=1, nodes=2)
        for ship in ships[:2]:
            fleet.add(ship)
        addresses = {
            "private": server.shares(ships[2], "private.git"),
            "locked": server.shares(ships[2], "locked.git"),
            "nowhere": "http://robot:address-hunter2@127.0.0.1:9/nowhere.git",
        }
        for name, url in addresses.items():
            status, said = fleet.doors[0].post("/v1/repositories", {"url": url, "name": name})
            assert status == 201, said
        yield settled(Harbour(fleet, collector))


def settled(harbour: Harbour) -> Harbour:
    """Until what can be ready is, what cannot has said so, and one question has been asked within a trace."""

    def is_settled() -> bool:
        found = harbour.fleet.repositories()
        ready = {name for name, each in found.items() if each["state"] == "ready"}
        told = {name for name, each in found.items() if each["reason"]}
        return ready == {"ship-00", "ship-01", "private"} and {"locked", "nowhere"} <= told

    eventually(is_settled, within_s=PATIENCE_S, what="three are ready and two have failed")
    asked(harbour.door, "/v1/search?q=anchor", {"traceparent": TRACEPARENT})
    return harbour


def asked(member: Member, path: str, headers: dict[str, str] | None = None) -> str:
    connection = HTTPConnection(member.address() or "nowhere", timeout=ANSWER_S)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
        return text
    finally:
        connection.close()


def series(member: Member) -> dict[str, float]:
    lines = [line for line in asked(member, "/metrics").splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def holder(harbour: Harbour, name: str) -> Member:
    [node] = [node for node in harbour.fleet.nodes if name in harbour.fleet.held_by(node)]
    return node


@pytest.mark.parametrize("name", ["ship-00", "ship-01", "private"])
def test_a_node_tells_the_figures_of_each_repository_it_holds(harbour: Harbour, name: str) -> None:
    node = holder(harbour, name)
    wanted = {f'{metric.name}{{repository="{name}"}}' for metric in PER_REPOSITORY}
    assert {metric.name for metric in PER_REPOSITORY} >= {
        "argosy_index_time_ms",
        "argosy_index_memory_bytes",
        "argosy_last_served_at",
        "argosy_repository_claim_latency_seconds",
    }
    eventually(lambda: wanted <= series(node).keys(), within_s=PATIENCE_S, what=f"all figures of {name} are told")
    found = series(node)
    assert found[f'argosy_index_memory_bytes{{repository="{name}"}}'] > 0
    assert found[f'argosy_last_served_at{{repository="{name}"}}'] > 1.7e9
    others = [each for each in harbour.fleet.nodes if each is not node]
    assert not any(f'repository="{name}"' in line for each in others for line in series(each))


def test_the_front_door_tells_what_it_did_and_what_each_node_holds(harbour: Harbour) -> None:
    found = series(harbour.door)
    assert sum(value for name, value in found.items() if name.startswith("argosy_gateway_queries_total")) >= 1
    assert any(name.startswith("argosy_gateway_node_seconds_bucket{") for name in found)
    said = json.loads(asked(harbour.door, "/v1/repositories"))["repositories"]
    [ship] = [each for each in said if each["name"] == "ship-00"]
    for figure in ("memory_bytes", "index_time_ms", "last_served_at", "claim_latency_s"):
        assert figure in json.dumps(ship), figure


def test_every_name_at_the_metrics_route_is_documented(harbour: Harbour) -> None:
    documented = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "reference" / "metrics.md").read_text(), re.MULTILINE))
    for member in (harbour.door, *harbour.fleet.nodes):
        families = re.findall(r"^# TYPE (\S+) ", asked(member, "/metrics"), re.MULTILINE)
        assert {family.removesuffix("_total") for family in families} <= documented


def test_both_roles_answer_an_autoscaler(harbour: Harbour) -> None:
    for member in (harbour.door, *harbour.fleet.nodes):
        status, signal = member.get("/scale", ANSWER_S)
        assert (status, signal["current_nodes"]) == (200, 2)
        assert signal["desired_nodes"] >= 1


def named(harbour: Harbour, name: str, **attributes: str) -> list[Span]:
    def fits(span: Span) -> bool:
        told = {each.key: each.value.string_value for each in span.attributes}
        return span.name == name and attributes.items() <= told.items()

    return [span for span in harbour.spans() if fits(span)]


def test_one_trace_leads_from_the_clone_to_the_shelf(harbour: Harbour) -> None:
    def is_there() -> bool:
        return bool(named(harbour, "serve", repository="ship-00"))

    eventually(is_there, within_s=PATIENCE_S, what="the spans of ship-00 have come")
    [made] = named(harbour, "make index", repository="ship-00")

    def around() -> list[str]:
        return [span.name for span in harbour.spans() if span.span_id == made.parent_span_id]

    eventually(lambda: bool(around()), within_s=PATIENCE_S, what="the span around them has come")
    assert around() == ["ownership WarmUnit"]
    for step in ("fetch", "index", "serve"):
        [span] = named(harbour, step, repository="ship-00")
        assert (span.trace_id, span.parent_span_id) == (made.trace_id, made.span_id)


def test_a_question_is_one_trace_from_the_client_through_the_door_to_the_nodes(harbour: Harbour) -> None:
    trace, client = TRACEPARENT.split("-")[1:3]

    def of_trace() -> dict[str, list[Span]]:
        found: dict[str, list[Span]] = {}
        for span in harbour.spans():
            if span.trace_id.hex() == trace:
                found.setdefault(span.name, []).append(span)
        return found

    wanted = {"gateway search", "gateway scatter", "search serve"}
    eventually(lambda: wanted <= of_trace().keys(), within_s=PATIENCE_S, what="the trace has come")
    found = of_trace()
    [search] = found["gateway search"]
    assert search.parent_span_id.hex() == client
    assert {span.parent_span_id for span in found["gateway scatter"]} == {search.span_id}
    scatters = {span.span_id for span in found["gateway scatter"]}
    assert {span.parent_span_id for span in found["search serve"]} <= scatters


def answers(harbour: Harbour) -> Iterator[tuple[str, str]]:
    pages = ("/fleet", "/repos", "/search?q=anchor")
    for path in ("/v1/repositories", "/v1/fleet", "/v1/openapi.json", "/metrics", "/v1/search?q=anchor", *pages):
        yield f"the door's {path}", asked(harbour.door, path)
    for node in harbour.fleet.nodes:
        for path in ("/metrics", "/v1/leases", "/v1/members", "/scale"):
            yield f"{node.name}'s {path}", asked(node, path)


def test_no_secret_is_in_any_log_line_answer_or_span(harbour: Harbour) -> None:
    shown: list[tuple[str, Any]] = [*answers(harbour)]
    shown += [(member.log.name, member.log.read_text()) for member in (harbour.door, *harbour.fleet.nodes)]
    shown += [("a span", body.decode("latin-1")) for body in list(harbour.collector.bodies)]
    assert [(place, secret) for place, text in shown for secret, value in PLANTED.items() if value in text] == []
    # Were nothing said of the places where the secrets are used, this would prove nothing.
    reasons = {name: each["reason"] for name, each in harbour.fleet.repositories().items()}
    assert "credential" in reasons["locked"]
    assert reasons["nowhere"]
