"""The jobs benchmark end to end with small runs: real processes, a real directory, and a queue that really races."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.base.backends.servers import Valkey
from argosy.base.errors import Invalid, Unavailable
from argosy.bench import harness
from argosy.bench.harness import Bench
from argosy.bench.jobs import figures, large_shard, queue_race, run, start_latency
from argosy.bench.jobs.broker import start_broker
from argosy.bench.jobs.enqueue_rate import enqueue_at_full_speed
from argosy.bench.jobs.queue_race import RacingQueue
from argosy.bench.jobs.race_program import JobCounter
from argosy.bench.jobs.run import FULL, QUICK, JobsSizes, jobs
from argosy.jobs import JobsClient
from argosy.jobs.sdk.links import SILO, GrpcLinks, RpcMethod
from argosy.jobs.silo import silo_pb2 as silo
from bench.peers import environment

TINY = JobsSizes(
    enqueue_s=0.1, lone=3, raced=20, races=1, due=5, pollers=20, polls=1, waiting=3_000, leases=5, openings=1,
    noisy=300, quiet=2, fairs=1, schedules=50, firings=1,
)  # fmt: skip

FLUSH = RpcMethod(SILO, "FlushShard", silo.FlushShardResponse)

# A queue whose worker runs a job for each line of a file, which its producer writes.
FILE_QUEUE = """
import pathlib, sys, time
from argosy.bench.jobs.race_program import COUNTER, STARTED, report, run
file = pathlib.Path(__file__).with_suffix(".jobs")
def work(url):
    file.touch()
    done = 0
    while True:
        lines = file.read_text().count("\\n")
        for _ in range(lines - done):
            COUNTER.count()
        done = lines
        time.sleep(0.01)
def produce(url, jobs):
    report(STARTED)
    with file.open("a") as stream:
        stream.write("job\\n" * jobs)
run(sys.argv[2], sys.argv[3], int(sys.argv[4]), work, produce)
"""


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)
    monkeypatch.setattr(figures, "FEW", 500)
    monkeypatch.setattr(start_latency, "SETTLE_S", 0.1)


async def measure(only: str) -> dict[str, float]:
    bench = Bench("jobs", is_quick=True, only=only)
    await jobs(bench)
    assert [(result.figure.id, result.error) for result in bench.results if result.value is None] == []
    return {result.figure.id: result.value or 0.0 for result in bench.results}


@pytest.mark.timeout(120)
async def test_the_broker_is_ready_when_every_shard_answers(tmp_path: Path) -> None:
    """A call without retries, as the benchmark sends it: it must not reach a shard that is still being opened."""
    async with start_broker(tmp_path / "broker", jobs_shards=64) as (_, address), JobsClient.connect(address) as client:
        links = GrpcLinks()
        shards = await client.shards()
        for place in shards:
            request = silo.FlushShardRequest(shard=place.id)
            await links.link(place.address).call(FLUSH, request, timeout_s=10.0, headers={})
        await links.close()
    assert len(shards) == 64


@pytest.mark.timeout(120)
async def test_jobs_are_enqueued_in_batches_and_one_by_one() -> None:
    values = await measure("enqueue.")
    assert values.keys() == {figure.id for figure in figures.ENQUEUES}
    assert min(values.values()) > 0
    assert values["enqueue.batches_cpu"] < values["enqueue.single_cpu"]


async def test_jobs_of_concurrent_callers_are_all_counted() -> None:
    class FakeProcess:
        """Has used another second of CPU each time it is read."""

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

    rate, cpu_us = await enqueue_at_full_speed(FakeProcess(), put, 10, 0.05)
    assert put_jobs * cpu_us == pytest.approx(1e6)
    assert 0 < rate <= put_jobs / 0.05


@pytest.mark.timeout(120)
async def test_due_jobs_reach_waiting_workers() -> None:
    values = await measure("due.")
    assert values.keys() == {"due.p50", "due.p99"}
    assert values["due.p50"] <= values["due.p99"]


@pytest.mark.timeout(120)
async def test_a_quiet_tenant_is_served_beside_a_noisy_one() -> None:
    assert (await measure("noisy."))["noisy.start"] > 0


@pytest.mark.timeout(120)
async def test_schedules_of_a_shard_fire_when_they_are_due() -> None:
    found = await measure("schedules.")
    assert found.keys() == {figure.id for figure in figures.SCHEDULES}
    assert min(found["schedules.rate"], found["schedules.cpu"]) > 0


@pytest.mark.timeout(120)
async def test_a_shard_with_many_waiting_jobs_is_opened_and_leased_from() -> None:
    values = await measure("waiting.")
    assert values.keys() == {figures.open_time(3_000).id, *(figure.id for figure in figures.WAITS)}
    assert values["waiting.lease_times"] == pytest.approx(values["waiting.lease_many"] / values["waiting.lease_few"])


async def test_error_of_a_shard_program_has_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(Unavailable, match=r"'fill' failed(.|\n)*file"):
        await large_shard.run_shard_program("fill", tmp_path / "file", 1)


@pytest.mark.timeout(120)
async def test_without_an_environment_for_the_peers_only_argosy_races(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise Unavailable("the peers cannot be installed: no network")

    monkeypatch.setattr(environment, "ensure_environment", fail)
    bench = Bench("jobs", is_quick=True, only="complete.")
    await jobs(bench)
    rate, times = bench.results
    assert (rate.value or 0) > 0
    assert rate.peers == {}
    assert times.value is None
    assert "no peer was measured" in str(times.error)
    assert "arq, celery, dramatiq, rq: not measured, the peers cannot be installed: no network" in bench.notes


def queue_with_program(directory: Path, text: str, url: str) -> RacingQueue:
    """A queue whose program is this text."""
    (directory / "queue_program.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), str(harness.SOURCE)])}
    return RacingQueue("other", sys.executable, "queue_program", url, environment, directory)


async def test_a_queue_is_timed_from_its_first_enqueue_to_its_last_job(tmp_path: Path) -> None:
    with Valkey() as valkey:
        values = await queue_race.run_race(queue_with_program(tmp_path, FILE_QUEUE, valkey.url), 50)
    assert values[figures.COMPLETED.id] > 0


async def test_error_of_a_queue_has_its_error_output(tmp_path: Path) -> None:
    with (
        Valkey() as valkey,
        pytest.raises(Unavailable, match=r"other: its produce process exited(.|\n)*no such server"),
    ):
        await queue_race.run_race(queue_with_program(tmp_path, "raise SystemExit('no such server')", valkey.url), 1)


def test_the_first_job_shows_that_a_worker_works_and_the_last_that_it_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counter = JobCounter()
    counter.expect(2)
    reported = []
    for _ in range(3):
        counter.count()
        reported.append(capsys.readouterr().out.partition(" ")[0])
    assert reported == ["ready", "", "done"]


def test_peers_are_installed_from_pinned_wheels_only_in_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="only a checkout"):
        environment.ensure_environment(tmp_path / "peers", tmp_path / "absent.txt")
    pinned = [line for line in environment.LOCK.read_text().splitlines() if "==" in line]
    assert {line.partition("==")[0] for line in pinned} >= set(environment.NAMES)
    assert environment.LOCK.read_text().count("--hash=") >= len(pinned)


def test_environment_is_created_once_and_missing_peers_are_known(tmp_path: Path) -> None:
    lock = tmp_path / "none.txt"
    lock.write_text("# empty\n")
    python = environment.ensure_environment(tmp_path / "peers", lock)
    created = python.lstat().st_mtime_ns
    assert environment.ensure_environment(tmp_path / "peers", lock) == python
    assert python.lstat().st_mtime_ns == created
    assert environment.versions(python) == {}
    lock.write_text("no-such-thing-anywhere @ file:///absent\n")
    with pytest.raises(Unavailable, match="cannot be installed"):
        environment.ensure_environment(tmp_path / "peers", lock)


def test_the_programs_of_the_queues_import_no_dependency_of_argosy() -> None:
    """They run in an environment without them."""
    code = "import sys, bench.peers.job_queues; print(*sorted(m for m in sys.modules if 'argosy' in m))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment.process_environment())
    assert done.stdout.split() == ["argosy", "argosy.bench", "argosy.bench.jobs", "argosy.bench.jobs.race_program"]


def test_goal_of_opening_is_in_proportion_to_the_jobs() -> None:
    assert figures.open_time(1_000_000).goal == 15
    assert figures.open_time(100_000).goal == pytest.approx(1.5)
    assert (FULL.waiting, FULL.noisy, FULL.pollers, QUICK.pollers) == (1_000_000, 100_000, 1_000, 1_000)
