"""Shared by the tests of base: time that moves only when a test moves it."""

import pytest


class FakeClock:
    """A clock that moves only by `sleep`, at once, and records the durations."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
