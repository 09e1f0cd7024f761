"""The driver: events in order, effects performed, deadlines, and a clean stop."""

import asyncio
from collections.abc import Iterable
from contextlib import asynccontextmanager

import pytest

from argosy.base import driver as driver_module
from argosy.base.driver import Driver
from argosy.base.errors import Unavailable


class Recorder:
    """A machine that records its events; `rules` maps an event to the effects that follow."""

    def __init__(self, rules: dict[str | None, list[str]] | None = None, deadline: float | None = None) -> None:
        self.seen: list[tuple[str | None, float]] = []
        self.rules = rules or {}
        self.wake_at = deadline

    def handle(self, event: str | None, now: float) -> list[str]:
        self.seen.append((event, now))
        if self.wake_at is not None and now >= self.wake_at:
            self.wake_at = None
        return self.rules.get(event, [])

    def deadline(self) -> float | None:
        return self.wake_at

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.seen if event is not None]


async def nothing(effect: str) -> Iterable[str]:
    return ()


async def settle() -> None:
    """Lets every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def running(driver: Driver):
    task = asyncio.ensure_future(driver.run())
    await settle()
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_machine_first_gets_a_start_event(clock) -> None:
    clock.time = 7.0
    machine = Recorder()
    async with running(Driver(machine, nothing, clock=clock)):
        assert machine.seen == [(None, 7.0)]


async def test_events_are_handled_in_order(clock) -> None:
    machine = Recorder()
    driver = Driver(machine, nothing, clock=clock)
    async with running(driver):
        for event in "abc":
            driver.post(event)
        await settle()
        driver.post("d")
        await settle()
    assert machine.events == ["a", "b", "c", "d"]


async def test_events_queued_before_the_run_are_not_lost(clock) -> None:
    machine = Recorder()
    driver = Driver(machine, nothing, clock=clock)
    driver.post("early")
    async with running(driver):
        assert machine.seen == [(None, 0.0), ("early", 0.0)]


async def test_the_machine_is_woken_when_its_deadline_comes(clock) -> None:
    def tick() -> float:
        clock.time += 1.0
        return clock.time

    clock.now = tick
    machine = Recorder(deadline=2.0)
    async with running(Driver(machine, nothing, clock=clock)):
        # Called for the first step, for the length of the wait (which is over), and for the second step.
        assert machine.seen == [(None, 1.0), (None, 3.0)]


async def test_before_its_deadline_only_an_event_wakes_the_machine(clock) -> None:
    machine = Recorder(deadline=30.0)
    driver = Driver(machine, nothing, clock=clock)
    async with running(driver):
        clock.time = 29.0
        driver.post("x")
        await settle()
        assert machine.seen == [(None, 0.0), ("x", 29.0)]


async def test_a_machine_without_a_deadline_is_not_woken(clock) -> None:
    machine = Recorder()
    async with running(Driver(machine, nothing, clock=clock)):
        clock.time = 1e9
        await settle()
        assert machine.seen == [(None, 0.0)]


async def test_events_returned_by_an_effect_are_handled(clock) -> None:
    machine = Recorder({"asked": ["fetch"], "fetched": ["store"]})

    async def perform(effect: str) -> Iterable[str]:
        return {"fetch": ["fetched"], "store": ["stored"]}[effect]

    driver = Driver(machine, perform, clock=clock)
    async with running(driver):
        driver.post("asked")
        await settle()
    assert machine.events == ["asked", "fetched", "stored"]


async def test_a_slow_effect_does_not_delay_a_fact(clock) -> None:
    gate = asyncio.Event()
    machine = Recorder({"start": ["slow"]})

    async def perform(effect: str) -> Iterable[str]:
        await gate.wait()
        return ["slow done"]

    driver = Driver(machine, perform, clock=clock)
    async with running(driver):
        driver.post("start")
        await settle()
        driver.post("other")
        await settle()
        assert machine.events == ["start", "other"]
        gate.set()
        await settle()
    assert machine.events == ["start", "other", "slow done"]


async def test_a_failing_effect_stops_the_driver_with_its_own_exception(clock) -> None:
    stopped = []

    async def perform(effect: str) -> Iterable[str]:
        if effect == "fail":
            raise ZeroDivisionError("a bug")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(effect)
        return ()

    driver = Driver(Recorder({None: ["wait", "fail"]}), perform, clock=clock)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await driver.run()
    assert stopped == ["wait"]


async def test_a_failing_machine_stops_the_driver_too(clock) -> None:
    class Broken(Recorder):
        def handle(self, event: str | None, now: float) -> list[str]:
            assert event is None, "OWN-0"
            return []

    driver = Driver(Broken(), nothing, clock=clock)
    driver.post("x")
    with pytest.raises(AssertionError, match="OWN-0"):
        await driver.run()


async def test_cancelling_stops_the_effects_in_start_order(clock) -> None:
    stopped = []

    async def perform(effect: str) -> Iterable[str]:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(effect)
        return ()

    names = [f"effect {n}" for n in range(8)]
    async with running(Driver(Recorder({None: names}), perform, clock=clock)) as task:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert stopped == names


async def test_more_waiting_events_than_the_bound_are_refused(clock, monkeypatch) -> None:
    monkeypatch.setattr(driver_module, "INBOX_MAX", 2)
    driver = Driver(Recorder(), nothing, clock=clock)
    driver.post("a")
    driver.post("b")
    with pytest.raises(Unavailable, match="2 events are waiting"):
        driver.post("c")


async def test_more_effects_than_the_bound_stop_the_driver(clock, monkeypatch) -> None:
    monkeypatch.setattr(driver_module, "EFFECTS_MAX", 2)

    async def perform(effect: str) -> Iterable[str]:
        await asyncio.Event().wait()
        return ()

    with pytest.raises(Unavailable, match="too many running effects: 2"):
        await Driver(Recorder({None: ["a", "b", "c"]}), perform, clock=clock).run()


async def test_finished_effects_make_room_for_new_ones(clock, monkeypatch) -> None:
    monkeypatch.setattr(driver_module, "EFFECTS_MAX", 1)
    performed = []

    async def perform(effect: str) -> Iterable[str]:
        performed.append(effect)
        return ()

    driver = Driver(Recorder({"go": ["work"]}), perform, clock=clock)
    async with running(driver):
        for _ in range(5):
            driver.post("go")
            await settle()
    assert performed == ["work"] * 5
