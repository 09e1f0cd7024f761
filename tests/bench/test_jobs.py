"""The jobs bench from end to end with small runs: real processes, a real folder, and rivals that really race."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.base.backends.servers import Valkey
from argosy.base.errors import Invalid, Unavailable
from argosy.bench.harness import Bench
from argosy.bench.jobs import due_latency, figures, peers, queue_race, run, waiting_jobs
from argosy.bench.jobs.broker import broker_in
from argosy.bench.jobs.contenders.protocol import Count
from argosy.bench.jobs.enqueue_rate import as_fast_as_they_go
from argosy.bench.jobs.queue_race import Contender
from argosy.bench.jobs.run import FULL, QUICK, Plan, jobs
from argosy.jobs import JobsClient
from argosy.jobs.sdk.links import SILO, GrpcLinks, RpcMethod
from argosy.jobs.silo import silo_pb2 as silo

TINY = Plan(
    enqueue_s=0.1, lone=3, raced=20, races=1, due=5, pollers=20, polls=1, waiting=3_000, leases=5, openings=1,
    noisy=300, quiet=2, fairs=1, schedules=50, firings=1,
)  # fmt: skip

FLUSH = RpcMethod(SILO, "FlushShard", silo.FlushShardResponse)

# A contender whose worker runs a job for each line in a file, which its producer writes.
RIVAL = """
import pathlib, sys, time
from argosy.bench.jobs.contenders.protocol import BEGAN, COUNT, main, say
place = pathlib.Path(__file__).with_suffix(".jobs")
def work(url):
    place.touch()
    seen = 0
    while True:
        there = place.read_text().count("\\n")
        for _ in range(there - seen):
            COUNT.one()
        seen = there
        time.sleep(0.01)
def produce(url, jobs):
    say(BEGAN)
    with place.open("a") as file:
        file.write("job\\n" * jobs)
main(work, produce)
"""


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(figures, "FEW", 500)
    monkeypatch.setattr(due_latency, "SETTLE_S", 0.1)


async def measured(only: str) -> dict[str, float]:
    bench = Bench("jobs", is_quick=True, only=only)
    await jobs(bench)
    assert [(result.figure.id, result.error) for result in bench.results if result.value is None] == []
    return {result.figure.id: result.value or 0.0 for result in bench.results}


@pytest.mark.timeout(120)
async def test_the_broker_is_ready_when_every_shard_answers(tmp_path: Path) -> None:
    """A call that is not repeated, as the benchmark sends it: it must not find a shard that is still being opened."""
    async with broker_in(tmp_path / "broker", jobs_shards=64) as (_, address), JobsClient.connect(address) as client:
        links = GrpcLinks()
        shards = await client.shards()
        for place in shards:
            request = silo.FlushShardRequest(shard=place.id)
            await links.link(place.address).call(FLUSH, request, timeout_s=10.0, headers={})
        await links.close()
    assert len(shards) == 64


@pytest.mark.timeout(120)
async def test_jobs_are_put_in_batches_and_one_by_one() -> None:
    told = await measured("enqueue.")
    assert told.keys() == {figure.id for figure in figures.ENQUEUES}
    assert min(told.values()) > 0
    assert told["enqueue.batches_cpu"] < told["enqueue.single_cpu"]


async def test_jobs_of_callers_that_wait_side_by_side_are_all_counted() -> None:
    class Idle:
        """A process that has used a second of CPU each time one looks."""

        seconds = 0.0

        @property
        def cpu_s(self) -> float:
            self.seconds += 1.0
            return self.seconds

    put_jobs = 0

    async def put() -> int:
        nonlocal put_jobs
        await asyncio.sleep(0)
        put_jobs += 3
        return 3

    rate, cpu_us = await as_fast_as_they_go(Idle(), put, 10, 0.05)
    assert put_jobs * cpu_us == pytest.approx(1e6)
    assert 0 < rate <= put_jobs / 0.05


@pytest.mark.timeout(120)
async def test_due_jobs_reach_workers_that_wait() -> None:
    told = await measured("due.")
    assert told.keys() == {"due.p50", "due.p99"}
    assert told["due.p50"] <= told["due.p99"]


@pytest.mark.timeout(120)
async def test_a_quiet_tenant_is_served_beside_a_noisy_one() -> None:
    assert (await measured("noisy."))["noisy.start"] > 0


@pytest.mark.timeout(120)
async def test_schedules_of_a_shard_fire_when_they_are_due() -> None:
    found = await measured("schedules.")
    assert found.keys() == {figure.id for figure in figures.SCHEDULES}
    assert min(found["schedules.rate"], found["schedules.cpu"]) > 0


@pytest.mark.timeout(120)
async def test_a_shard_with_many_waiting_jobs_is_opened_and_leased_from() -> None:
    told = await measured("waiting.")
    assert told.keys() == {figures.opened(3_000).id, *(figure.id for figure in figures.WAITS)}
    assert told["waiting.lease_times"] == pytest.approx(told["waiting.lease_many"] / told["waiting.lease_few"])


async def test_a_shard_that_cannot_be_filled_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(Unavailable, match=r"failed at `fill`(.|\n)*file"):
        await waiting_jobs.program("fill", tmp_path / "file", 1)


@pytest.mark.timeout(120)
async def test_without_peers_we_race_alone_and_the_bench_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise Unavailable("the peers cannot be installed: no network")

    monkeypatch.setattr(peers, "environment", missing)
    bench = Bench("jobs", is_quick=True, only="complete.")
    await jobs(bench)
    rate, times = bench.results
    assert (rate.value or 0) > 0
    assert rate.peers == {}
    assert times.value is None
    assert "no peer to compare with" in str(times.error)
    assert "arq, celery, dramatiq, rq: not measured, the peers cannot be installed: no network" in bench.notes


def rival_in(folder: Path, text: str, url: str) -> Contender:
    """A contender whose program is this text."""
    package = folder / "rivals"
    package.mkdir()
    (package / "with_rival.py").write_text(text)
    python = package / "python"
    # It runs the program in place of the module that it is asked for.
    python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" "{package}/with_rival.py" "$@"\n')
    python.chmod(0o755)
    return Contender("rival", str(python), url, os.environ, folder)


async def test_a_rival_is_timed_from_its_first_put_to_its_last_job(tmp_path: Path) -> None:
    with Valkey() as valkey:
        told = await queue_race.race(rival_in(tmp_path, RIVAL, valkey.url), 50)
    assert told[figures.COMPLETED.id] > 0


async def test_a_rival_that_breaks_is_told_with_what_it_said(tmp_path: Path) -> None:
    with Valkey() as valkey, pytest.raises(Unavailable, match=r"rival: its produce process ended(.|\n)*out of rum"):
        await queue_race.race(rival_in(tmp_path, "raise SystemExit('out of rum')", valkey.url), 1)


def test_the_first_job_shows_that_a_worker_works_and_the_last_that_it_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = Count()
    count.expect(2)
    said = []
    for _ in range(3):
        count.one()
        said.append(capsys.readouterr().out.partition(" ")[0])
    assert said == ["ready", "", "done"]


def test_peers_are_installed_from_pinned_wheels_only_in_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="only a checkout"):
        peers.environment(tmp_path / "peers", tmp_path / "absent.txt")
    pinned = [line for line in peers.LOCK.read_text().splitlines() if "==" in line]
    assert {line.partition("==")[0] for line in pinned} >= set(peers.NAMES)
    assert peers.LOCK.read_text().count("--hash=") >= len(pinned)


def test_an_environment_is_made_once_and_what_is_missing_in_it_is_known(tmp_path: Path) -> None:
    lock = tmp_path / "none.txt"
    lock.write_text("# nobody\n")
    python = peers.environment(tmp_path / "peers", lock)
    made = python.lstat().st_mtime_ns
    assert peers.environment(tmp_path / "peers", lock) == python
    assert python.lstat().st_mtime_ns == made
    assert peers.versions(python) == {}
    lock.write_text("no-such-thing-anywhere @ file:///absent\n")
    with pytest.raises(Unavailable, match="cannot be installed"):
        peers.environment(tmp_path / "peers", lock)


def test_the_programs_of_rivals_need_nothing_of_ours() -> None:
    """They run where our dependencies are not."""
    code = "import sys, argosy.bench.jobs.contenders.protocol; print(*sorted(m for m in sys.modules if 'argosy' in m))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [
        "argosy",
        "argosy.bench",
        "argosy.bench.jobs",
        "argosy.bench.jobs.contenders",
        "argosy.bench.jobs.contenders.protocol",
    ]


def test_fewer_waiting_jobs_are_given_less_time() -> None:
    assert figures.opened(1_000_000).goal == 15
    assert figures.opened(100_000).goal == pytest.approx(1.5)
    assert (FULL.waiting, FULL.noisy, FULL.pollers, QUICK.pollers) == (1_000_000, 100_000, 1_000, 1_000)
