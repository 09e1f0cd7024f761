"""Streamed results: no part waits for the slowest node, and the end has the whole ranking."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import httpx
import pytest
from starlette.applications import Starlette

from argosy.base.errors import Unavailable
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.stream import stream_events
from argosy.search.fleet.model import SearchRequest
from argosy.search.fleet.ports import Node
from argosy.search.model import FileMatch, SearchResult, Stats
from tests.gateway.v1.api_fixture import Api
from tests.gateway.zoekt.fleet_fixture import HELLO, NOTES
from tests.search.fleet.node_fixture import serving


class Slow:
    """A node that answers searches only when it is let."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.is_let = asyncio.Event()
        self.is_left = asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._node, name)

    async def search(self, request: SearchRequest) -> SearchResult:
        try:
            await self.is_let.wait()
        except asyncio.CancelledError:
            self.is_left.set()
            raise
        return await self._node.search(request)


async def test_first_results_come_before_the_slowest_node_answers(api: Api) -> None:
    slow = Slow(api.fleet.nodes["n2:1"])
    api.fleet.nodes["n2:1"] = slow  # type: ignore[assignment]
    async with (
        asyncio.timeout(30),
        serving(Starlette(routes=api.routes())) as address,
        aiohttp.ClientSession() as session,
        session.post(f"http://{address}/v1/search/stream", json={"q": "needle"}) as response,
    ):
        assert response.content_type == "application/x-ndjson"
        first = json.loads(await response.content.readline())
        assert (first["event"], [file["repository"] for file in first["files"]]) == ("part", [HELLO])
        slow.is_let.set()
        rest = [json.loads(line) async for line in response.content]
    assert rest[-1]["event"] == "end"
    assert rest[-1]["complete"] is True
    assert {ref["repository"] for ref in rest[-1]["order"]} == {HELLO, NOTES}
    parts = [first, *rest[:-1]]
    assert {file["repository"] for part in parts for file in part["files"]} == {HELLO, NOTES}


async def test_the_search_of_a_disconnected_client_is_cancelled(api: Api) -> None:
    slow = Slow(api.fleet.nodes["n2:1"])
    api.fleet.nodes["n2:1"] = slow  # type: ignore[assignment]
    async with (
        asyncio.timeout(30),
        serving(Starlette(routes=api.routes())) as address,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(f"http://{address}/v1/search/stream", json={"q": "needle"}) as response:
            await response.content.readline()
            response.close()
        await slow.is_left.wait()
    assert not slow.is_let.is_set()


async def test_a_browser_gets_events(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/search", params={"q": "needle"}, headers={"accept": "text/event-stream"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    blocks = [block.split("\n") for block in response.text.strip().split("\n\n")]
    assert blocks[-1][0] == "event: end"
    assert json.loads(blocks[-1][1].removeprefix("data: "))["stats"]["files"] == 3


async def test_an_error_before_the_first_result_has_its_status(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/search/stream", json={"q": "("})
    assert (response.status_code, response.json()["error"]["position"]) == (400, 0)


# -- parts into events, alone ---------------------------------------------------------------------------------


def answer(*paths: str) -> SearchResult:
    return SearchResult(tuple(FileMatch("r", path) for path in paths), Stats(files=len(paths)))


async def parts_of(*steps: SearchResult | Exception) -> AsyncIterator[SearchResult]:
    for step in steps:
        if isinstance(step, Exception):
            raise step
        yield step


async def collect_events(parts: AsyncIterator[SearchResult]) -> tuple[list[v1.StreamEvent], list[SearchResult]]:
    seen: list[SearchResult] = []
    return [event async for event in stream_events(parts, "q", seen.append)], seen


async def test_the_whole_result_is_not_sent_as_a_part_again() -> None:
    found, seen = await collect_events(parts_of(answer("a"), answer("b"), answer("b", "a")))
    assert [v1.event_name(event) for event in found] == ["part", "part", "end"]
    end = found[-1]
    assert isinstance(end, v1.StreamEnd)
    assert [ref.path for ref in end.order] == ["b", "a"]
    assert seen == [answer("b", "a")]


async def test_files_that_only_the_whole_result_has_are_sent_before_the_end() -> None:
    found, _ = await collect_events(parts_of(answer("a"), answer("b", "a", "c")))
    paths = [[file.path for file in event.files] for event in found if isinstance(event, v1.StreamPart)]
    assert paths == [["a"], ["b", "c"]]
    found, _ = await collect_events(parts_of(answer("b", "a")))
    assert [v1.event_name(event) for event in found] == ["part", "end"]


async def test_a_fleet_with_nothing_in_it_ends_at_once() -> None:
    found, _ = await collect_events(parts_of(SearchResult()))
    assert [v1.event_name(event) for event in found] == ["end"]


async def test_a_failure_during_the_stream_ends_it_with_an_error_event() -> None:
    found, seen = await collect_events(parts_of(answer("a"), Unavailable("gone, token=hunter2")))
    assert [v1.event_name(event) for event in found] == ["part", "error"]
    failure = found[-1]
    assert isinstance(failure, v1.StreamFailure)
    assert (failure.error.status, "hunter2" in failure.error.message) == (503, False)
    assert seen == []


async def test_a_failure_at_the_start_is_raised() -> None:
    with pytest.raises(Unavailable):
        await collect_events(parts_of(Unavailable("away")))
