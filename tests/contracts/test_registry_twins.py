"""REG-1: every backend returns the same results for the same sequence.

Random moves go to the oracle and to real stores side by side, and every result is compared: to the millisecond where
the clock can be set, otherwise without the times. Errors are results too.
"""

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from argosy.base.errors import ArgosyError
from argosy.registry import leadership, limits
from argosy.registry.transaction import Now
from tests.contracts import registry_moves as moves
from tests.contracts.registry_moves import HOUR_MS, Move, timeless
from tests.contracts.registry_stage import LoadingStore, Stage, answer, url_of
from tests.registry.interpreter import START_MS, Interpreter
from tests.servers.valkey import Valkey

EXAMPLES = 40
STEPS = 40


class StillClock:
    """Stands still until it is advanced."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now(self) -> float:
        return self.wall()

    def wall(self) -> float:
        return (self.ms + 0.5) / 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Twins(RuleBasedStateMachine):
    """The oracle, and the stores that must agree with it."""

    def stages(self, clock: StillClock) -> list[Stage]:
        raise AssertionError("implemented by subclasses")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = StillClock()
        self.oracle = Interpreter()
        self.staged = self.stages(self.clock)
        self.stores = [(stage.name, self.wait(stage.open())) for stage in self.staged]

    def teardown(self) -> None:
        for stage in self.staged:
            self.wait(stage.close())
        self.loop.close()

    def wait(self, coming: Any) -> Any:
        return self.loop.run_until_complete(coming)

    def play(self, move: Move) -> None:
        expected = self.attempt_oracle(move)
        for name, store in self.stores:
            given = self.wait(self.attempt(name, store, move))
            if name == "valkey":
                assert timeless(given, is_timed=move.is_timed) == timeless(expected, is_timed=move.is_timed), name
            else:
                assert given == expected, name
        self.oracle.pass_time(1)
        self.clock.ms += 1

    def attempt_oracle(self, move: Move) -> Any:
        try:
            return self.oracle.run(move.begin())
        except ArgosyError as error:
            return type(error).__name__

    async def attempt(self, name: str, store: LoadingStore, move: Move) -> Any:
        try:
            return await store.run(move.begin())
        except ArgosyError as error:
            return type(error).__name__
        finally:
            if name == "valkey":
                await next_millisecond(store)

    @rule(move=moves.TASKS)
    def play_tasks(self, move: Move) -> None:
        self.play(move)

    @rule(move=moves.JOBS)
    def play_jobs(self, move: Move) -> None:
        self.play(move)

    @rule(move=moves.NAMES_AND_LEASES)
    def play_names_and_leases(self, move: Move) -> None:
        self.play(move)

    @rule(move=moves.PEOPLE)
    def play_people(self, move: Move) -> None:
        self.play(move)

    @rule(move=moves.WATCHES)
    def play_watches(self, move: Move) -> None:
        self.play(move)

    @rule(move=moves.CATALOG)
    def play_catalog(self, move: Move) -> None:
        self.play(move)


async def next_millisecond(store: LoadingStore) -> None:
    """Wait, so that the server's times order rows as the oracle's do."""
    start = await answer(store, Now())
    while await answer(store, Now()) <= start:
        pass


def run_machine(machine: type[Twins]) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            phases=(
                Phase.explicit,
                Phase.reuse,
                Phase.generate,
            ),  # shrinking on a real server takes minutes: add it when debugging
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_embedded_stores_agree_with_the_oracle_to_the_millisecond(tmp_path: Path) -> None:
    class Embedded(Twins):
        def stages(self, clock: StillClock) -> list[Stage]:
            path = tmp_path / f"{secrets.token_hex(8)}.db"
            return [Stage("memory", "memory://", clock), Stage("sqlite", f"sqlite:///{path}", clock)]

        @rule(milliseconds=st.sampled_from([1, HOUR_MS - 1, HOUR_MS, 3 * HOUR_MS, 30 * HOUR_MS]))
        def pass_time(self, milliseconds: int) -> None:
            self.oracle.pass_time(milliseconds)
            self.clock.ms += milliseconds

    run_machine(Embedded)
    assert Embedded.__name__ == "Embedded"


def test_a_server_agrees_with_the_oracle(registry_valkey: Valkey, tmp_path: Path) -> None:
    class OnServer(Twins):
        def stages(self, clock: StillClock) -> list[Stage]:
            return [Stage("valkey", url_of("valkey", tmp_path, registry_valkey))]

    run_machine(OnServer)
    assert OnServer.__name__ == "OnServer"


@pytest.mark.parametrize("group", ["TASKS", "JOBS", "NAMES_AND_LEASES", "PEOPLE", "WATCHES", "CATALOG"])
def test_each_group_of_moves_alone_goes_deeper(group: str, registry_valkey: Valkey, tmp_path: Path) -> None:
    strategy = getattr(moves, group)

    class Deep(Twins):
        def stages(self, clock: StillClock) -> list[Stage]:
            url = url_of("valkey", tmp_path, registry_valkey)
            return [Stage("memory", "memory://", clock), Stage("valkey", url)]

        @rule(move=strategy)
        def play_one(self, move: Move) -> None:
            self.play(move)

    for name in ("tasks", "jobs", "names_and_leases", "people", "watches", "catalog"):
        setattr(Deep, f"play_{name}", None)
    run_machine(Deep)
    assert Deep.play_one is not None


@pytest.mark.parametrize("name", ["memory", "sqlite"])
async def test_a_row_expires_at_its_exact_millisecond(name: str, tmp_path: Path) -> None:
    clock = StillClock()
    stage = Stage(name, "memory://" if name == "memory" else f"sqlite:///{tmp_path}/registry.db", clock)
    store = await stage.open()
    for _ in range(2):
        assert await store.run(limits.is_first_seen("docs", "e", 100))
        clock.ms += 99
        assert not await store.run(limits.is_first_seen("docs", "e", 100))
        clock.ms += 1
    assert await store.run(leadership.acquire("s", "a", 100))
    clock.ms += 99
    assert await store.run(leadership.acquire("s", "b", 100)) is None
    clock.ms += 1
    assert await store.run(leadership.acquire("s", "b", 100))
    await stage.close()
