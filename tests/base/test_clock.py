"""The machine's clock only moves forward, and seeded randomness repeats."""

import time

from hypothesis import given
from hypothesis import strategies as st

from argosy.base.clock import MonotonicWallClock, SystemClock, seeded_random, system_random


def test_now_never_goes_back() -> None:
    clock = SystemClock()
    times = [clock.now() for _ in range(100)]
    assert times == sorted(times)


def test_wall_is_the_time_of_day() -> None:
    before = time.time()
    assert before <= SystemClock().wall() <= time.time()


async def test_sleeping_no_time_returns() -> None:
    clock = SystemClock()
    before = clock.now()
    await clock.sleep(0)
    assert clock.now() >= before


def test_the_same_seed_gives_the_same_draws() -> None:
    first, second = seeded_random("a"), seeded_random("a")
    assert [first.random() for _ in range(5)] == [second.random() for _ in range(5)]
    assert seeded_random(1).random() != seeded_random(2).random()


def test_randomness_of_the_system_differs_between_two_sources() -> None:
    first, second = system_random(), system_random()
    assert [first.random() for _ in range(4)] != [second.random() for _ in range(4)]


class Stepped:
    """A machine whose wall clock is adjusted now and then."""

    def __init__(self) -> None:
        self.at = 0.0
        self.offset = 1000.0

    def now(self) -> float:
        return self.at

    def wall(self) -> float:
        return self.at + self.offset

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-500, 500)), max_size=30))
def test_steady_wall_time_never_jumps_whatever_the_clock_is_set_to(steps: list[tuple[float, float]]) -> None:
    machine = Stepped()
    steady = MonotonicWallClock(machine)
    for passed, offset in steps:
        before = steady.wall()
        machine.at += passed
        machine.offset = 1000.0 + offset
        assert 0.9 * passed - 1e-6 <= steady.wall() - before <= 1.1 * passed + 1e-6


def test_steady_wall_time_comes_to_agree_with_the_clock_again() -> None:
    machine = Stepped()
    steady = MonotonicWallClock(machine)
    machine.offset += 20.0
    assert steady.wall() == 1000.0
    machine.at += 100.0
    assert steady.wall() == 1110.0
    machine.at += 200.0
    assert steady.wall() == machine.wall()
