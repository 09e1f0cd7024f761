"""The bench of the content index from end to end with small runs: real processes, real stores, real HTTP."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench
from argosy.bench.ipni import chains, digests, figures, gateway_overhead, growth, ingest_rate, run, store_program
from argosy.bench.ipni.chains import Shape
from argosy.bench.ipni.find_load import Asked, as_fast_as_they_go, ask_in_turn, at_rate, requests
from argosy.bench.ipni.members import indexer_in, publishers
from argosy.bench.ipni.run import FULL, QUICK, Plan, ipni
from argosy.bench.ipni.store_rate import program
from argosy.bench.jobs import peers
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.entries import decode_chunk

TINY = Plan(
    cbor=Shape(2, 2, 256), json=Shape(1, 2, 256), ingests=1, found=Shape(1, 1, 256), find_s=0.2, stored=20_000,
    stores=1, millions=2, chunk=128, has_growth_goal=False, spread=24, spreads=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(ingest_rate, "FINDS_PER_S", 200)
    monkeypatch.setattr(growth, "MILLION_CHUNKS", 2)
    monkeypatch.setattr(figures, "FAN_OUT", 3)
    monkeypatch.setattr(gateway_overhead, "CALM", 5)
    monkeypatch.setattr(gateway_overhead, "PASSED_OVER_S", 0.5)


async def measured(only: str) -> tuple[dict[str, float], Bench]:
    bench = Bench("ipni", is_quick=True, only=only)
    await ipni(bench)
    assert [(result.figure.id, result.error) for result in bench.results if result.value is None] == []
    return {result.figure.id: result.value or 0.0 for result in bench.results}, bench


@pytest.mark.timeout(120)
@pytest.mark.parametrize("codec", ["cbor", "json"])
async def test_chains_are_taken_in_while_somebody_asks(codec: str) -> None:
    told, bench = await measured(f"ingest.{codec}")
    assert told.keys() == {figure.id for figure in figures.ingest(codec)}
    assert min(told.values()) > 0
    assert told[f"ingest.{codec}_find_p50"] <= told[f"ingest.{codec}_find_p99"]
    assert any(f"ingest.{codec}: " in note for note in bench.notes)


@pytest.mark.timeout(120)
async def test_finds_are_counted_on_one_core() -> None:
    told, _ = await measured("find.")
    assert told.keys() == {figure.id for figure in figures.FINDS}
    assert min(told.values()) > 0


@pytest.mark.timeout(120)
async def test_the_store_is_measured_beside_others_and_who_cannot_be_had_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> Path:
        raise Unavailable("the peers cannot be installed: no network")

    monkeypatch.setattr(peers, "environment", missing)
    told, bench = await measured("store.")
    assert told.keys() == {figure.id for figure in figures.STORES}
    assert {name for result in bench.results for name in result.peers} == {"rocksdict", "sqlite"}
    assert "lmdb: not measured, the peers cannot be installed: no network" in bench.notes


@pytest.mark.timeout(120)
async def test_growth_is_the_rate_at_the_end_beside_that_at_the_start() -> None:
    told, bench = await measured("growth.")
    assert told.keys() == {figure.id for figure in figures.grown(2, has_goal=False)}
    assert min(told.values()) > 0
    assert any("bytes on disk" in note for note in bench.notes)


@pytest.mark.timeout(180)
async def test_a_gateway_is_measured_whole_and_with_indexers_in_trouble() -> None:
    told, _ = await measured("door.")
    assert told.keys() == {figure.id for figure in (*figures.SPREADS, *figures.LOSSES)}
    assert told["door.added_p50"] == pytest.approx(told["door.spread_p50"] - told["door.direct_p50"])
    assert min(told[f"door.{how}"] for how in ("whole_p99", "stalled_p99", "dead_p99")) > 0


def test_a_chain_holds_what_its_seed_says() -> None:
    chain = chains.made(7, Shape(2, 3, 4), "json")
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
    assert sorted(found) == sorted(each for number in range(6) for each in digests.chunk(7, number, 4))


def test_no_two_chunks_share_a_multihash_and_what_is_absent_is_in_none() -> None:
    drawn = [digests.chunk(seed, number, 50) for seed in (1, 2) for number in range(3)]
    drawn += [digests.absent(seed, 50) for seed in (1, 2)]
    assert len({each for part in drawn for each in part}) == len(drawn) * 50
    assert digests.chunk(1, 0, 50)[:7] == digests.chunk(1, 0, 7)


def test_finds_that_hit_too_often_or_fail_are_no_measurement() -> None:
    for statuses in ({200: 10}, {200: 5, 404: 4, 503: 1}, {0: 10}):
        asked = Asked([0.1] * 10)
        asked.statuses.update(statuses)
        with pytest.raises(Unavailable, match="were answered with"):
            asked.check()
    fine = Asked([0.1] * 11)
    fine.statuses.update({200: 6, 404: 5})
    fine.check()


@pytest.fixture
async def odd_server() -> AsyncIterator[str]:
    """Answers in two pieces, without a length when asked for 1220aa, and hangs up when asked for 1220bb."""

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


async def test_answers_in_pieces_are_whole_answers(odd_server: str) -> None:
    asks = requests(odd_server, [b"\x12\x20\x01", b"\x12\x20\x02"])
    asked = await asyncio.to_thread(ask_in_turn, odd_server, asks, 5)
    assert (len(asked.took_s), dict(asked.statuses)) == (5, {404: 5})
    asked = await asyncio.to_thread(as_fast_as_they_go, odd_server, asks, 0.1, 3)
    assert asked.statuses.keys() == {404}
    assert asked.rate > 0


@pytest.mark.parametrize(("name", "why"), [("aa", "does not tell its length"), ("bb", "was closed")])
async def test_what_is_no_answer_is_an_error(odd_server: str, name: str, why: str) -> None:
    asks = requests(odd_server, [bytes.fromhex(f"1220{name}")])
    with pytest.raises(Unavailable, match=why):
        await asyncio.to_thread(ask_in_turn, odd_server, asks, 1)


@pytest.mark.timeout(120)
async def test_an_indexer_that_refuses_or_stops_is_told(tmp_path: Path) -> None:
    async with (
        publishers("cbor", 1, 1, Shape(1, 1, 8)) as served,
        indexer_in(tmp_path, ipni_allow="false") as indexer,
    ):
        with pytest.raises(Unavailable, match="answered with 403"):
            await indexer.take(served.chains[0])
        over = asyncio.Event()
        asking = asyncio.ensure_future(at_rate(indexer.session, indexer.url, digests.absent(1, 5), 100, over))
        assert await indexer.applied(served.chains[0]) == ""
        over.set()
        assert (await asking).statuses.keys() <= {404}
        await indexer.stop()
        assert indexer.disk_bytes() > 0
        assert not indexer.member.is_alive


async def test_publishers_that_cannot_be_made_say_why() -> None:
    with pytest.raises(Unavailable, match=r"ended before they served(.|\n)*brotli"):
        async with publishers("brotli", 1, 1, Shape(1, 1, 1)):
            pass


@pytest.mark.timeout(60)
async def test_a_store_that_fails_is_told_by_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="the store nobody failed: KeyError: 'nobody'"):
        await program(tmp_path / "new", "nobody", sys.executable, 1)


@pytest.mark.parametrize("name", ["argosy", "rocksdict", "sqlite"])
def test_a_store_tells_what_it_took(tmp_path: Path, name: str) -> None:
    told = store_program.measured(name, tmp_path / "store", 20_000)
    assert told.keys() == {"put", "put_cpu", "get_cpu", "disk"}
    assert told["disk"] > 32


def test_the_programs_of_other_stores_need_nothing_of_ours() -> None:
    """They run where our dependencies are not."""
    code = "import sys, argosy.bench.ipni.store_program; print(*sorted(m for m in sys.modules if 'argosy' in m))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["argosy", "argosy.bench", "argosy.bench.ipni", "argosy.bench.ipni.store_program"]


def test_only_the_full_run_has_a_goal_for_growth() -> None:
    by_clock, by_cpu = figures.grown(FULL.millions, has_goal=FULL.has_growth_goal)
    assert (FULL.millions, by_clock.goal, by_cpu.goal) == (50, 0.7, None)
    assert figures.grown(QUICK.millions, has_goal=QUICK.has_growth_goal)[0].goal is None
