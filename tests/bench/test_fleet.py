"""The fleet bench from end to end, with small fleets of real processes: every figure is measured, and honestly."""

import asyncio
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web

from argosy.base.backends import servers
from argosy.base.backends.server_programs import ServerProgram
from argosy.base.backends.servers import Valkey
from argosy.base.errors import Invalid, Unavailable
from argosy.bench.fleet import catalog_import, figures, node_loss, origins, run
from argosy.bench.fleet.members import fleet_in, until
from argosy.bench.fleet.node_loss import Loss, Pace
from argosy.bench.fleet.origins import git_repository, identifiers, parts, small_repositories
from argosy.bench.fleet.query_load import Question, Seen, as_fast_as_they_go, at_rate, percentile, session, to_door
from argosy.bench.fleet.run import FULL, QUICK, Plan, fleet
from argosy.bench.fleet.traffic import count
from argosy.bench.harness import Bench
from tests.bench.search_tree import write_tree

TINY = Plan(
    corpus_bytes=10_000_000, words=12, overhead_words=3, rounds=1, load_s=0.2, repositories=4,
    pace=Pace(ttl_s=2.0, renew_s=0.5, window_s=1.0), large_parts=1, drains=1, nodes=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(run, "WARM_S", 0.1)
    monkeypatch.setattr(catalog_import, "AFTER_S", 0.1)
    monkeypatch.setattr(node_loss, "REPOSITORIES", 4)
    monkeypatch.setattr(origins, "own_environment", lambda: {"0-lib": tree})


async def measured(only: str) -> Bench:
    bench = Bench("fleet", is_quick=True, only=only)
    await fleet(bench)
    assert [(result.figure.id, result.error) for result in bench.results if result.value is None] == []
    return bench


def values(bench: Bench) -> dict[str, float | None]:
    return {result.figure.id: result.value for result in bench.results}


@pytest.mark.timeout(180)
async def test_a_fleet_is_asked_at_a_steady_rate_beside_ripgrep_and_beside_its_own_nodes(tmp_path: Path) -> None:
    bench = Bench("fleet", is_quick=True)
    await run.measure_answers(bench, TINY, parts(tmp_path / "corpus"), tmp_path)
    told = {result.figure.id: result.value or 0.0 for result in bench.results}
    assert told.keys() == {figure.id for figure in (*figures.LOADS, *figures.OVERHEADS)}
    assert told["load.errors"] == 0
    assert told["load.p50"] <= told["load.p95"] <= told["load.p99"]
    positive = ("load.door_cpu", "load.nodes_cpu", "overhead.direct_p50", "overhead.door_cpu")
    assert min(told[name] for name in positive) > 0
    throughput = next(result for result in bench.results if result.figure == figures.THROUGHPUT)
    assert throughput.peers["rg"] > 0
    assert [note for note in bench.notes if note.startswith("load: ") and "node-2" in note]


@pytest.mark.timeout(180)
async def test_what_is_imported_becomes_ready_and_the_stores_are_counted() -> None:
    bench = await measured("import.")
    told = values(bench)
    assert told.keys() == {figure.id for figure in (figures.import_ready(4), *figures.IMPORTS)}
    assert min(told["import.store_transactions"], told["import.registry_transactions"]) > 0
    assert bench.details["import_commands"]["store"]


@pytest.mark.timeout(180)
async def test_a_killed_node_is_missed_by_its_own_repositories_alone() -> None:
    bench = await measured("killed.alone")
    told = {result.figure.id: result for result in bench.results}
    assert told["killed.alone.failed_of_others"].value == 0
    back = told["killed.alone.back"]
    assert (back.value or 0.0) > 0
    assert (back.figure.goal or 0.0) >= TINY.pace.ttl_s + TINY.pace.window_s


@pytest.mark.timeout(180)
async def test_a_drained_node_hands_its_index_on() -> None:
    told = values(await measured("drain."))
    assert told.keys() == {figure.id for figure in figures.DRAINS}
    assert told["drain.received"] <= told["drain.successor_ready"]


async def test_without_the_servers_the_bench_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(server: ServerProgram, explicit: str | None = None) -> None:
        raise Invalid(f"no {server.title} found: run `make setup`")

    monkeypatch.setattr(servers, "find_program", missing)
    bench = Bench("fleet", is_quick=True, only="import.")
    await fleet(bench)
    assert {result.value for result in bench.results} == {None}
    assert all("run `make setup`" in str(result.error) for result in bench.results)


async def test_a_process_that_ends_is_told_with_its_log(tmp_path: Path) -> None:
    wrong = {"ownership_ttl_s": "never"}
    with fleet_in(tmp_path, wrong, nodes=1) as broken, pytest.raises(Unavailable, match=r"2(.|\n)*OWNERSHIP_TTL_S"):
        await broken.up()


async def test_what_does_not_come_about_is_given_up() -> None:
    with pytest.raises(Unavailable, match="waiting until pigs fly"):
        await until(lambda: False, 0.0, "pigs fly")


# -- asking ------------------------------------------------------------------------------------------------------------


async def answering(handler: web.RequestHandler) -> tuple[web.AppRunner, str]:
    application = web.Application()
    application.router.add_post("/v1/search", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return runner, f"{host}:{port}"


async def test_a_steady_rate_does_not_wait_for_answers_and_counts_from_the_instant_of_the_question() -> None:
    everybody_asks = asyncio.Event()
    asked = 0

    async def slow(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked == 10:
            everybody_asks.set()
        await everybody_asks.wait()  # nobody is answered before the last has asked
        return web.json_response({"missing": []})

    runner, address = await answering(slow)
    async with session() as opened:
        seen = await at_rate(opened, [to_door(address, "x")], per_s=200, seconds=0.05)
    await runner.cleanup()
    assert len(seen) == 10
    assert all(each.is_whole for each in seen)
    gaps = [later.asked_at - earlier.asked_at for earlier, later in pairwise(seen)]
    assert gaps == pytest.approx([1 / 200] * 9)
    assert seen[0].took_s > seen[-1].took_s


async def test_what_fails_or_is_answered_in_part_is_no_whole_answer() -> None:
    replies = iter([web.json_response({"missing": [{"repository": "a"}]}), web.json_response({}, status=503)])

    async def told(_: web.Request) -> web.Response:
        return next(replies, web.Response(text="no json"))

    runner, address = await answering(told)
    async with session() as opened:
        seen = await at_rate(opened, [to_door(address, "x")], per_s=50, seconds=0.04)
        odd = await at_rate(opened, [to_door(address, "x")], per_s=50, seconds=0.02)
        lost = await at_rate(opened, [Question("http://127.0.0.1:9/", b"", "")], per_s=50, seconds=0.02)
    await runner.cleanup()
    assert [(each.status, each.missing) for each in seen] == [(200, {"a"}), (503, set())]
    assert [each.status for each in (*odd, *lost)] == [0, 0]
    assert not any(each.is_whole for each in (*seen, *odd, *lost))


async def test_callers_ask_one_question_after_the_other() -> None:
    inside = most = 0

    async def told(_: web.Request) -> web.Response:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return web.json_response({"missing": []})

    runner, address = await answering(told)
    async with session() as opened:
        rate, seen = await as_fast_as_they_go(opened, [to_door(address, "x")], 0.05, callers=3)
    await runner.cleanup()
    assert 1 <= most <= 3
    assert rate > 0
    assert all(each.is_whole for each in seen)


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([5.0], 0.99) == 5.0
    assert [percentile(range(100), share) for share in (0.0, 0.5, 0.99, 1.0)] == [0, 50, 99, 99]


# -- judging -----------------------------------------------------------------------------------------------------------


def test_a_loss_tells_whose_repositories_were_missing_and_how_long() -> None:
    seen = [
        Seen(9.0, 0.1, 200),
        Seen(10.5, 0.1, 200, frozenset({"mine"})),
        Seen(11.0, 0.1, 200, frozenset({"mine", "theirs"})),
        Seen(11.5, 0.1, 503),
        Seen(13.0, 0.1, 200, frozenset({"mine"})),
        Seen(14.0, 0.1, 200),
    ]
    loss = Loss(10.0, frozenset({"mine"}), seen, 0.5)
    assert loss.failed == seen[1:5]
    assert loss.failed_of_others == [seen[2], seen[3]]
    assert loss.back_s == 3.0
    assert Loss(10.0, frozenset(), seen[:1], 0.0).back_s == 0.0


def test_fewer_repositories_are_given_less_time() -> None:
    assert figures.import_ready(500).goal == 240
    assert figures.import_ready(100).goal == 48
    assert (FULL.repositories, QUICK.repositories, FULL.nodes, QUICK.nodes) == (500, 100, 4, 4)
    assert (figures.P99.goal, figures.RATE_PER_S) == (100, 200)


async def test_a_server_tells_what_it_was_asked_to_do() -> None:
    with Valkey() as server:
        before = await count(server)
        after = await count(server)
        assert after.since(before)["info"] == 1
        assert after.transactions_per_s(before) == 0
        assert after.commands_per_s(before) > 0


# -- origins -----------------------------------------------------------------------------------------------------------


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_corpus_is_cut_into_parts_and_loses_nothing(tmp_path: Path) -> None:
    found = parts(tmp_path / "corpus", count=3)
    everything = {name.partition("/")[2]: data for name, data in files_below(found.folder).items()}
    text = {name: data for name, data in files_below(tmp_path / "tree").items() if b"\0" not in data}
    assert everything == {f"0-lib/{name}": data for name, data in text.items()}
    assert sum(map(len, everything.values())) == found.text_bytes
    assert {path.name for path in found.folder.iterdir()} == set(found.names)
    assert len(parts(tmp_path / "less", bytes_max=found.text_bytes // 2, count=3).names) >= 1


def test_identifiers_are_words_of_the_text_and_always_the_same(tmp_path: Path) -> None:
    words = identifiers(tmp_path / "tree", 5)
    text = b"".join(files_below(tmp_path / "tree").values())
    assert words == identifiers(tmp_path / "tree", 5)
    assert 1 <= len(words) <= 5
    assert all(word.encode() in text for word in words)


def test_repositories_are_real_ones(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / 'a "quoted" näme.txt').write_bytes(b"no newline")
    git_repository(tmp_path / "odd.git", odd)
    wishes = [*small_repositories(tmp_path / "small", 2), {"url": str(tmp_path / "odd.git")}]
    for wish in wishes:
        subprocess.run(["git", "clone", "-q", str(wish["url"]), "clone"], cwd=tmp_path, check=True)
        (tmp_path / "clone").rename(tmp_path / f"clone-{Path(str(wish['url'])).stem}")
    assert "def moor_1(" in (tmp_path / "clone-ship-001/src/ship.py").read_text()
    assert files_below(odd).items() <= files_below(tmp_path / "clone-odd").items()
