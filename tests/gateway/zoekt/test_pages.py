"""What zoekt's server has besides its API: the second JSON format, raw files, and health."""

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from argosy.gateway.zoekt.http import zoekt_routes
from tests.gateway.throttle_fixture import RecordingThrottle
from tests.gateway.zoekt.fleet_fixture import COMMIT, GREET, HELLO, NOTES, Fleet, client_of, hello


async def test_a_page_of_results_is_plain_text(client: httpx.AsyncClient) -> None:
    response = await client.get(
        "/search", params={"q": "hello,?|name. string", "num": "10", "ctx": "1", "format": "json"}
    )
    assert response.status_code == 200
    page = response.json()
    assert page.keys() == {"result"}
    result = page["result"]
    assert result.keys() == {"Last", "QueryStr", "Query", "Stats", "Duration", "FileMatches", "Complete", "Missing"}
    assert result["Last"] == {"Query": "hello,?|name. string", "Num": 10, "Ctx": 1, "AutoFocus": True, "Debug": False}
    assert result["Stats"]["MatchCount"] >= 1
    file = next(each for each in result["FileMatches"] if each["FileName"] == "greet.go")
    assert file.keys() == {"FileName", "Repo", "ResultID", "Language", "DuplicateID", "Branches", "Matches", "URL"}
    assert file["URL"] == f"https://github.com/o/hello/blob/{COMMIT}/greet.go"
    assert (file["Repo"], file["Branches"], file["DuplicateID"]) == (HELLO, ["main"], "")


async def test_a_line_is_split_into_fragments_that_join_to_it(client: httpx.AsyncClient) -> None:
    params = {"q": "needle file:today case:yes (a|no)\\ ", "ctx": "1", "format": "json"}
    response = await client.get("/search", params=params)
    [file] = response.json()["result"]["FileMatches"]
    lines = {match["LineNum"]: match for match in file["Matches"]}
    first = lines[1]
    assert "".join(each["Pre"] + each["Match"] + each["Post"] for each in first["Fragments"]) == "a needle in"
    assert [each["Match"] for each in first["Fragments"]] == ["a ", "needle"]
    assert first["After"] == "a haystack"
    assert "Before" not in first
    assert first["URL"].startswith("print?r=notes&f=today.txt&")
    assert first["URL"].endswith("#l1")


@pytest.mark.parametrize("query", ["repo:hello", "r:hello r:o", "type:repo Greet", "repo:hello -repo:notes"])
async def test_a_query_about_repositories_lists_them(client: httpx.AsyncClient, query: str) -> None:
    page = (await client.get("/search", params={"q": query, "format": "json"})).json()
    assert page.keys() == {"repos"}
    assert page["repos"].keys() == {"Last", "Stats", "Repos", "Complete", "Missing"}
    [repo] = page["repos"]["Repos"]
    assert repo["Branches"] == [
        {"Name": "main", "Version": COMMIT, "URL": f"https://github.com/o/hello/commit/{COMMIT}"}
    ]
    assert (repo["Name"], repo["URL"], repo["Files"]) == (HELLO, "https://github.com/o/hello", 2)
    assert repo["Size"] > 0 < repo["MemorySize"]
    assert repo["IndexTime"] == "2025-06-15T15:06:40Z"


async def test_repositories_are_sorted_as_requested_and_cut(client: httpx.AsyncClient) -> None:
    async def names(**params: str) -> list[str]:
        page = (await client.get("/search", params={"q": "repo:.", "format": "json", **params})).json()
        return [repo["Name"] for repo in page["repos"]["Repos"]]

    assert await names() == [HELLO, NOTES]
    assert await names(order="revname") == [NOTES, HELLO]
    assert await names(order="revsize", num="1") == [HELLO]
    response = await client.get("/search", params={"q": "repo:.", "format": "json", "order": "colour"})
    assert response.status_code == 418
    assert "colour" in response.text


@pytest.mark.parametrize("query", ["", "(", "case:maybe"])
async def test_any_error_of_a_page_is_a_teapot(client: httpx.AsyncClient, query: str) -> None:
    response = await client.get("/search", params={"q": query, "format": "json"})
    assert response.status_code == 418
    assert response.headers["content-type"].startswith("text/plain")
    assert response.text.strip()


async def test_numbers_that_are_none_count_as_not_given(client: httpx.AsyncClient) -> None:
    params = {"q": "needle", "num": "-4", "ctx": "many", "format": "json"}
    result = (await client.get("/search", params=params)).json()["result"]
    assert (result["Last"]["Num"], result["Last"]["Ctx"]) == (50, 0)
    params = {"q": "needle", "num": "1", "ctx": "99", "format": "json"}
    result = (await client.get("/search", params=params)).json()["result"]
    assert (result["Last"]["Ctx"], len(result["FileMatches"])) == (10, 1)


async def test_a_file_is_printed_raw_and_never_as_a_page(client: httpx.AsyncClient) -> None:
    response = await client.get("/print", params={"r": HELLO, "f": "greet.go", "b": "HEAD", "format": "raw"})
    assert (response.status_code, response.content) == (200, GREET)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-security-policy"] == "sandbox"


@pytest.mark.parametrize(
    "params",
    [
        {"r": HELLO, "f": "nowhere.go"},
        {"r": HELLO, "f": "greet.go", "b": "nowhere"},
        {"r": "nowhere", "f": "greet.go"},
        {"r": NOTES, "f": "logo.png"},
        {"r": HELLO},
        {"f": "greet.go"},
    ],
)
async def test_a_missing_file_is_a_teapot(client: httpx.AsyncClient, params: dict[str, str]) -> None:
    response = await client.get("/print", params={**params, "format": "raw"})
    assert response.status_code == 418
    assert response.text.strip()


async def test_browsers_get_the_pages_of_the_ui() -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(f"page {scope['path']}")(scope, receive, send)

    fleet = Fleet({"n1:1": [hello()]})
    routes = zoekt_routes(fleet.gateway, names=lambda: (), search_page=page, print_page=page)
    async with client_of(routes) as client:
        assert (await client.get("/search?q=x")).text == "page /search"
        assert (await client.get("/print?r=x&f=y")).text == "page /print"
    async with client_of(fleet.zoekt()) as client:
        assert (await client.get("/search?q=x")).status_code == 404
        assert (await client.get("/print?r=x&f=y")).status_code == 404
    fleet.close()


async def test_a_throttled_client_gets_429_in_the_formats_of_zoekt() -> None:
    throttle = RecordingThrottle()
    throttle.throttle_client()
    fleet = Fleet({"n1:1": [hello()]})
    async with client_of(zoekt_routes(fleet.gateway, names=lambda: (), throttle=throttle)) as client:
        responses = [
            await client.post("/api/search", json={"Q": "needle"}),
            await client.post("/api/list", json={}),
            await client.get("/search", params={"q": "needle", "format": "json"}),
        ]
        assert [(response.status_code, response.headers["retry-after"]) for response in responses] == [(429, "60")] * 3
        assert responses[0].json()["Error"] == responses[1].json()["Error"] == responses[2].text.strip()
        assert (await client.get("/healthz")).status_code == 200
    fleet.close()


async def test_the_health_check_runs_a_search(client: httpx.AsyncClient) -> None:
    response = await client.get("/healthz")
    assert response.status_code == 200
    assert response.json()["FileCount"] >= 1
    assert len(response.json()["Files"]) == 1
    response = await client.get("/readyz")
    assert (response.status_code, response.text) == (200, "ready\n")
    assert "Disallow" in (await client.get("/robots.txt")).text


async def test_a_process_with_more_roles_is_ready_when_all_of_them_are() -> None:
    fleet = Fleet({"n1:1": [hello()]})
    is_node_ready = False
    routes = zoekt_routes(fleet.gateway, names=lambda: (), is_ready=lambda: fleet.gateway.is_ready() and is_node_ready)
    async with client_of(routes) as client:
        assert (await client.get("/readyz")).status_code == 503
        is_node_ready = True
        assert (await client.get("/readyz")).status_code == 200
    fleet.close()


async def test_a_gateway_that_has_not_loaded_the_catalog_is_not_ready() -> None:
    fleet = Fleet({"n1:1": [hello()]})
    fleet.view.has_synced = False
    async with client_of(fleet.zoekt()) as client:
        response = await client.get("/readyz")
        assert (response.status_code, response.text, "retry-after" in response.headers) == (503, "not ready\n", True)
        response = await client.get("/healthz")
        assert (response.status_code, "retry-after" in response.headers) == (503, True)
        assert response.json()["Error"]
    fleet.close()
