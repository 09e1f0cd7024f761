"""Clocks that disagree."""

import asyncio

import pytest

from argosy.base.errors import Invalid
from argosy.sim.loop import DRIFT_MAX, SimClock, SimLoop, run


def test_a_clock_runs_at_its_own_rate_and_its_sleep_follows_it() -> None:
    async def main(loop: SimLoop) -> tuple[float, float]:
        clock = SimClock(loop.time, drift=DRIFT_MAX, started_at=1_000.0)
        await clock.sleep(201)
        return clock.now(), loop.time()

    local, true = run(main)
    assert local == pytest.approx(1_201)
    assert true == pytest.approx(200)


def test_local_instants_are_found_in_true_time() -> None:
    async def main(loop: SimLoop) -> list[tuple[float, float]]:
        found = []
        for drift in (-DRIFT_MAX, 0.0, 0.001):
            clock = SimClock(loop.time, drift=drift, started_at=77.0)
            await asyncio.sleep(50)
            found.append((clock.to_true(clock.now()), loop.time()))
        return found

    for back, true in run(main):
        assert back == pytest.approx(true)


def test_stepping_the_wall_clock_leaves_spans_alone() -> None:
    async def main(loop: SimLoop) -> None:
        clock = SimClock(loop.time)
        wall, now = clock.wall(), clock.now()
        clock.wall_offset_s -= 300
        assert clock.wall() == pytest.approx(wall - 300)
        assert clock.now() == now

    run(main)


def test_a_drift_beyond_the_bound_is_refused() -> None:
    with pytest.raises(Invalid, match="drifts by at most"):
        SimClock(lambda: 0.0, drift=0.02)
