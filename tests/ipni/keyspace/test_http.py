"""The HTTP API of a query node: authorisation, limits, and errors."""

from io import BytesIO
from pathlib import Path

import aiohttp
import pytest

from argosy.base.errors import Conflict, Forbidden, Invalid, NotOwner, Unauthorized, Unavailable
from argosy.ipni.keyspace import wire
from argosy.ipni.keyspace.client import NodeConnections
from argosy.ipni.keyspace.http import keyspace_app
from argosy.ipni.keyspace.layout import slot_of
from tests.contracts.index_store_stage import ALICE, many, value
from tests.ipni.keyspace.stage import TOKEN, fleet
from tests.ipni.publish.serving import serving


async def test_every_call_round_trips(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("a", 1)
        node = nodes.connections.node(await nodes.url("a"))
        hashes = many("file", 5)
        await node.put(1, value(), hashes, is_durable=True)
        assert await node.find(1, [*hashes, *many("other", 1)]) == [(value(),)] * 5 + [()]
        assert sorted(await node.multihashes(1, ALICE, b"context", start=b"", limit=9)) == sorted(hashes)
        assert await node.context_size(1, ALICE, b"context") == 5
        assert await node.find_value(1, bytes(32)) is None
        assert await node.find_second(1, [bytes(32)]) == [None]
        slots = sorted({slot_of(each) for each in hashes})
        page = await node.export(1, slots, b"", limit=100)
        assert (page.values, page.finished, page.cursor) == ([value()], len(slots), b"")
        assert sorted(page.entries) == sorted((each, 0) for each in hashes)
        await node.remove(1, ALICE, b"context", is_durable=True)
        assert await node.find(1, hashes[:1]) == [()]
        assert (await node.status(1)).version == 1


async def test_errors_keep_their_type(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("ab", 1)
        node = nodes.connections.node(await nodes.url("a"))
        other = next(each for each in many("file", 99) if "b" in nodes.layout.owners[slot_of(each)])
        with pytest.raises(Conflict, match="out of date"):
            await node.find(0, [])
        with pytest.raises(Unavailable, match="not yet 9"):
            await node.find(9, [])
        with pytest.raises(NotOwner, match="slot"):
            await node.find(1, [other])
        with pytest.raises(Invalid):
            await node.find(1, [b"\x12\x20short"])
        with pytest.raises(Invalid, match="invalid put"):
            await node.put(1, value(), [b""] * (wire.PUT_MAX + 1), is_durable=False)
        with pytest.raises(Invalid, match="invalid put"):
            await node.put(1, value(context=b"x" * 65), [], is_durable=False)
        with pytest.raises(Invalid, match="invalid export"):
            await node.export(1, [4096], b"", limit=1)


async def test_requests_without_the_token_are_rejected(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("a", 1)
        stranger = NodeConnections(token="another", call_s=5)
        with pytest.raises(Unauthorized):
            await stranger.node(await nodes.url("a")).find(1, [])
        async with serving(keyspace_app(nodes.nodes["a"].service, token=None)) as url:
            with pytest.raises(Forbidden, match=r"set keyspace\.token"):
                await nodes.connections.node(url).find(1, [])
        await stranger.close()


async def test_bodies_are_bounded_and_checked(tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with fleet(tmp_path) as nodes, aiohttp.ClientSession(headers=headers) as session:
        await nodes.create("a", 1)
        url = await nodes.url("a") + wire.PREFIX + "find"
        for body in (b"", b"\xc1", wire.pack((1, "no list")), bytes(wire.BODY_BYTES_MAX + 1)):
            async with session.post(url, data=BytesIO(body)) as answer:
                assert answer.status == 400
        async with session.get(await nodes.url("a") + "/health") as answer:
            assert await answer.text() == "query node a ready\n"
        async with session.get(await nodes.url("a") + "/stats") as answer:
            assert (await answer.json())["held"] == 4096


async def test_a_node_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("a", 1)
        node = nodes.connections.node(await nodes.url("a"))
        await nodes.kill("a")
        with pytest.raises(Unavailable, match="check the query node"):
            await node.find(1, [])


async def test_a_request_whose_caller_timed_out_is_not_executed_afterwards(tmp_path: Path) -> None:
    async with fleet(tmp_path) as nodes:
        await nodes.create("a", 1)
        service = nodes.nodes["a"].service
        async with serving(keyspace_app(service, token=TOKEN, call_s=0.05)) as url:
            node = nodes.connections.node(url)
            async with service._changing:  # another task holds the lock for long
                with pytest.raises(Unavailable, match=r"timed out after .*: put"):
                    await node.put(1, value(), many("file", 1), is_durable=False)
            await node.remove(1, ALICE, b"other", is_durable=False)
            assert await service.find(1, many("file", 1)) == [()]


def test_values_are_sent_once_and_unknown_indexes_are_rejected() -> None:
    found = [(value(), value(ALICE, b"2")), (), (value(),)]
    rows, lists = wire.intern_values(found)
    assert (len(rows), lists) == (2, [[0, 1], [], [0]])
    assert wire.expand_values((rows, lists)) == found
    with pytest.raises(Invalid):
        wire.expand_values((rows, [[2]]))
