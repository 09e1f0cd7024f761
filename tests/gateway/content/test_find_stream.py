"""Streamed finds: records as they arrive, each once, and never terminated as complete when they are not."""

import asyncio

import aiohttp
import pytest

from argosy.gateway.content import find_stream as streaming
from argosy.gateway.content import telemetry
from argosy.ipni.formats import metadata
from argosy.ipni.formats.bases import base58
from argosy.ipni.web import results
from tests.gateway.content.double import LINES, IndexerDouble, SetClock, gateway_over, nowhere
from tests.ipni.web.builders import CONTENT, A, B, C, result

PATH = f"/multihash/{base58(CONTENT)}"


async def test_lines_are_passed_on_before_the_last_indexer_has_ended() -> None:
    quick = IndexerDouble({CONTENT: [result(A)]})
    slow = IndexerDouble({CONTENT: [result(B), result(C)]}, hold_lines=asyncio.Event())
    async with (
        gateway_over(quick, slow) as pool,
        pool.web.get(pool.url + PATH, headers={"accept": LINES}) as answer,
    ):
        assert answer.headers["content-type"] == LINES
        first = {results.decode_line(await answer.content.readline()).provider.id for _ in range(2)}
        assert first == {A, B}, "while one of them is still at it"
        assert slow.hold_lines is not None
        slow.hold_lines.set()
        assert results.decode_line(await answer.content.readline()).provider.id == C
        assert await answer.content.read() == b""


async def test_equal_records_are_streamed_once_and_differing_ones_both() -> None:
    here = [result(A, b"1"), result(A, b"2", metadata.bitswap())]
    there = [result(A, b"1"), result(A, b"2", metadata.http())]
    async with gateway_over(IndexerDouble({CONTENT: here}), IndexerDouble({CONTENT: there})) as pool:
        lines = (await pool.find(CONTENT, LINES)).body.splitlines()
        records = [(each.context, each.metadata) for each in map(results.decode_line, lines)]
        expected = [(b"1", metadata.bitswap()), (b"2", metadata.bitswap()), (b"2", metadata.http())]
        assert sorted(records) == sorted(expected)


async def test_failed_indexers_are_reported_before_the_stream_begins() -> None:
    dead = await nowhere()
    indexers = (dead, IndexerDouble({CONTENT: [result(A)]}), IndexerDouble(status=500))
    async with gateway_over(*indexers, cache_entries=10) as pool:
        for _ in range(2):
            answer = await pool.find(CONTENT, LINES)
            assert answer.headers["x-argosy-missing"] == f"{pool.names[0]}=failed; {pool.names[2]}=error"
            assert len(answer.body.splitlines()) == 1


async def test_a_late_indexer_does_not_delay_a_stream() -> None:
    stalled = IndexerDouble({CONTENT: [result(B)]}, hold=asyncio.Event())
    quick = IndexerDouble({CONTENT: [result(A)]})
    async with gateway_over(stalled, quick, patience_min_s=0.0, patience_max_s=0.02) as pool:
        answer = await pool.find(CONTENT, LINES)
        assert [results.decode_line(line).provider.id for line in answer.body.splitlines()] == [A]
        assert answer.headers["x-argosy-missing"] == f"{pool.names[0]}=late"


async def test_a_stream_that_cannot_be_completed_is_cut_and_not_ended() -> None:
    broken = IndexerDouble({CONTENT: [result(B), result(C)]}, breaks_off=True)
    async with gateway_over(IndexerDouble({CONTENT: [result(A)]}), broken, cache_entries=10) as pool:
        for attempts in (1, 2):
            async with pool.web.get(pool.url + PATH, headers={"accept": LINES}) as answer:
                assert answer.status == 200
                with pytest.raises(aiohttp.ClientPayloadError):
                    await answer.read()
            assert len(broken.requests) == attempts, "and is not cached"
        assert pool.metrics.value(telemetry.INCOMPLETE) >= 2


async def test_a_stream_is_cut_at_the_deadline() -> None:
    clock, lines = SetClock(), asyncio.Event()
    slow = IndexerDouble({CONTENT: [result(A), result(B)]}, hold_lines=lines, hold_end=asyncio.Event())
    async with (
        gateway_over(slow, clock=clock, stream_s=1000.0) as pool,
        pool.web.get(pool.url + PATH, headers={"accept": LINES}) as answer,
    ):
        assert results.decode_line(await answer.content.readline()).provider.id == A
        clock.ahead_s = 1000.0
        lines.set()
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_stream_of_nothing_ends_at_the_deadline() -> None:
    async with gateway_over(IndexerDouble(hold=asyncio.Event()), stream_s=0.05) as pool:
        unknown = await pool.find(CONTENT, LINES)
        assert (unknown.status, unknown.headers["x-argosy-missing"]) == (504, f"{pool.names[0]}=timed out")


async def test_a_complete_stream_is_cached_for_both_formats() -> None:
    indexer = IndexerDouble({CONTENT: [result(A), result(B)]})
    async with gateway_over(indexer, cache_entries=10) as pool:
        first = await pool.find(CONTENT, LINES)
        assert (await pool.find(CONTENT, LINES)).body == first.body
        [(_, found)] = results.decode_json((await pool.find(CONTENT)).body)
        assert [each.provider.id for each in found] == [A, B]
        assert len(indexer.requests) == 1


async def test_more_records_than_the_limit_cut_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "RECORDS_MAX", 3)
    many = IndexerDouble({CONTENT: [result(A, b"%d" % number) for number in range(5)]})
    async with gateway_over(many) as pool, pool.web.get(pool.url + PATH, headers={"accept": LINES}) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_client_that_disconnects_cancels_its_requests() -> None:
    indexer = IndexerDouble({CONTENT: [result(A), result(B)]}, hold_lines=asyncio.Event())
    async with gateway_over(indexer) as pool:
        async with pool.gateway.stream(CONTENT) as stream:
            assert await stream.begin()
            assert pool.metrics.value(telemetry.FINDS_IN_FLIGHT) == 1
        assert pool.metrics.value(telemetry.FINDS_IN_FLIGHT) == 0
        assert pool.metrics.value(telemetry.BREAKER, backend=pool.names[0]) == 0, "through no fault of the indexer"


async def test_ten_thousand_records_of_two_indexers_are_all_returned() -> None:
    some = [result(A, b"%d" % number) for number in range(6000)]
    others = [result(A, b"%d" % number) for number in range(4000, 10_000)]
    async with gateway_over(IndexerDouble({CONTENT: some}), IndexerDouble({CONTENT: others})) as pool:
        lines = (await pool.find(CONTENT, LINES)).body.splitlines()
        assert len(lines) == 10_000
        assert {results.decode_line(line).context for line in lines} == {b"%d" % number for number in range(10_000)}


async def test_an_incomplete_answer_of_another_gateway_is_incomplete_here() -> None:
    partial = IndexerDouble({CONTENT: [result(A)]}, headers={"x-argosy-incomplete": "1"})
    cut = IndexerDouble({CONTENT: [result(B)]}, headers={"x-argosy-truncated": "30000"})
    async with gateway_over(partial, cut) as pool:
        for accept in ("application/json", LINES):
            answer = await pool.find(CONTENT, accept)
            assert (answer.status, answer.missing) == (200, 1)
            assert answer.headers["x-argosy-missing"] == f"{pool.names[0]}=incomplete"
            assert answer.headers["x-argosy-truncated"] == "30000"
