"""The machine's clock only moves forward, and seeded randomness repeats."""

import time

from argosy.base.clock import SystemClock, seeded_random, system_random


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
