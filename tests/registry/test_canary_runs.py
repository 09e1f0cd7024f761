"""Canary runs: the newest hundred, a few bytes each."""

import pytest

from argosy.base.errors import Invalid
from argosy.registry import canaries
from argosy.registry.canaries import CanaryRun, RunStats
from argosy.registry.rows import RunStatus
from tests.registry.interpreter import START_MS, Interpreter
from tests.registry.test_canaries import create

RUN_BYTES_NATURAL = 40
PASS, FAIL, ERROR = RunStatus.PASS, RunStatus.FAIL, RunStatus.ERROR


@pytest.fixture
def store() -> Interpreter:
    store = Interpreter()
    store.run(create("c1", "front page"))
    return store


def test_runs_come_back_newest_first(store: Interpreter) -> None:
    store.run(canaries.append_run("c1", PASS, 12))
    store.run(canaries.append_run("c1", FAIL, 15, failed={"min_hits": 0}))
    store.pass_time(5)
    store.run(canaries.append_run("c1", ERROR, 0, failed={"error": "no answer"}))
    assert store.run(canaries.newest_runs("c1")) == (
        CanaryRun(START_MS + 5, ERROR, 0, {"error": "no answer"}),
        CanaryRun(START_MS, FAIL, 15, {"min_hits": 0}),
        CanaryRun(START_MS, PASS, 12),
    )
    assert len(store.run(canaries.newest_runs("c1", 1))) == 1


def test_only_the_newest_are_retained(store: Interpreter) -> None:
    """Defect R15: runs were never trimmed."""
    for n in range(105):
        store.run(canaries.append_run("c1", PASS, n))
    assert [run.latency_ms for run in store.run(canaries.newest_runs("c1", 1000))] == list(range(104, 4, -1))
    store.run(canaries.append_run("c1", PASS, 0, keep=10))
    assert len(store.run(canaries.newest_runs("c1", 1000))) == 10


def test_the_last_failure_is_found_after_successful_runs(store: Interpreter) -> None:
    assert store.run(canaries.last_failure("c1")) is None
    for status in (ERROR, FAIL, PASS, PASS):
        store.run(canaries.append_run("c1", status, 1))
        store.pass_time(1)
    assert store.run(canaries.last_failure("c1")) == CanaryRun(START_MS + 1, FAIL, 1)


def test_runs_are_summed_up(store: Interpreter) -> None:
    assert store.run(canaries.run_stats("c1")) == RunStats(0, 0, 0, 0, 0, 0)
    for latency, status in ((10, PASS), (30, FAIL), (20, PASS), (40, ERROR)):
        store.run(canaries.append_run("c1", status, latency))
    assert store.run(canaries.run_stats("c1")) == RunStats(4, 2, 1, 1, 30, 40)


def test_a_natural_run_takes_a_few_bytes() -> None:
    natural = [CanaryRun(START_MS, PASS, 137), CanaryRun(START_MS, FAIL, 4321, {"min_hits": 2})]
    assert [canaries.decode_run(canaries.encode_run(run)) for run in natural] == natural
    assert max(len(canaries.encode_run(run)) for run in natural) <= RUN_BYTES_NATURAL


def test_bad_input_is_rejected(store: Interpreter) -> None:
    for latency, failed in ((-1, None), (1, {"x": "y" * 20_000}), (1, {"x": object()})):
        with pytest.raises(Invalid):
            store.run(canaries.append_run("c1", FAIL, latency, failed=failed))
    with pytest.raises(Invalid):
        store.run(canaries.append_run("c1", PASS, 1, keep=1001))
