"""Searching and reading over the v1 API."""

import httpx
import pytest

from argosy.gateway.settings import ApiSettings
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import RepoSpec
from argosy.throttle import Outcome
from tests.gateway.throttle_fixture import RecordingThrottle
from tests.gateway.v1.api_fixture import Api, open_api
from tests.gateway.zoekt.fleet_fixture import COMMIT, GREET, HELLO, NOTES, Fleet, client_of, hello


async def test_a_search_returns_chunks_of_text_with_ranges_in_characters(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/search", params={"q": "llo.*needle", "context": "1"})
    assert response.status_code == 200
    data = response.json()
    assert data.keys() == {"query", "complete", "files", "stats", "limits_hit", "missing"}
    assert (data["complete"], data["limits_hit"], data["missing"]) == (True, [], [])
    [file] = data["files"]
    assert (file["repository"], file["path"], file["language"]) == (HELLO, "greet.go", "Go")
    assert file["url"] == f"https://github.com/o/hello/blob/{COMMIT}/greet.go"
    [chunk] = file["chunks"]
    assert chunk["text"].encode() == GREET[GREET.index(b"func") :]
    [found] = chunk["ranges"]
    line = chunk["text"].splitlines()[found["start"]["line"] - chunk["start"]["line"]]
    assert line[found["start"]["column"] - 1 : found["end"]["column"] - 1] == 'llo, " + name // needle'


async def test_a_search_by_body_is_the_same_search(client: httpx.AsyncClient) -> None:
    params = {"q": "needle", "form": "lines", "files": 2, "repositories": [NOTES]}
    data = (await client.post("/v1/search", json=params)).json()
    by_url = (await client.get("/v1/search", params={**params, "files": "2"})).json()
    assert data["files"] == by_url["files"]
    assert {file["repository"] for file in data["files"]} == {NOTES}
    line = next(each for file in data["files"] for each in file["lines"] if file["path"] == "today.txt")
    assert line["text"] in ("a needle in", "and no newline: needle")


async def test_a_search_that_only_counts_shows_no_files(client: httpx.AsyncClient) -> None:
    data = (await client.get("/v1/search", params={"q": "needle", "form": "count"})).json()
    assert (data["files"], data["stats"]["files"]) == ([], 3)


async def test_a_limit_that_was_hit_is_reported(client: httpx.AsyncClient) -> None:
    data = (await client.get("/v1/search", params={"q": "needle", "files": "1"})).json()
    assert (len(data["files"]), data["complete"], data["limits_hit"]) == (1, False, ["files_max"])
    data = (await client.get("/v1/search", params={"q": "needle count:2", "files": "1"})).json()
    assert len(data["files"]) == 2


async def test_words_may_be_read_literally(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/search", params={"q": "Greet(name"})).status_code == 400
    data = (await client.get("/v1/search", params={"q": "Greet(name", "patterns": "literal"})).json()
    assert [file["path"] for file in data["files"]] == ["greet.go"]


async def test_a_query_syntax_error_has_a_position(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/search", params={"q": "fine (not"})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["kind"], error["status"], error["position"]) == ("Invalid", 400, 5)
    assert "at column 6" in error["message"]


async def test_an_undecodable_byte_is_shown_and_columns_stay(client: httpx.AsyncClient) -> None:
    data = (await client.get("/v1/search", params={"q": "end file:bad"})).json()
    [file] = data["files"]
    assert file["path"] == "sub/bad\ufffd.txt"
    [chunk] = file["chunks"]
    assert chunk["text"] == "needle \ufffd\ufffd end\n"
    column = chunk["ranges"][0]["start"]["column"]
    assert chunk["text"][column - 1 :] == "end\n"


async def test_a_repository_that_could_not_be_searched_is_missing() -> None:
    async with open_api(Fleet({"n1:1": [hello()]}, warming=["late"])) as api, api.client() as client:
        data = (await client.get("/v1/search", params={"q": "needle"})).json()
        assert data["complete"] is False
        assert [(each["repository"], each["why"]) for each in data["missing"]] == [("late", "warming")]


async def test_no_available_repository_is_503() -> None:
    async with open_api(Fleet({}, warming=["late"])) as api, api.client() as client:
        for accept in ("application/json", "application/x-ndjson"):
            response = await client.get("/v1/search", params={"q": "needle"}, headers={"accept": accept})
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) >= 1
            assert response.json()["error"]["status"] == 503


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/event-stream"])
async def test_searches_are_admitted_and_their_outcome_is_reported(api: Api, accept: str) -> None:
    throttle = RecordingThrottle()
    async with client_of(api.routes(throttle=throttle)) as client:
        headers = {"accept": accept}
        response = await client.get("/v1/search", params={"q": "needle"}, headers=headers)
        assert (response.status_code, throttle.outcomes) == (200, [Outcome.SUCCESS])
        throttle.throttle_client()
        response = await client.get("/v1/search", params={"q": "needle"}, headers=headers)
        assert (response.status_code, response.headers["retry-after"]) == (429, "60")
        assert throttle.outcomes == [Outcome.SUCCESS]
        assert (await client.get("/v1/repositories")).status_code == 200, "only searches are admitted"


# -- repositories and files -----------------------------------------------------------------------------------


async def test_repositories_are_listed_with_state_and_holders(client: httpx.AsyncClient) -> None:
    data = (await client.get("/v1/repositories")).json()
    assert [each["name"] for each in data["repositories"]] == [HELLO, NOTES]
    first = data["repositories"][0]
    assert (first["state"], first["id"], first["memory_bytes"]) == ("ready", repository_id(HELLO), 4096)
    assert first["holders"] == [{"node": "n1:1", "address": "n1:1", "replica": 0, "epoch": 1, "state": "ready"}]
    assert (await client.get(f"/v1/repositories/{HELLO}")).json() == first
    assert (await client.get("/v1/repositories/no/where")).status_code == 404


async def test_repositories_are_listed_page_by_page(client: httpx.AsyncClient) -> None:
    first = (await client.get("/v1/repositories", params={"limit": "1"})).json()
    assert (len(first["repositories"]), first["next"]) == (1, HELLO)
    second = (await client.get("/v1/repositories", params={"limit": "1", "after": first["next"]})).json()
    assert ([each["name"] for each in second["repositories"]], second["next"]) == ([NOTES], "")
    assert (await client.get("/v1/repositories", params={"state": "failed"})).json()["repositories"] == []
    assert (await client.get("/v1/repositories", params={"state": "odd"})).status_code == 400
    found = (await client.get("/v1/repositories", params={"name": "ote", "state": "ready"})).json()
    assert [each["name"] for each in found["repositories"]] == [NOTES]


async def test_a_file_is_read_with_its_outline_and_not_sent_twice(client: httpx.AsyncClient) -> None:
    where = f"/v1/repositories/{HELLO}/file"
    response = await client.get(where, params={"path": "greet.go"})
    data = response.json()
    assert (data["content"].encode(), data["encoding"], data["version"]) == (GREET, "utf-8", COMMIT)
    assert "Greet" in [each["name"] for each in data["outline"]]
    again = await client.get(where, params={"path": "greet.go"}, headers={"if-none-match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    raw = await client.get(where, params={"path": "greet.go", "raw": "true"})
    assert (raw.content, raw.headers["x-content-type-options"]) == (GREET, "nosniff")
    assert raw.headers["etag"] != response.headers["etag"]


async def test_a_file_without_content_has_the_reason(client: httpx.AsyncClient) -> None:
    where = f"/v1/repositories/{NOTES}/file"
    data = (await client.get(where, params={"path": "logo.png"})).json()
    assert (data["content"], data["skipped"]) == ("", "binary")
    assert (await client.get(where, params={"path": "logo.png", "raw": "yes"})).status_code == 400
    assert (await client.get(where, params={"path": "logo.png", "raw": "1"})).status_code == 404
    assert (await client.get(where, params={"path": "nowhere"})).status_code == 404


async def test_a_folder_lists_its_names(client: httpx.AsyncClient) -> None:
    where = f"/v1/repositories/{HELLO}/folder"
    assert (await client.get(where)).json()["names"] == ["cmd/", "greet.go"]
    assert (await client.get(where, params={"path": "cmd"})).json()["names"] == ["main.go"]
    assert (await client.get(where, params={"path": "nowhere"})).status_code == 404


async def test_the_fleet_status_has_no_secrets(api: Api, client: httpx.AsyncClient) -> None:
    url = "https://user:hunter2@github.com/o/hello"
    api.fleet.specs[HELLO] = RepoSpec(HELLO, url, last_error="password=hunter2")
    response = await client.get("/v1/fleet")
    assert {node["node"] for node in response.json()["nodes"]} == {"n1:1", "n2:1"}
    assert "hunter2" not in response.text
    assert "hunter2" not in (await client.get("/v1/repositories")).text


@pytest.mark.parametrize("path", ["/v1/search", "/v1/search/stream", "/v1/repositories", "/v1/fleet"])
async def test_browsers_of_other_origins_are_rejected_unless_they_are_allowed(api: Api, path: str) -> None:
    params = {"origin": "https://ui.example", "access-control-request-method": "GET"}
    async with api.client() as client:
        response = await client.options(path, headers=params)
        assert response.status_code == 405
        assert "access-control-allow-origin" not in response.headers
    async with api.client(settings=ApiSettings(cors_origins=("https://ui.example",))) as client:
        response = await client.options(path, headers=params)
        assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "https://ui.example")
        response = await client.get("/v1/fleet", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in response.headers
