"""One find over many indexers: all that any of them has, whatever the others do."""

import asyncio
from base64 import b64encode

from argosy.gateway.content import telemetry
from argosy.ipni.formats import cid, metadata, multihash
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import Peer, ProviderResult
from argosy.ipni.web import results
from tests.gateway.content.double import LINES, IndexerDouble, ResponseReceived, SetClock, gateway_over, nowhere, until
from tests.ipni.web.builders import CONTENT, A, B, C, result

OTHER = multihash.of(b"something else")


def records_of(answer: ResponseReceived) -> set[tuple[str, bytes]]:
    assert answer.status == 200, answer.body
    [(found, its)] = results.decode_json(answer.body)
    assert found == CONTENT
    assert len(set(its)) == len(its), "nothing is records_of twice"
    return {(each.provider.id, each.context) for each in its}


async def test_records_of_every_indexer_are_in_the_response() -> None:
    indexers = [IndexerDouble({CONTENT: [result(id, b"ctx")]}) for id in (A, B, C)] + [IndexerDouble()]
    async with gateway_over(*indexers) as pool:
        answer = await pool.find(CONTENT)
        assert records_of(answer) == {(A, b"ctx"), (B, b"ctx"), (C, b"ctx")}
        assert answer.missing == 0
        by_cid = await pool.get(f"/cid/{Cid(cid.DAG_CBOR, CONTENT)}")
        assert by_cid.body == answer.body, "the codec makes no difference"


async def test_replicas_lose_nothing_whichever_responds_first() -> None:
    """Trap 16: after a duplicate the rest of an indexer's answer still counts."""
    first = IndexerDouble({CONTENT: [result(A, b"1"), result(A, b"2")]})
    second = IndexerDouble({CONTENT: [result(A, b"1"), result(B, b"1"), result(A, b"3")]})
    bodies = set()
    for held in (first, second):
        first.hold = second.hold = None
        held.hold = asyncio.Event()
        other = second if held is first else first
        async with gateway_over(first, second) as pool:
            searching = asyncio.ensure_future(pool.find(CONTENT))
            await other.was_asked.wait()
            await held.was_asked.wait()
            held.hold.set()
            answer = await searching
        assert records_of(answer) == {(A, b"1"), (A, b"2"), (B, b"1"), (A, b"3")}
        bodies.add(answer.body)
    assert len(bodies) == 1, "equal requests have equal responses"


async def test_indexers_may_respond_in_either_format() -> None:
    lines = IndexerDouble({CONTENT: [result(A), result(B)]}, kind=LINES)
    document = IndexerDouble({CONTENT: [result(C)]}, kind="application/json")
    async with gateway_over(lines, document) as pool:
        assert {id for id, _ in records_of(await pool.find(CONTENT))} == {A, B, C}
        streamed = await pool.find(CONTENT, LINES)
        assert {results.decode_line(line).provider.id for line in streamed.body.splitlines()} == {A, B, C}


async def test_records_without_a_provider_or_an_address_are_dropped() -> None:
    useless = ProviderResult(b"x", metadata.bitswap(), Peer(B, ()))
    async with gateway_over(
        IndexerDouble({CONTENT: [useless, result(A)]}), IndexerDouble({CONTENT: [useless]})
    ) as pool:
        assert {id for id, _ in records_of(await pool.find(CONTENT))} == {A}
        [line] = (await pool.find(CONTENT, LINES)).body.splitlines()
        assert results.decode_line(line).provider.id == A


async def test_results_that_were_not_requested_are_skipped_and_reported() -> None:
    strange = IndexerDouble(raw=results.encode_json([(OTHER, [result(B)])]))
    async with gateway_over(strange, IndexerDouble({CONTENT: [result(A)]})) as pool:
        answer = await pool.find(CONTENT)
        assert {id for id, _ in records_of(answer)} == {A}
        assert answer.headers["x-argosy-missing"] == f"{pool.names[0]}=malformed"


async def test_malformed_lines_are_counted_and_the_others_used() -> None:
    raw = b"\n{not json}\n" + results.encode_line(result(A)) + b'{"Provider":null}\n\n'
    async with gateway_over(IndexerDouble(raw=raw, kind=LINES)) as pool:
        answer = await pool.find(CONTENT)
        assert {id for id, _ in records_of(answer)} == {A}
        assert answer.missing == 1
        assert pool.metrics.value(telemetry.MALFORMED, backend=pool.names[0]) == 2


async def test_an_unknown_response_format_is_malformed() -> None:
    strange = IndexerDouble({CONTENT: [result(B)]}, kind="text/html")
    async with gateway_over(strange, IndexerDouble({CONTENT: [result(A)]})) as pool:
        answer = await pool.find(CONTENT)
        assert ({id for id, _ in records_of(answer)}, answer.missing) == ({A}, 1)


async def test_an_incomplete_response_names_what_is_missing_and_is_not_cached() -> None:
    broken = IndexerDouble({CONTENT: [result(B)]}, status=500)
    dead = await nowhere()
    async with gateway_over(IndexerDouble({CONTENT: [result(A)]}), broken, dead, cache_entries=10) as pool:
        answer = await pool.find(CONTENT)
        assert records_of(answer) == {(A, b"ctx-1")}
        assert answer.headers["x-argosy-incomplete"] == "2"
        assert answer.headers["x-argosy-missing"] == f"{pool.names[1]}=error; {pool.names[2]}=failed"
        assert answer.headers["cache-control"] == "no-store"
        broken.status = 200
        assert {id for id, _ in records_of(await pool.find(CONTENT))} == {A, B}, "queried again, not cached"


async def test_nothing_is_404_only_if_every_indexer_responded_so_in_either_format() -> None:
    """Trap 18: an indexer that could not be queried may have it, so the response is not "not found"."""
    dead = await nowhere()
    for accept in ("application/json", LINES):
        async with gateway_over(IndexerDouble(), IndexerDouble()) as pool:
            nothing = await pool.find(CONTENT, accept)
            assert (nothing.status, nothing.body) == (404, b"no results for query")
            assert nothing.headers["cache-control"] == "public, max-age=15"
        async with gateway_over(IndexerDouble(), dead) as pool:
            unknown = await pool.find(CONTENT, accept)
            assert (unknown.status, unknown.missing, unknown.headers["retry-after"]) == (504, 1, "2")
            assert unknown.headers["cache-control"] == "no-store"
            assert f"{pool.names[1]}=failed" in unknown.body.decode()


async def test_an_indexer_that_rejects_requests_is_missing_and_still_queried() -> None:
    strict = IndexerDouble(status=400)
    async with gateway_over(strict, breaker_failures=1) as pool:
        for requests_before in (1, 2, 3):
            assert (await pool.find(CONTENT)).status == 504
            assert len(strict.requests) == requests_before, "it responds, so its breaker stays closed"


async def test_without_indexers_finds_are_unavailable() -> None:
    async with gateway_over() as pool:
        answer = await pool.find(CONTENT)
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert "content.backends" in answer.body.decode()


async def test_a_late_indexer_is_not_waited_for_once_something_is_found() -> None:
    slow = IndexerDouble({CONTENT: [result(B)]}, hold=asyncio.Event())
    async with gateway_over(
        IndexerDouble({CONTENT: [result(A)]}), slow, patience_min_s=0.0, patience_max_s=0.01
    ) as pool:
        answer = await pool.find(CONTENT)
        assert records_of(answer) == {(A, b"ctx-1")}
        assert answer.headers["x-argosy-missing"] == f"{pool.names[1]}=late"
        assert slow.hold is not None
        slow.hold.set()
        await until(lambda: pool.metrics.value(telemetry.BACKEND_REQUESTS, backend=pool.names[1], outcome="found") == 1)
        assert pool.metrics.value(telemetry.BACKEND_SECONDS, backend=pool.names[1]) == 1, "what came late was measured"


async def test_a_miss_waits_for_every_indexer_until_the_deadline() -> None:
    slow = IndexerDouble({CONTENT: [result(B)]}, hold=asyncio.Event())
    async with gateway_over(IndexerDouble(), slow, patience_min_s=0.0, patience_max_s=0.0) as pool:
        searching = asyncio.ensure_future(pool.find(CONTENT))
        await slow.was_asked.wait()
        assert slow.hold is not None
        slow.hold.set()
        assert records_of(await searching) == {(B, b"ctx-1")}
    async with gateway_over(IndexerDouble(hold=asyncio.Event()), find_s=0.05) as pool:
        answer = await pool.find(CONTENT)
        assert (answer.status, answer.headers["x-argosy-missing"]) == (504, f"{pool.names[0]}=timed out")


async def test_breakers_open_on_every_kind_of_failure() -> None:
    """Trap 17: refused connections, statuses of 500 and more, and deadlines that pass."""
    dead = await nowhere()
    stalled = IndexerDouble(hold=asyncio.Event())
    for broken, find_s in ((dead, 60.0), (IndexerDouble(status=503), 60.0), (stalled, 0.02)):
        async with gateway_over(broken, find_s=find_s, breaker_first_s=1000.0, breaker_ceiling_s=1000.0) as pool:
            for _ in range(3):
                assert (await pool.find(CONTENT)).status == 504
            requests_before = len(broken.requests) if isinstance(broken, IndexerDouble) else 0
            answer = await pool.find(CONTENT)
            assert answer.headers["x-argosy-missing"] == f"{pool.names[0]}=circuit open"
            assert requests_before == (len(broken.requests) if isinstance(broken, IndexerDouble) else 0)
            assert pool.metrics.value(telemetry.BREAKER, backend=pool.names[0]) == 1.0


async def test_a_single_probe_detects_that_an_indexer_is_back() -> None:
    broken, clock = IndexerDouble({CONTENT: [result(B)]}, status=500), SetClock()
    async with gateway_over(
        broken, clock=clock, breaker_failures=1, breaker_first_s=1000.0, breaker_ceiling_s=1000.0
    ) as pool:
        assert (await pool.find(CONTENT)).status == 504
        assert (await pool.find(CONTENT)).headers["x-argosy-missing"] == f"{pool.names[0]}=circuit open"
        broken.status, broken.hold = 200, asyncio.Event()
        broken.was_asked.clear()
        clock.ahead_s = 1000.0
        probe = asyncio.ensure_future(pool.find(CONTENT))
        await broken.was_asked.wait()
        others = await asyncio.gather(*(pool.find(multihash.of(b"%d" % number)) for number in range(5)))
        assert {answer.headers["x-argosy-missing"] for answer in others} == {f"{pool.names[0]}=circuit open"}
        assert len(broken.requests) == 2, "one request is enough to detect it"
        broken.hold.set()
        assert (await probe).status == 200
        assert pool.metrics.value(telemetry.BREAKER, backend=pool.names[0]) == 0.0
        assert (await pool.find(CONTENT)).missing == 0


async def test_concurrent_identical_finds_are_coalesced_and_results_cached() -> None:
    indexer = IndexerDouble({CONTENT: [result(A)]}, hold=asyncio.Event())
    async with gateway_over(indexer, cache_entries=10, hit_s=60) as pool:
        searching = [asyncio.ensure_future(pool.find(CONTENT)) for _ in range(5)]
        await indexer.was_asked.wait()
        await until(lambda: pool.metrics.value(telemetry.SOURCES, source="shared") == 4)
        assert indexer.hold is not None
        indexer.hold.set()
        assert {(await each).body for each in searching} == {results.encode_json([(CONTENT, [result(A)])])}
        for accept in ("application/json", LINES):
            assert (await pool.find(CONTENT, accept)).status == 200
        assert len(indexer.requests) == 1
        assert pool.metrics.value(telemetry.SOURCES, source="cache") == 2


async def test_a_batch_goes_to_all_indexers_without_the_cached_multihashes() -> None:
    one = IndexerDouble({CONTENT: [result(A)], OTHER: [result(B, b"o")]})
    two = IndexerDouble({CONTENT: [result(C)]})
    third = multihash.of(b"nobody has it")
    async with gateway_over(one, two, cache_entries=10, hit_s=60) as pool:
        await pool.find(CONTENT)
        body = {"Multihashes": [b64encode(each).decode() for each in (OTHER, third, CONTENT)]}
        async with pool.web.post(pool.url + "/multihash", json=body) as answer:
            found = dict(results.decode_json(await answer.read()))
        assert [*found] == [OTHER, CONTENT]
        assert {each.provider.id for each in found[CONTENT]} == {A, C}
        assert one.requests[1:] == ["/multihash"]
        async with pool.web.post(pool.url + "/multihash", json=body) as answer:
            assert answer.status == 200
        assert len(one.requests) == 2
        async with pool.web.post(pool.url + "/multihash", json={"Multihashes": ["EiA="]}) as answer:
            assert answer.status == 400


async def test_no_indexer_is_late_before_every_multihash_of_a_batch_is_found() -> None:
    slow = IndexerDouble({OTHER: [result(B)]}, hold=asyncio.Event())
    quick = IndexerDouble({CONTENT: [result(A)]})
    async with gateway_over(quick, slow, patience_min_s=0.0, patience_max_s=0.0) as pool:
        body = {"Multihashes": [b64encode(each).decode() for each in (CONTENT, OTHER)]}
        searching = asyncio.ensure_future(pool.web.post(pool.url + "/multihash", json=body))
        await slow.was_asked.wait()
        await until(lambda: pool.metrics.value(telemetry.BACKEND_REQUESTS, backend=pool.names[0], outcome="found") == 1)
        assert slow.hold is not None
        slow.hold.set()
        async with await searching as answer:
            found = dict(results.decode_json(await answer.read()))
        assert [*found] == [CONTENT, OTHER]
        assert "x-argosy-missing" not in answer.headers


async def test_finds_above_the_limit_are_rejected() -> None:
    indexer = IndexerDouble(hold=asyncio.Event())
    async with gateway_over(indexer, finds_max=1) as pool:
        first = asyncio.ensure_future(pool.find(CONTENT))
        await indexer.was_asked.wait()
        busy = await pool.find(OTHER)
        assert (busy.status, busy.headers["retry-after"]) == (503, "1")
        assert indexer.hold is not None
        indexer.hold.set()
        assert (await first).status == 404


async def test_an_indexer_with_too_many_requests_is_skipped() -> None:
    indexer = IndexerDouble(hold=asyncio.Event())
    async with gateway_over(indexer, requests_max=1) as pool:
        first = asyncio.ensure_future(pool.find(CONTENT))
        await indexer.was_asked.wait()
        assert (await pool.find(OTHER)).headers["x-argosy-missing"] == f"{pool.names[0]}=busy"
        assert indexer.hold is not None
        indexer.hold.set()
        assert (await first).status == 404
