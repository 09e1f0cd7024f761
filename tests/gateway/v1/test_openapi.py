"""The OpenAPI document is right: every route is in it, and responses match its schemas."""

import re
from typing import Any

import httpx
import msgspec
import pytest
from jsonschema import Draft202012Validator

from argosy import __version__
from argosy.gateway.v1.operations import NDJSON, OPERATIONS, Operation, document
from tests.architecture.tree import ROOT
from tests.gateway.v1.api_fixture import ADMIN, Api
from tests.gateway.zoekt.fleet_fixture import HELLO

DOCUMENT = msgspec.json.decode(msgspec.json.encode(document(__version__)))


def operation(declared: Operation) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][declared.path][declared.method.lower()]
    return found


def schema_errors(schema: dict[str, Any], value: object) -> list[str]:
    """What is wrong with the value; references point into the document."""
    whole = {**schema, "components": DOCUMENT["components"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(value)]


def test_every_schema_is_one() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    assert DOCUMENT["openapi"].startswith("3.1")
    assert DOCUMENT["info"]["version"] == __version__


def test_every_route_is_described_and_every_description_has_a_route(api: Api) -> None:
    routes = {
        (method, re.sub(r":path}", "}", route.path))
        for route in api.routes()
        for method in route.methods or ()
        if method != "HEAD"
    }
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert routes == described
    assert len({declared.id for declared in OPERATIONS}) == len(OPERATIONS)


def test_every_reference_leads_somewhere() -> None:
    text = msgspec.json.encode(DOCUMENT).decode()
    names = set(re.findall(r"#/components/schemas/([\w.]+)", text))
    assert names
    assert names <= DOCUMENT["components"]["schemas"].keys()


@pytest.mark.parametrize("declared", OPERATIONS, ids=lambda declared: declared.id)
def test_every_example_matches_its_schema(declared: Operation) -> None:
    described = operation(declared)
    if declared.body_example:
        content = described["requestBody"]["content"]["application/json"]
        assert schema_errors(content["schema"], content["example"]) == []
    for parameter in described.get("parameters", []):
        if "example" in parameter:
            assert schema_errors(parameter["schema"], parameter["example"]) == []
    assert declared.needs_admin == ("security" in described)
    assert str(declared.status) in described["responses"]


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "search": ("/v1/search", {"params": {"q": "needle"}}),
    "search_by_body": ("/v1/search", {"json": {"q": "needle", "form": "lines", "context": 1}}),
    "stream": ("/v1/search/stream", {"json": {"q": "needle"}}),
    "file": (f"/v1/repositories/{HELLO}/file", {"params": {"path": "greet.go"}}),
    "folder": (f"/v1/repositories/{HELLO}/folder", {}),
    "pin": ("/v1/repositories/host/o/r/pin", {"headers": ADMIN}),
    "unpin": ("/v1/repositories/host/o/r/unpin", {"headers": ADMIN}),
    "reindex": ("/v1/repositories/host/o/r/reindex", {"headers": ADMIN}),
    "repositories": ("/v1/repositories", {}),
    "add": ("/v1/repositories", {"json": {"url": "https://host/o/new"}, "headers": ADMIN}),
    "repository": (f"/v1/repositories/{HELLO}", {}),
    "remove": ("/v1/repositories/host/o/r", {"headers": ADMIN}),
    "fleet": ("/v1/fleet", {}),
    "webhook": ("/v1/webhook", {"json": {"url": "https://host/o/r"}, "headers": ADMIN}),
    "openapi": ("/v1/openapi.json", {}),
}


@pytest.mark.parametrize("declared", OPERATIONS, ids=lambda declared: declared.id)
async def test_responses_match_their_schema(client: httpx.AsyncClient, declared: Operation) -> None:
    await client.post("/v1/repositories", json={"url": "https://host/o/r"}, headers=ADMIN)
    path, params = ASKED[declared.id]
    reply = await client.request(declared.method, path, **params)
    assert reply.status_code == declared.status, reply.text
    content = operation(declared)["responses"][str(declared.status)].get("content", {})
    if declared.response is None and declared.events is not None:
        data = [msgspec.json.decode(line) for line in reply.content.splitlines()]
        assert data[-1]["event"] == "end"
        assert [schema_errors(content[NDJSON]["schema"], event) for event in data] == [[]] * len(data)
    elif content:
        assert schema_errors(content["application/json"]["schema"], reply.json()) == []
    else:
        assert reply.content == b""


async def test_errors_match_their_schema(client: httpx.AsyncClient) -> None:
    reply = await client.get("/v1/search", params={"q": "("})
    schema = operation(OPERATIONS[0])["responses"]["400"]["content"]["application/json"]["schema"]
    assert schema_errors(schema, reply.json()) == []
    assert schema_errors(schema, {"error": "text"}) != []


def test_every_operation_has_its_line_on_the_page() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert [each.id for each in OPERATIONS if f"| `{each.method} {each.path}` |" not in page] == []
