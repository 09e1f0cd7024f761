"""The registry benchmark: every figure on real stores with its peers, and errors where a server is missing."""

import asyncio

import pytest

from argosy.base.backends import servers
from argosy.base.backends.server_programs import ServerProgram
from argosy.base.errors import Invalid
from argosy.bench import registry as run
from argosy.bench.harness import Bench
from argosy.bench.registry import RegistrySizes, registry
from argosy.registry.backends import redis_memory

TINY = RegistrySizes(upserts=400, claims=200, peer_claims=20)


@pytest.fixture(autouse=True)
def _tiny_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", TINY)


@pytest.fixture(scope="module")
def measured() -> Bench:
    """A run with everything."""
    bench = Bench("registry", is_quick=True)
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(run, "QUICK", TINY)
        patching.setattr(redis_memory, "ROUNDS", 1)
        asyncio.run(registry(bench))
    return bench


def test_every_figure_is_measured_beside_its_peers(measured: Bench) -> None:
    peers = {result.figure.id: set(result.peers) for result in measured.results}
    assert peers == {
        "memory.runs_100": {"hash per row"},
        "memory.runs_1000": {"hash per row"},
        **{f"memory.row.{name}": set() for name in ("task", "session", "idempotency", "run", "rate_limit")},
        "upsert.valkey": {"redis-py HSET", "redis-py MULTI"},
        "upsert.task.valkey": {"redis-py HSET", "redis-py MULTI"},
        "claim.sqlite": {"a commit each"},
    }
    assert [result.error for result in measured.results if not result.value] == []


def test_layout_takes_less_than_a_hash_per_row(measured: Bench) -> None:
    [result] = [each for each in measured.results if each.figure.id == "memory.runs_1000"]
    assert result.value is not None
    assert result.value * 2 < result.peers["hash per row"]


async def test_without_a_server_the_rest_is_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(server: ServerProgram, explicit: str | None = None) -> None:
        raise Invalid(f"no {server.title} found: run `make setup`")

    monkeypatch.setattr(servers, "find_program", missing)
    bench = Bench("registry", is_quick=True)
    await registry(bench)
    values = {result.figure.id: result.value for result in bench.results}
    assert values["claim.sqlite"]
    assert values["upsert.valkey"] is None


def test_goals_are_those_of_the_budget() -> None:
    goals = {figure.id: figure.goal for figure in (*run.TOTALS.values(), *run.ROW_BYTES, run.UPSERTS, run.CLAIMS)}
    assert goals == {
        "memory.runs_100": 1_000_000,
        "memory.runs_1000": 1_200_000,
        "memory.row.task": 350,
        "memory.row.session": 350,
        "memory.row.idempotency": 200,
        "memory.row.run": 40,
        "memory.row.rate_limit": 140,
        "upsert.valkey": 20_000,
        "claim.sqlite": 8_000,
    }
