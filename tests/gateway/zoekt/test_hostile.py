"""Every invalid request gets an error message: never a crash, never silence."""

import json
from typing import Any

import httpx
import pytest

from tests.gateway.zoekt.fleet_fixture import HELLO

NUL = "needle\0x"
HUGE = "a" * (1 << 20)
WRONG: list[Any] = [None, 0, -1, 1.5, 2**64, True, "text", [], {}, [[]], "\0"]


@pytest.mark.parametrize("path", ["/api/search", "/api/list"])
@pytest.mark.parametrize("field", ["Q", "Opts", "RepoIDs"])
async def test_a_field_of_a_wrong_type_is_rejected_or_ignored(client: httpx.AsyncClient, path: str, field: str) -> None:
    for value in WRONG:
        response = await client.post(path, json={"Q": "needle", field: value})
        assert response.status_code in (200, 400), (value, response.text)
        assert response.json().keys() <= {"Error", "Result", "List"}


OPTIONS = [
    "EstimateDocCount", "Whole", "ShardMaxMatchCount", "TotalMaxMatchCount", "ShardRepoMaxMatchCount", "MaxWallTime",
    "MaxDocDisplayCount", "MaxMatchDisplayCount", "NumContextLines", "ChunkMatches", "UseBM25Scoring", "DebugScore",
    "Trace", "FlushWallTime",
]  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
async def test_any_value_of_any_option_has_an_answer(client: httpx.AsyncClient, option: str) -> None:
    for value in [*WRONG, 2**63 - 1, -(2**63) + 1, 1, 3]:
        response = await client.post("/api/search", json={"Q": "needle", "Opts": {option: value}})
        assert response.status_code in (200, 400), (value, response.text)


QUERIES = {
    "nul": NUL,
    "huge": HUGE,
    "half a character": "\ud800",
    "open": "(" * 5000,
    "minus": "-" * 5000,
    "nul in a name": "repo:\0",
    "costly": "a{1000}{1000}",
    "not ascii": "\xff" * 99,
}


@pytest.mark.parametrize("kind", QUERIES)
async def test_any_query_has_an_answer(client: httpx.AsyncClient, kind: str) -> None:
    query = QUERIES[kind]
    for path in ("/api/search", "/api/list"):
        response = await client.post(path, content=json.dumps({"Q": query}))
        assert response.status_code in (200, 400), response.text[:300]
        if response.status_code == 400:
            assert 0 < len(response.json()["Error"]) < 1000
    if len(query) < 1000 and query != "\ud800":
        response = await client.get("/search", params={"q": query, "format": "json"})
        assert response.status_code in (200, 418)


async def test_a_body_without_end_is_not_read_to_its_end(client: httpx.AsyncClient) -> None:
    response = await client.post("/api/search", content=b" " * (5 << 20))
    assert response.status_code == 400
    assert "bytes" in response.json()["Error"]


async def test_no_path_leads_out_of_the_index(client: httpx.AsyncClient) -> None:
    for path in ("../../etc/passwd", "\0", "a" * 50_000, "/", "greet.go/", "%00", "\ufffd"):
        response = await client.get("/print", params={"r": HELLO, "f": path, "format": "raw"})
        assert response.status_code == 418, path
