"""Shared by the tests of base: time that moves only when told."""

import pytest


class FakeClock:
    """A clock that stands still; `sleep` moves it at once and remembers what was asked for."""

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
