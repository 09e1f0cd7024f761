"""Every invalid request to the v1 API gets a message that says what is wrong."""

import json
from typing import Any

import httpx
import msgspec
import pytest

from argosy.gateway.v1.requests import (
    FILES_MAX,
    AddRepositoryRequest,
    FileParams,
    FolderParams,
    RepositoriesParams,
    SearchParams,
    options_of,
)
from argosy.search.query import parse
from tests.gateway.v1.api_fixture import ADMIN
from tests.gateway.zoekt.fleet_fixture import HELLO

WRONG: list[Any] = [None, -1, 1.5, 2**64, True, "text", "", [], {}, [None], "\0", "\ud800", 1e308]


@pytest.mark.parametrize("field", [field.name for field in msgspec.structs.fields(SearchParams)])
@pytest.mark.parametrize("path", ["/v1/search", "/v1/search/stream"])
async def test_any_value_of_any_field_has_an_answer(client: httpx.AsyncClient, path: str, field: str) -> None:
    for value in WRONG:
        response = await client.post(path, content=json.dumps({"q": "needle", field: value}))
        assert response.status_code in (200, 400), (value, response.text)
        if response.status_code == 400:
            assert response.json()["error"]["message"]


@pytest.mark.parametrize("params", [SearchParams, RepositoriesParams, FileParams, FolderParams])
async def test_any_value_of_any_parameter_has_an_answer(
    client: httpx.AsyncClient, params: type[msgspec.Struct]
) -> None:
    where = {
        SearchParams: "/v1/search",
        RepositoriesParams: "/v1/repositories",
        FileParams: f"/v1/repositories/{HELLO}/file",
        FolderParams: f"/v1/repositories/{HELLO}/folder",
    }[params]
    for field in msgspec.structs.fields(params):
        for value in ("", "x", "-1", "9" * 400, "1e9", "NaN", "inf", "\0", "true", "[]", "%", "a" * 5000):
            base = {"q": "needle"} if params is SearchParams else {"path": "greet.go"} if params is FileParams else {}
            response = await client.get(where, params={**base, field.name: value})
            assert response.status_code in (200, 400, 404), (field.name, value, response.text)
            if response.status_code != 200:
                assert 0 < len(response.json()["error"]["message"]) < 12_000


@pytest.mark.parametrize("field", [field.name for field in msgspec.structs.fields(AddRepositoryRequest)])
async def test_any_repository_body_has_an_answer(client: httpx.AsyncClient, field: str) -> None:
    for value in WRONG:
        body = json.dumps({"url": "https://host/o/r", field: value})
        response = await client.post("/v1/repositories", content=body, headers=ADMIN)
        assert response.status_code in (201, 400, 409), (value, response.text)


async def test_an_unknown_field_is_rejected_by_name(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/search", params={"q": "x", "fiels": "3"})
    assert response.status_code == 400
    assert "fiels" in response.json()["error"]["message"]
    response = await client.post("/v1/search", json={"q": "x", "fiels": 3})
    assert "fiels" in response.json()["error"]["message"]
    response = await client.get("/v1/search?q=x&q=y")
    assert "duplicate" in response.json()["error"]["message"]


async def test_a_body_is_bounded_and_must_be_one(client: httpx.AsyncClient) -> None:
    for body in (b"", b"{", b"[]", b"[" * 9_999, b'{"q":"\xff"}', b'{"q":"' + b"a" * (1 << 20) + b'"}'):
        for path in ("/v1/search", "/v1/search/stream", "/v1/repositories"):
            response = await client.post(path, content=body, headers=ADMIN)
            assert response.status_code == 400
            assert 0 < len(response.json()["error"]["message"]) < 1000


@pytest.mark.parametrize("name", ["%00", "..%2f..", "a" * 1500, "-x", "%ff", "x/file"])
async def test_any_name_has_an_answer(client: httpx.AsyncClient, name: str) -> None:
    for method, suffix in (("GET", ""), ("GET", "/folder"), ("DELETE", ""), ("POST", "/pin"), ("POST", "/reindex")):
        response = await client.request(method, f"/v1/repositories/{name}{suffix}", headers=ADMIN)
        assert response.status_code in (400, 404), (method, suffix, response.text)


@pytest.mark.parametrize(("query", "files"), [("needle", 0), ("needle count:all", 50), ("needle count:1000000", 50)])
def test_no_more_files_than_the_limit_are_returned(query: str, files: int) -> None:
    assert options_of(SearchParams(q=query, files=files), parse(query)).files_max == FILES_MAX


async def test_an_invalid_enum_value_is_rejected_with_the_valid_ones(client: httpx.AsyncClient) -> None:
    for response in (
        await client.get("/v1/search", params={"q": "x", "form": "counts"}),
        await client.post("/v1/search", json={"q": "x", "form": "counts"}),
    ):
        assert response.status_code == 400
        assert response.json()["error"]["message"].endswith("use one of chunks, lines, count")
