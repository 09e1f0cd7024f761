"""A node that dies is restarted with back-off; one that keeps dying at once stays down."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from argosy.app.local_fleet import DEATHS_MAX, QUICK_DEATH_S, RESTART, LocalFleet, RestartPolicy, describe_exit
from argosy.app.settings import SECTIONS
from argosy.base.settings import load
from argosy.search.settings import SearchSettings


class StoppedClock:
    """Time passes only when the test advances it."""

    def __init__(self) -> None:
        self.time_s = 1000.0

    def now(self) -> float:
        return self.time_s

    def wall(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds


def test_quick_deaths_are_restarted_ever_later_and_a_bounded_number_of_times() -> None:
    policy, random = RestartPolicy(), Random(1)
    delays = [policy.delay(0.1, random) for _ in range(DEATHS_MAX)]
    assert delays[-1] is None
    waits = [each for each in delays if each is not None]
    assert len(waits) == DEATHS_MAX - 1
    for number, wait in enumerate(waits, start=1):
        assert RESTART.ceiling(number) / 2 <= wait <= RESTART.ceiling(number)


def test_a_node_that_has_worked_is_restarted_soon_however_often() -> None:
    policy, random = RestartPolicy(), Random(1)
    for _ in range(3 * DEATHS_MAX):
        delay = policy.delay(QUICK_DEATH_S, random)
        assert delay is not None
        assert delay <= RESTART.first_s


def test_a_node_that_cannot_start_stays_down_and_its_output_is_in_its_log(tmp_path: Path) -> None:
    loaded = load(SECTIONS, environ={})
    advertising = replace(loaded.get(SearchSettings), advertise_dir=str(tmp_path))
    loaded = loaded.with_sections({SearchSettings: advertising})
    loaded.path = tmp_path / "missing.toml"  # the nodes read the same file, and end
    clock = StoppedClock()
    with LocalFleet(loaded, 1, state_dir=tmp_path, budget_bytes=1 << 20, clock=clock, random=Random(1)) as fleet:
        [child] = fleet.children
        pids = set()
        while not child.is_failed:
            if child.process is not None:
                assert child.address
                assert child.pid == child.process.pid
                pids.add(child.pid)
                child.process.wait(60)
            fleet.check(child)
            clock.time_s += RESTART.ceiling_s
        assert child.pid is None
        assert child.restarts == DEATHS_MAX - 1
        assert len(pids) == DEATHS_MAX
        clock.time_s += 10 * RESTART.ceiling_s
        fleet.check(child)
        assert child.process is None
    assert child.log_path.read_text().count("missing.toml") == DEATHS_MAX


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with exit code 0"), (-9, "was killed by SIGKILL"), (-99, "was killed by signal 99")],
)
def test_how_a_node_ended_is_described_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words
