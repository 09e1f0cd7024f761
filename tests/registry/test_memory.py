"""Memory of a registry: the accounting adds up, the measurement is right, and the server is unchanged."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from redis import Redis

from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Unavailable
from argosy.registry import memory
from argosy.registry.backends import redis_memory
from argosy.registry.backends.redis_memory import OVERHEAD, keys_of, measure
from argosy.registry.memory import ESTIMATES, MemoryReport, TableMemory, advice, sample_writes, to_json, to_rows
from tests.servers.valkey import Valkey

TABLES = (TableMemory("tasks", 1000, 340_000), TableMemory("canary_runs", 1000, 20_000))
REPORT = MemoryReport("Valkey 9", 100, TABLES, 500_000, 0)


# -- the accounting -------------------------------------------------------------------------------------------


def test_keys_of_no_table_are_counted_as_other() -> None:
    assert REPORT.overhead_bytes == 140_000
    assert sum(row[3] for row in to_rows(REPORT)[:-1]) == 500_000  # type: ignore[misc]


def test_the_estimate_of_the_design_is_printed_beside_the_measurement() -> None:
    """ "tasks … ~500 bytes/task", and "1000 × 50 bytes" for its index."""
    assert TABLES[0].estimated_bytes == 1000 * 500 + 1000 * 50


def test_the_documents_own_lines_add_up_to_more_than_its_total() -> None:
    """ "Total: ~2.8 MB": its lines are 3.35 MB, with 1000 runs of each canary."""
    rows = {
        "tasks": 1000,
        "node_settings_version": 50,
        "aliases": 50,
        "sessions": 100,
        "idempotency_cache": 500,
        "jobs": 100,
        "leader_lease": 1,
        "canaries": 10,
        "canary_runs": 10_000,
        "cdc_cursors": 10,
        "tenant_map": 100,
        "rollover_policies": 20,
        "search_ui_config": 10,
        "admin_sessions": 50,
        "ratelimit": 1000,
        "search_ui_scoped_key": 10,
        "search_ui_scoped_key_observed": 50,
    }
    assert rows.keys() == ESTIMATES.keys()
    assert sum(ESTIMATES[name].total_bytes * count for name, count in rows.items()) == pytest.approx(3.35e6, rel=0.01)


def test_a_row_above_its_ceiling_is_not_ok() -> None:
    assert REPORT.is_within_budget
    heavy = replace(REPORT, tables=(TableMemory("tasks", 1000, 351_000),))
    assert not heavy.is_within_budget
    assert to_rows(heavy)[0][-1] is False


def test_a_total_above_its_budget_is_not_ok() -> None:
    assert not replace(REPORT, total_bytes=1_000_001).is_within_budget
    assert replace(REPORT, total_bytes=1_000_001, runs=1000).is_within_budget


def test_the_advice_is_to_be_woken_at_four_fifths_of_the_limit() -> None:
    """ "Alert: When memory exceeds 80% of maxmemory"."""
    result = advice(replace(REPORT, maxmemory_bytes=200_000_000))
    assert "alert when used_memory passes 160 MB, 80% of maxmemory" in result
    assert "takes 0.2%" in result


def test_without_a_limit_the_advice_is_to_set_one() -> None:
    assert "no maxmemory is set: set one of 100 MB or more with the policy noeviction" in advice(REPORT)


def test_the_json_has_the_same_figures() -> None:
    result = to_json(REPORT)
    assert (result["total_bytes"], result["budget_bytes"], result["ok"]) == (500_000, 1_000_000, True)
    assert result["tables"][0] == {  # type: ignore[index]
        "table": "tasks",
        "rows": 1000,
        "bytes": 340_000,
        "bytes_per_row": 340.0,
        "document_bytes": 550_000,
        "ok": True,
    }


# -- the measurement ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Valkey) -> Iterator[Redis]:
    with Redis.from_url(server.url) as connected:
        yield connected


async def measured(server: Valkey, runs: int = 100) -> MemoryReport:
    return await measure(server.url, runs=runs, clock=SystemClock(), random=system_random())


@pytest.fixture(scope="module")
def found_by_runs(server: Valkey) -> dict[int, MemoryReport]:
    return {runs: asyncio.run(measured(server, runs)) for runs in memory.TOTAL_MAX_BYTES}


@pytest.fixture
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what a measurement does, not of its result."""
    monkeypatch.setattr(redis_memory, "ROUNDS", 1)


def test_the_sample_data_set_is_within_its_budget(found_by_runs: dict[int, MemoryReport]) -> None:
    """ "Redis memory accounting validated against representative load"."""
    for runs, budget in memory.TOTAL_MAX_BYTES.items():
        found = found_by_runs[runs]
        assert found.total_bytes <= budget
        assert {table.name for table in found.tables} == ESTIMATES.keys()
        over = {table.name: table.bytes_per_row for table in found.tables if not table.is_within_ceiling}
        assert over == {}


async def test_two_measurements_agree(server: Valkey, found_by_runs: dict[int, MemoryReport]) -> None:
    first, second = found_by_runs[100], await measured(server, 100)
    assert first.total_bytes == pytest.approx(second.total_bytes, rel=0.1)


@pytest.mark.usefixtures("_once")
async def test_only_own_keys_are_written_and_all_are_deleted(server: Valkey, client: Redis) -> None:
    client.set("somebody:else", "1")
    await measured(server)
    assert client.keys("*") == [b"somebody:else"]
    client.delete("somebody:else")


async def test_a_measurement_that_fails_removes_what_it_loaded(
    server: Valkey, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise Unavailable("the server went away")

    monkeypatch.setattr(redis_memory, "_tables", broken)
    with pytest.raises(Unavailable):
        await measured(server)
    assert client.dbsize() == 0


@pytest.mark.usefixtures("_once")
async def test_the_keys_follow_from_the_writes(server: Valkey, client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key on the server is known by its table, and SCAN and KEYS are never sent."""
    seen: list[set[bytes]] = []
    original = redis_memory._tables

    async def spied(mux: object, found: dict[str, set[bytes]], *rest: object) -> object:
        seen.append(set(client.keys("*")) - set().union(*found.values()))
        return await original(mux, found, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(redis_memory, "_tables", spied)
    client.config_resetstat()
    await measured(server)
    assert [unknown for unknown in seen if unknown] == []
    sent = client.info("commandstats")
    assert isinstance(sent, dict)
    assert sent["cmdstat_keys"]["calls"] == len(seen), "only this test lists keys"
    assert "cmdstat_scan" not in sent


def test_every_row_of_the_load_is_counted() -> None:
    keys, counts = keys_of("m12345", sample_writes(1_700_000_000_000, runs_per_canary=7))
    assert (counts["tasks"], counts["canary_runs"], counts["ratelimit"]) == (1000, 70, 1000)
    assert keys.keys() - {OVERHEAD} == counts.keys()
