"""The content index benchmark end to end with small runs: real processes, real stores, real HTTP."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench
from argosy.bench.ipni import chains, figures, finds, ingest, run, stores
from argosy.bench.ipni.chains import ChainShape, absent_multihashes, chunk_multihashes
from argosy.bench.ipni.find_load import FindResults, encode_finds, run_at_full_speed, run_at_rate, run_sequentially
from argosy.bench.ipni.processes import start_indexer, start_publishers
from argosy.bench.ipni.run import FULL, QUICK, IpniSizes, ipni
from argosy.bench.ipni.stores import ArgosyStore, DigestStore, measure_store, run_store_program
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.entries import decode_chunk
from bench.peers import environment
from bench.peers.ipni import PROGRAM, RocksdictStore, SqliteStore

TINY = IpniSizes(
    cbor=ChainShape(2, 2, 256),
    json=ChainShape(1, 2, 256),
    ingests=1,
    findable=ChainShape(1, 1, 256),
    find_s=0.2,
    stored=20_000,
    stores=1,
    millions=2,
    chunk=128,
    has_growth_goal=False,
    gateway_finds=24,
    gateway_runs=1,
)


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(ingest, "FINDS_PER_S", 200)
    monkeypatch.setattr(ingest, "MILLION_CHUNKS", 2)
    monkeypatch.setattr(figures, "FAN_OUT", 3)
    monkeypatch.setattr(finds, "FAST_IN_A_ROW", 5)
    monkeypatch.setattr(finds, "SLOW_S", 0.5)


async def measure(only: str) -> tuple[dict[str, float], Bench]:
    bench = Bench("ipni", is_quick=True, only=only)
    await ipni(bench)
    assert [(result.figure.id, result.error) for result in bench.results if result.value is None] == []
    return {result.figure.id: result.value or 0.0 for result in bench.results}, bench


@pytest.mark.timeout(120)
@pytest.mark.parametrize("codec", ["cbor", "json"])
async def test_chains_are_ingested_with_concurrent_finds(codec: str) -> None:
    measured, bench = await measure(f"ingest.{codec}")
    assert measured.keys() == {figure.id for figure in figures.ingest(codec)}
    assert min(measured.values()) > 0
    assert measured[f"ingest.{codec}_find_p50"] <= measured[f"ingest.{codec}_find_p99"]
    assert any(f"ingest.{codec}: " in note for note in bench.notes)


@pytest.mark.timeout(120)
async def test_finds_are_counted_on_one_core() -> None:
    measured, _ = await measure("find.")
    assert measured.keys() == {figure.id for figure in figures.FINDS}
    assert min(measured.values()) > 0


@pytest.mark.timeout(120)
async def test_the_store_is_measured_beside_peers_and_a_note_names_the_absent_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> Path:
        raise Unavailable("the peers cannot be installed: no network")

    monkeypatch.setattr(environment, "ensure_environment", fail)
    measured, bench = await measure("store.")
    assert measured.keys() == {figure.id for figure in figures.STORES}
    assert {name for result in bench.results for name in result.peers} == {"rocksdict", "sqlite"}
    assert "lmdb: not measured, the peers cannot be installed: no network" in bench.notes


@pytest.mark.timeout(120)
async def test_growth_is_the_rate_at_the_end_relative_to_the_start() -> None:
    measured, bench = await measure("growth.")
    assert measured.keys() == {figure.id for figure in figures.growth(2, has_goal=False)}
    assert min(measured.values()) > 0
    assert any("bytes on disk" in note for note in bench.notes)


@pytest.mark.timeout(180)
async def test_a_gateway_is_measured_healthy_and_with_failed_indexers() -> None:
    measured, _ = await measure("fanout.")
    assert measured.keys() == {figure.id for figure in (*figures.OVERHEADS, *figures.LOSSES)}
    assert measured["fanout.added_p50"] == pytest.approx(measured["fanout.find_p50"] - measured["fanout.direct_p50"])
    assert min(measured[f"fanout.{how}"] for how in ("healthy_p99", "stalled_p99", "dead_p99")) > 0


def test_a_chain_has_the_multihashes_of_its_seed() -> None:
    chain = chains.build_chain(7, ChainShape(2, 3, 4), "json")
    assert len(chain.ads) == 2
    assert len(chain.blocks) == 2 + 2 * 3
    found: list[bytes] = []
    for number, name in enumerate(chain.ads):
        ad = adverts.decode(name, chain.blocks[str(name)])
        assert adverts.signer(ad) == chain.publisher == chains.publisher_key(7).peer_id
        assert ad.previous == (chain.ads[number - 1] if number else None)
        entries: cids.Cid | None = ad.entries
        while entries is not None:
            block = chain.blocks[str(entries)]
            assert entries.multihash[2:] == sha256(block).digest()
            chunk = decode_chunk(entries, block)
            found += chunk.multihashes
            entries = chunk.next
    assert sorted(found) == sorted(each for number in range(6) for each in chunk_multihashes(7, number, 4))


def test_no_two_chunks_share_a_multihash_and_absent_ones_are_in_none() -> None:
    drawn = [chunk_multihashes(seed, number, 50) for seed in (1, 2) for number in range(3)]
    drawn += [absent_multihashes(seed, 50) for seed in (1, 2)]
    assert len({each for part in drawn for each in part}) == len(drawn) * 50
    assert chunk_multihashes(1, 0, 50)[:7] == chunk_multihashes(1, 0, 7)


def test_finds_with_too_many_hits_or_errors_are_rejected() -> None:
    for statuses in ({200: 10}, {200: 5, 404: 4, 503: 1}, {0: 10}):
        results = FindResults([0.1] * 10)
        results.statuses.update(statuses)
        with pytest.raises(Unavailable, match="got status codes"):
            results.check_hits()
    good = FindResults([0.1] * 11)
    good.statuses.update({200: 6, 404: 5})
    good.check_hits()


@pytest.fixture
async def odd_server() -> AsyncIterator[str]:
    """Responds in two pieces, without a length to a find of 1220aa; closes the connection at a find of 1220bb."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            while await reader.readline() != b"\r\n":
                pass
            if b"/1220bb " in line:
                break
            length = b"" if b"/1220aa " in line else b"content-length: 4\r\n"
            writer.write(b"HTTP/1.1 404 Not Found\r\n" + length + b"x: y\r\n\r\nab")
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(b"cd")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def test_responses_in_pieces_are_complete(odd_server: str) -> None:
    requests = encode_finds(odd_server, [b"\x12\x20\x01", b"\x12\x20\x02"])
    results = await asyncio.to_thread(run_sequentially, odd_server, requests, 5)
    assert (len(results.took_s), dict(results.statuses)) == (5, {404: 5})
    results = await asyncio.to_thread(run_at_full_speed, odd_server, requests, 0.1, 3)
    assert results.statuses.keys() == {404}
    assert results.rate > 0


@pytest.mark.parametrize(("name", "why"), [("aa", "has no content-length"), ("bb", "was closed")])
async def test_an_incomplete_response_is_an_error(odd_server: str, name: str, why: str) -> None:
    requests = encode_finds(odd_server, [bytes.fromhex(f"1220{name}")])
    with pytest.raises(Unavailable, match=why):
        await asyncio.to_thread(run_sequentially, odd_server, requests, 1)


@pytest.mark.timeout(120)
async def test_an_indexer_that_rejects_or_stops_is_noticed(tmp_path: Path) -> None:
    async with (
        start_publishers("cbor", 1, 1, ChainShape(1, 1, 8)) as publishers,
        start_indexer(tmp_path, ipni_allow="false") as indexer,
    ):
        with pytest.raises(Unavailable, match="rejected with 403"):
            await indexer.ingest(publishers.chains[0])
        is_over = asyncio.Event()
        load = run_at_rate(indexer.session, indexer.url, absent_multihashes(1, 5), 100, is_over)
        finding = asyncio.ensure_future(load)
        assert await indexer.last_applied(publishers.chains[0]) == ""
        is_over.set()
        assert (await finding).statuses.keys() <= {404}
        await indexer.stop()
        assert indexer.disk_bytes() > 0
        assert not indexer.server.is_alive


async def test_error_of_publishers_has_the_reason() -> None:
    with pytest.raises(Unavailable, match=r"exited before it served(.|\n)*brotli"):
        async with start_publishers("brotli", 1, 1, ChainShape(1, 1, 1)):
            pass


@pytest.mark.timeout(60)
async def test_error_of_a_store_program_is_the_last_line_of_its_output(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="the store unknown failed: KeyError: 'unknown'"):
        await run_store_program(tmp_path / "new", stores.__name__, "unknown", sys.executable, 1)


@pytest.mark.parametrize("kind", [ArgosyStore, RocksdictStore, SqliteStore])
def test_a_store_is_measured(tmp_path: Path, kind: type[DigestStore]) -> None:
    store = kind(tmp_path / "store")  # type: ignore[call-arg]
    values = measure_store(store, "seed", tmp_path / "store", 20_000)
    assert values.keys() == {"put", "put_cpu", "get_cpu", "disk"}
    assert values["disk"] > 32


def test_the_program_of_other_stores_imports_no_dependency_of_argosy() -> None:
    """LMDB runs in an environment without them: -S leaves out the packages of this one."""
    command = [sys.executable, "-S", "-c", f"import {PROGRAM}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment.process_environment())
    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_full_run_has_a_goal_for_growth() -> None:
    by_clock, by_cpu = figures.growth(FULL.millions, has_goal=FULL.has_growth_goal)
    assert (FULL.millions, by_clock.goal, by_cpu.goal) == (50, 0.7, None)
    assert figures.growth(QUICK.millions, has_goal=QUICK.has_growth_goal)[0].goal is None
