"""The fleet benchmark end to end, with small fleets of real processes."""

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
from argosy.bench.fleet import catalog_import, departures, figures, repositories, run
from argosy.bench.fleet.catalog_import import read_counts
from argosy.bench.fleet.departures import FailoverSettings, NodeLoss
from argosy.bench.fleet.fleet_processes import start_fleet
from argosy.bench.fleet.query_load import (
    LoadQuery,
    QueryResult,
    gateway_query,
    open_connections,
    run_at_full_speed,
    run_at_rate,
)
from argosy.bench.fleet.repositories import create_repository, sample_identifiers, small_repositories, split_corpus
from argosy.bench.fleet.run import FULL, QUICK, FleetSizes, fleet
from argosy.bench.harness import Bench
from argosy.bench.processes import wait_until
from tests.bench.search_tree import write_tree

TINY = FleetSizes(
    corpus_bytes=10_000_000, words=12, overhead_words=3, rounds=1, load_s=0.2, repositories=4,
    failover=FailoverSettings(ttl_s=2.0, renew_s=0.5, window_s=1.0), large_parts=1, drains=1, nodes=2,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(run, "WARM_S", 0.1)
    monkeypatch.setattr(catalog_import, "IDLE_S", 0.1)
    monkeypatch.setattr(departures, "REPOSITORIES", 4)
    monkeypatch.setattr(repositories, "environment_roots", lambda: {"0-lib": tree})


async def measure(only: str) -> Bench:
    bench = Bench("fleet", is_quick=True, only=only)
    await fleet(bench)
    assert [(result.figure.id, result.error) for result in bench.results if result.value is None] == []
    return bench


def values(bench: Bench) -> dict[str, float | None]:
    return {result.figure.id: result.value for result in bench.results}


@pytest.mark.timeout(180)
async def test_load_and_overhead_are_measured_beside_ripgrep_and_the_nodes(tmp_path: Path) -> None:
    bench = Bench("fleet", is_quick=True)
    await run.measure_latencies(bench, TINY, split_corpus(tmp_path / "corpus"), tmp_path)
    measured = {result.figure.id: result.value or 0.0 for result in bench.results}
    assert measured.keys() == {figure.id for figure in (*figures.LOADS, *figures.OVERHEADS)}
    assert measured["load.errors"] == 0
    assert measured["load.p50"] <= measured["load.p95"] <= measured["load.p99"]
    positive = ("load.gateway_cpu", "load.nodes_cpu", "overhead.direct_p50", "overhead.gateway_cpu")
    assert min(measured[name] for name in positive) > 0
    throughput = next(result for result in bench.results if result.figure == figures.THROUGHPUT)
    assert throughput.peers["rg"] > 0
    assert [note for note in bench.notes if note.startswith("load: ") and "node-2" in note]


@pytest.mark.timeout(180)
async def test_an_import_becomes_ready_and_commands_are_counted() -> None:
    bench = await measure("import.")
    measured = values(bench)
    assert measured.keys() == {figure.id for figure in (figures.import_ready(4), *figures.IMPORTS)}
    assert min(measured["import.store_transactions"], measured["import.registry_transactions"]) > 0
    assert bench.details["import_commands"]["store"]


@pytest.mark.timeout(180)
async def test_a_killed_node_affects_only_its_own_repositories() -> None:
    bench = await measure("killed.alone")
    measured = {result.figure.id: result for result in bench.results}
    assert measured["killed.alone.failed_of_others"].value == 0
    back = measured["killed.alone.back"]
    assert (back.value or 0.0) > 0
    assert (back.figure.goal or 0.0) >= TINY.failover.ttl_s + TINY.failover.window_s


@pytest.mark.timeout(180)
async def test_a_drained_node_hands_off_its_index() -> None:
    measured = values(await measure("drain."))
    assert measured.keys() == {figure.id for figure in figures.DRAINS}
    assert measured["drain.received"] <= measured["drain.successor_ready"]


async def test_without_the_servers_the_figures_have_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(server: ServerProgram, explicit: str | None = None) -> None:
        raise Invalid(f"no {server.title} found: run `make setup`")

    monkeypatch.setattr(servers, "find_program", missing)
    bench = Bench("fleet", is_quick=True, only="import.")
    await fleet(bench)
    assert {result.value for result in bench.results} == {None}
    assert all("run `make setup`" in str(result.error) for result in bench.results)


async def test_error_of_a_process_that_exits_has_its_log(tmp_path: Path) -> None:
    wrong = {"ownership_ttl_s": "never"}
    with start_fleet(tmp_path, wrong, nodes=1) as broken, pytest.raises(Unavailable, match=r"2(.|\n)*OWNERSHIP_TTL_S"):
        await broken.wait_up()


async def test_waiting_times_out() -> None:
    with pytest.raises(Unavailable, match="waiting until pigs fly"):
        await wait_until(lambda: False, 0.0, "pigs fly")


# -- load --------------------------------------------------------------------------------------------------------------


async def serve_handler(handler: web.RequestHandler) -> tuple[web.AppRunner, str]:
    application = web.Application()
    application.router.add_post("/v1/search", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    return runner, f"{host}:{port}"


async def test_a_steady_rate_does_not_wait_for_responses_and_counts_from_the_scheduled_instant() -> None:
    all_sent = asyncio.Event()
    received = 0

    async def slow(_: web.Request) -> web.Response:
        nonlocal received
        received += 1
        if received == 10:
            all_sent.set()
        await all_sent.wait()  # no response before the last request
        return web.json_response({"missing": []})

    runner, address = await serve_handler(slow)
    async with open_connections() as connections:
        seen = await run_at_rate(connections, [gateway_query(address, "x")], per_s=200, seconds=0.05)
    await runner.cleanup()
    assert len(seen) == 10
    assert all(each.is_complete for each in seen)
    gaps = [later.started_at - earlier.started_at for earlier, later in pairwise(seen)]
    assert gaps == pytest.approx([1 / 200] * 9)
    assert seen[0].took_s > seen[-1].took_s


async def test_errors_and_partial_results_are_not_complete() -> None:
    replies = iter([web.json_response({"missing": [{"repository": "a"}]}), web.json_response({}, status=503)])

    async def respond(_: web.Request) -> web.Response:
        return next(replies, web.Response(text="no json"))

    runner, address = await serve_handler(respond)
    async with open_connections() as connections:
        seen = await run_at_rate(connections, [gateway_query(address, "x")], per_s=50, seconds=0.04)
        odd = await run_at_rate(connections, [gateway_query(address, "x")], per_s=50, seconds=0.02)
        lost = await run_at_rate(connections, [LoadQuery("http://127.0.0.1:9/", b"", "")], per_s=50, seconds=0.02)
    await runner.cleanup()
    assert [(each.status, each.missing) for each in seen] == [(200, {"a"}), (503, set())]
    assert [each.status for each in (*odd, *lost)] == [0, 0]
    assert not any(each.is_complete for each in (*seen, *odd, *lost))


async def test_callers_send_one_query_after_the_other() -> None:
    inside = most = 0

    async def respond(_: web.Request) -> web.Response:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return web.json_response({"missing": []})

    runner, address = await serve_handler(respond)
    async with open_connections() as connections:
        rate, seen = await run_at_full_speed(connections, [gateway_query(address, "x")], 0.05, callers=3)
    await runner.cleanup()
    assert 1 <= most <= 3
    assert rate > 0
    assert all(each.is_complete for each in seen)


# -- results -----------------------------------------------------------------------------------------------------------


def test_a_node_loss_has_failures_of_its_own_and_of_other_repositories() -> None:
    seen = [
        QueryResult(9.0, 0.1, 200),
        QueryResult(10.5, 0.1, 200, frozenset({"mine"})),
        QueryResult(11.0, 0.1, 200, frozenset({"mine", "theirs"})),
        QueryResult(11.5, 0.1, 503),
        QueryResult(13.0, 0.1, 200, frozenset({"mine"})),
        QueryResult(14.0, 0.1, 200),
    ]
    loss = NodeLoss(10.0, frozenset({"mine"}), seen, 0.5)
    assert loss.failures == seen[1:5]
    assert loss.unrelated_failures == [seen[2], seen[3]]
    assert loss.outage_s == 3.0
    assert NodeLoss(10.0, frozenset(), seen[:1], 0.0).outage_s == 0.0


def test_goal_of_the_import_is_in_proportion_to_the_repositories() -> None:
    assert figures.import_ready(500).goal == 240
    assert figures.import_ready(100).goal == 48
    assert (FULL.repositories, QUICK.repositories, FULL.nodes, QUICK.nodes) == (500, 100, 4, 4)
    assert (figures.P99.goal, figures.RATE_PER_S) == (100, 200)


async def test_a_server_counts_its_commands() -> None:
    with Valkey() as server:
        before = await read_counts(server)
        after = await read_counts(server)
        assert after.since(before)["info"] == 1
        assert after.transactions_per_s(before) == 0
        assert after.commands_per_s(before) > 0


# -- repositories ------------------------------------------------------------------------------------------------------


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_corpus_is_split_into_parts_and_loses_nothing(tmp_path: Path) -> None:
    found = split_corpus(tmp_path / "corpus", count=3)
    all_files = {name.partition("/")[2]: data for name, data in files_below(found.directory).items()}
    text = {name: data for name, data in files_below(tmp_path / "tree").items() if b"\0" not in data}
    assert all_files == {f"0-lib/{name}": data for name, data in text.items()}
    assert sum(map(len, all_files.values())) == found.text_bytes
    assert {path.name for path in found.directory.iterdir()} == set(found.names)
    assert len(split_corpus(tmp_path / "less", bytes_max=found.text_bytes // 2, count=3).names) >= 1


def test_identifiers_are_words_of_the_text_and_deterministic(tmp_path: Path) -> None:
    words = sample_identifiers(tmp_path / "tree", 5)
    text = b"".join(files_below(tmp_path / "tree").values())
    assert words == sample_identifiers(tmp_path / "tree", 5)
    assert 1 <= len(words) <= 5
    assert all(word.encode() in text for word in words)


def test_repositories_can_be_cloned(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / 'a "quoted" näme.txt').write_bytes(b"no newline")
    create_repository(tmp_path / "odd.git", odd)
    specs = [*small_repositories(tmp_path / "small", 2), {"url": str(tmp_path / "odd.git")}]
    for spec in specs:
        subprocess.run(["git", "clone", "-q", str(spec["url"]), "clone"], cwd=tmp_path, check=True)
        (tmp_path / "clone").rename(tmp_path / f"clone-{Path(str(spec['url'])).stem}")
    assert "def moor_1(" in (tmp_path / "clone-ship-001/src/ship.py").read_text()
    assert files_below(odd).items() <= files_below(tmp_path / "clone-odd").items()
