"""The engine over the rows of a real shard: results, rows read, and rejected statements."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from argosy.base.clock import Random, SystemClock, seeded_random
from argosy.base.errors import Invalid, Throttled
from argosy.jobs.model import ConcurrencyLimit, FloatingLimit, NewJob, RateLimit, TaskFailure
from argosy.jobs.sql.engine import SqlEngine, _Statement
from argosy.jobs.sql.tables import SqlLimits, SqlResult, StatementTimeout, StatementTooLarge, Value
from tests.jobs.rpc.stage import HERE, NOW, Node


class CountedRows:
    """The rows of a shard, and the number of rows read."""

    def __init__(self, node: Node) -> None:
        self._rows = node.rows(HERE)
        self.read = 0

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return await self._rows.get_many(keys)

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        async for pair in self._rows.scan(start, end, limit=limit, reverse=reverse):
            self.read += 1
            yield pair


class WallClock(SystemClock):
    def wall(self) -> float:
        return NOW / 1000


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    await node.start()
    yield node
    await node.close()


async def fill(node: Node) -> None:
    """Two tenants: one with a job in every state, the other with ten waiting jobs."""
    shard = node.shards[HERE]
    payload = msgspec.msgpack.encode({"to": "ann", "n": 3})
    limit = ConcurrencyLimit("smtp", 1)
    answers = await shard.enqueue(
        [
            NewJob("mail", payload, "acme", "runs", metadata={"who": "ann", "kind": "a-b"}, limits=(limit,)),
            NewJob("mail", b"\xc1", "acme", "parked", limits=(limit,)),
            NewJob("mail", b"", "acme", "later", start_at_ms=NOW + 1000, priority=7, metadata={"who": "bob"}),
        ]
    )
    assert answers == ["runs", "parked", "later"]
    [leased], _ = await shard.lease("mail", "w", 10)
    assert leased.job.id == "runs"
    await shard.enqueue([NewJob("other", b"", "acme", "fails")])
    [leased], _ = await shard.lease("other", "w", 10)
    await shard.report([(leased.task.id, TaskFailure("X"))])
    await shard.enqueue([NewJob("bulk", b"", "zeta", f"z{at}", metadata={"who": "ann"}) for at in range(10)])


async def run_query(
    node: Node, sql: str, *parameters: Value, tenant: str | None = None, rows: Any = None, **limits: Any
) -> SqlResult:
    engine = SqlEngine(WallClock(), SqlLimits(**limits))
    numbered = {str(at): value for at, value in enumerate(parameters, 1)}
    return await engine.query(HERE, rows or node.rows(HERE), sql, numbered, tenant=tenant)


async def test_a_job_is_shown_with_all_its_columns(node: Node) -> None:
    await fill(node)
    result = await run_query(node, "SELECT * FROM jobs WHERE id = $1", "runs", tenant="acme")
    row = dict(zip([name for name, _ in result.columns], result.rows[0], strict=True))
    limits = row.pop("limits")
    assert isinstance(limits, str)
    assert msgspec.json.decode(limits) == [{"type": "concurrency", "key": "smtp", "max_concurrency": 1}]
    assert row == {
        "shard_id": HERE,
        "tenant": "acme",
        "id": "runs",
        "priority": 50,
        "enqueue_time_ms": NOW,
        "payload": '{"to":"ann","n":3}',
        "status_kind": "Running",
        "status_changed_at_ms": NOW,
        "task_group": "mail",
        "current_attempt": 1,
        "next_attempt_starts_after_ms": None,
        "metadata": {"who": "ann", "kind": "a-b"},
    }
    kinds = dict(result.columns)
    assert (kinds["priority"], kinds["payload"], kinds["metadata"]) == ("UInt8", "Utf8", "Map(Utf8, Utf8)")


async def test_a_due_job_is_waiting(node: Node) -> None:
    await fill(node)
    result = await run_query(node, "SELECT id, status_kind FROM jobs WHERE tenant = 'acme' ORDER BY id")
    assert result.rows == (("fails", "Failed"), ("later", "Scheduled"), ("parked", "Waiting"), ("runs", "Running"))
    for status, ids in {"Waiting": ["parked"], "Scheduled": ["later"], "Failed": ["fails"], "Lost": []}.items():
        matches = await run_query(node, "SELECT id FROM jobs WHERE status_kind = $1 AND tenant = 'acme'", status)
        assert [row[0] for row in matches.rows] == ids


async def test_payloads_that_are_not_msgpack_are_null(node: Node) -> None:
    await fill(node)
    result = await run_query(node, "SELECT payload FROM jobs WHERE id = 'parked'")
    assert result.rows == ((None,),)


@pytest.mark.parametrize(
    ("where", "ids", "read_max"),
    [
        ("id = 'z3'", ["z3"], 0),
        ("array_contains(element_at(metadata, 'who'), 'ann')", [f"z{at}" for at in range(10)], 10),
        ("array_contains(element_at(metadata, 'who'), 'bob')", [], 0),
        ("starts_with(array_any_value(element_at(metadata, 'who')), 'an')", [f"z{at}" for at in range(10)], 10),
        ("starts_with(array_any_value(element_at(metadata, 'who')), 'x')", [], 0),
        ("status_kind = 'Failed'", [], 0),
        ("priority = 50", [f"z{at}" for at in range(10)], 10),
    ],
)
async def test_the_best_index_is_read_and_no_more(node: Node, where: str, ids: list[str], read_max: int) -> None:
    await fill(node)
    rows = CountedRows(node)
    result = await run_query(node, f"SELECT id FROM jobs WHERE {where} ORDER BY id", tenant="zeta", rows=rows)
    assert [row[0] for row in result.rows] == ids
    assert rows.read <= read_max


ATOMS = (
    "id = 'runs'", "'z3' = id", "j.id = $1", "id <> 'z1'", "tenant = 'acme'", "tenant = 'zeta'", "tenant = $2",
    "status_kind = 'Waiting'", "status_kind = 'Scheduled'", "status_kind = 'Failed'", "priority = 50", "priority > 60",
    "array_contains(element_at(metadata, 'who'), 'ann')", "array_contains(element_at(metadata, 'who'), 'bob')",
    "starts_with(array_any_value(element_at(metadata, 'kind')), 'a-')", "payload IS NULL", "metadata = '{}'",
)  # fmt: skip


def condition(random: Random, depth: int = 2) -> str:
    if depth == 0 or random.random() < 0.2:
        return random.choice(ATOMS)
    parts = [condition(random, depth - 1), condition(random, depth - 1)]
    shape = random.choice(["{} AND {}", "{} AND {}", "({} OR {})", "{} OR {}", "NOT {} AND {}", "({}) AND {}"])
    return shape.format(*parts)


@pytest.mark.parametrize("seed", range(4))
async def test_an_index_never_hides_a_row(node: Node, seed: int) -> None:
    await fill(node)
    random = seeded_random(seed)
    matches = 0
    for _ in range(30):
        where, tenant = condition(random), random.choice([None, "acme", "zeta"])
        pushed_down = await run_query(
            node, f"SELECT id FROM jobs j WHERE {where} ORDER BY tenant, id", "z3", "acme", tenant=tenant
        )
        # Conditions are not pushed down into a subquery, so this one reads everything.
        whole = f"SELECT id FROM (SELECT * FROM jobs) j WHERE {where} ORDER BY tenant, id"
        assert pushed_down.rows == (await run_query(node, whole, "z3", "acme", tenant=tenant)).rows, where
        matches += len(pushed_down.rows)
    assert matches > 0


async def test_a_tenant_sees_only_its_own_rows(node: Node) -> None:
    await fill(node)
    for table in ("jobs", "queues", "tasks", "tenant_counts", "queue_counts"):
        all_tenants = await run_query(node, f"SELECT DISTINCT tenant FROM {table} ORDER BY 1")
        assert ("acme",) in all_tenants.rows
        for tenant in ("zeta", "acme"):
            visible = await run_query(node, f"SELECT DISTINCT tenant FROM {table}", tenant=tenant)
            assert set(visible.rows) <= {(tenant,)}
    assert (await run_query(node, "SELECT * FROM jobs WHERE tenant = 'acme'", tenant="zeta")).rows == ()
    assert (await run_query(node, "SELECT * FROM jobs WHERE id = 'runs' OR 1", tenant="zeta")).rows != ()
    assert (await run_query(node, "SELECT * FROM jobs WHERE id = 'runs'", tenant="zeta")).rows == ()


async def test_queues_tasks_and_counts(node: Node) -> None:
    await fill(node)
    queues = await run_query(
        node, "SELECT queue_name, entry_type, job_id, timestamp_ms FROM queues ORDER BY entry_type"
    )
    assert queues.rows == (("smtp", "holder", "runs", NOW), ("smtp", "requester", "parked", NOW))
    counts = await run_query(
        node, "SELECT queue_name, holders, requesters, max_concurrency, limit_type FROM queue_counts"
    )
    assert counts.rows == (("smtp", 1, 1, 1, "concurrency"),)
    tasks = await run_query(
        node, "SELECT job_id, task_group, start_time_ms, variant_type FROM tasks WHERE tenant = 'acme'"
    )
    assert tasks.rows == (("later", "mail", NOW + 1000, "RunAttempt"),)
    sums = await run_query(node, "SELECT tenant, status_kind, cnt FROM tenant_counts ORDER BY 1, 2")
    assert sums.rows == (
        ("acme", "Failed", 1),
        ("acme", "Running", 1),
        ("acme", "Scheduled", 2),
        ("zeta", "Scheduled", 10),
    )


async def test_floating_limits_and_checks_of_rates_are_shown(node: Node) -> None:
    floating = FloatingLimit("f", 4, 1000)
    rate = RateLimit("r", "u", 1, 60_000)
    await node.shards[HERE].enqueue(
        [
            NewJob("g", b"", "acme", "one", limits=(floating,)),
            NewJob("g", b"", "acme", "two", start_at_ms=NOW + 500, limits=(rate,)),
            NewJob("g", b"", "acme", "three", start_at_ms=NOW + 500, limits=(floating,)),
        ]
    )
    counts = await run_query(node, "SELECT queue_name, max_concurrency, limit_type FROM queue_counts")
    assert counts.rows == (("f", 4, "floating"),)
    kinds = await run_query(node, "SELECT job_id, variant_type, held_queues FROM tasks ORDER BY job_id")
    assert kinds.rows == (
        ("one", "RunAttempt", '["f"]'),
        ("three", "RequestTicket", "[]"),
        ("two", "CheckRateLimit", "[]"),
    )


async def test_types_of_columns_that_are_computed(node: Node) -> None:
    result = await run_query(
        node, "SELECT 1 AS one, 1.5 AS half, 'x' AS text, x'00' AS raw, NULL AS void, $1 AS said", True
    )
    assert result.columns == (
        ("one", "Int64"),
        ("half", "Float64"),
        ("text", "Utf8"),
        ("raw", "Binary"),
        ("void", "Null"),
        ("said", "Int64"),
    )
    assert result.rows == ((1, 1.5, "x", b"\x00", None, 1),)
    computed = await run_query(node, "SELECT 'no json' AS metadata, 1.5 AS priority FROM jobs UNION SELECT 'x', 2.5")
    assert computed.rows == (("x", 2.5),)
    large = await run_query(
        node, "SELECT 256 AS priority, -1 AS attempt, 255 AS holders FROM (SELECT count(*) FROM jobs)"
    )
    assert large.columns == (("priority", "Int64"), ("attempt", "Int64"), ("holders", "Int64"))


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "   ;",
        "SELEC 1",
        "SELECT 1; SELECT 2",
        "DELETE FROM jobs",
        "INSERT INTO jobs(id) VALUES ('x')",
        "UPDATE jobs SET id = 'x'",
        "DROP TABLE jobs",
        "CREATE TABLE t(x)",
        "PRAGMA table_info(jobs)",
        "ATTACH 'file.db' AS f",
        "VACUUM INTO 'file.db'",
        "EXPLAIN SELECT 1",
        "BEGIN",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM pragma_table_info('jobs')",
        "SELECT * FROM nowhere",
        "SELECT load_extension('x')",
        "SELECT randomblob(1000000000)",
        "SELECT zeroblob(1000000000)",
        "SELECT printf('%1000000000d', 1)",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c",
        "SELECT $1",
        "SELECT " + "(" * 300 + "1" + ")" * 300 + " + " + " + ".join(["1"] * 500),
    ],
)
async def test_only_select_on_the_tables_is_allowed(node: Node, sql: str) -> None:
    await fill(node)
    before = await run_query(node, "SELECT count(*) FROM jobs")
    with pytest.raises(Invalid):
        await run_query(node, sql)
    assert (await run_query(node, "SELECT count(*) FROM jobs")).rows == before.rows == ((14,),)


async def test_a_long_statement_is_interrupted(node: Node) -> None:
    await fill(node)
    endless = "SELECT count(*) FROM " + ", ".join(f"jobs j{at}" for at in range(12))
    with pytest.raises(StatementTimeout, match=r"0\.05 s"):
        await run_query(node, endless, statement_s=0.05)


async def test_rows_read_and_result_size_are_bounded(node: Node) -> None:
    await fill(node)
    with pytest.raises(StatementTooLarge, match="reads more than 13 rows"):
        await run_query(node, "SELECT count(*) FROM jobs", scanned_rows=13)
    with pytest.raises(StatementTooLarge, match="more than 13 rows"):
        await run_query(node, "SELECT id FROM jobs", result_rows=13)
    with pytest.raises(StatementTooLarge, match="bytes"):
        await run_query(node, "SELECT shard_id FROM jobs", result_bytes=400)
    with pytest.raises(StatementTooLarge, match="characters"):
        await run_query(node, "SELECT 1 " + " " * 100, statement_chars=100)


async def test_concurrent_statements_are_bounded(node: Node) -> None:
    await fill(node)
    engine = SqlEngine(WallClock(), SqlLimits(concurrent=1))
    statements = [engine.query(HERE, node.rows(HERE), "SELECT 1", {}, tenant=None) for _ in range(2)]
    first, second = await asyncio.gather(*statements, return_exceptions=True)
    assert isinstance(first, SqlResult)
    assert isinstance(second, Throttled)
    assert (await engine.query(HERE, node.rows(HERE), "SELECT 1", {}, tenant=None)).rows == ((1,),)


async def test_a_statement_of_a_cancelled_caller_is_interrupted(node: Node) -> None:
    await fill(node)
    engine = SqlEngine(WallClock(), SqlLimits(concurrent=1, statement_s=60))
    endless = "SELECT count(*) FROM " + ", ".join(f"jobs j{at}" for at in range(12))
    query_task = asyncio.ensure_future(engine.query(HERE, node.rows(HERE), endless, {}, tenant=None))
    await run_query(node, "SELECT count(*) FROM jobs")  # by now the first one is running
    query_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await query_task
    assert (await engine.query(HERE, node.rows(HERE), "SELECT 1", {}, tenant=None)).rows == ((1,),)


async def test_a_statement_cancelled_before_it_runs_closes_its_database() -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
    is_free = threading.Event()
    busy = loop.run_in_executor(None, is_free.wait)
    statement = _Statement("SELECT 1", {}, WallClock(), SqlLimits())
    preparing = asyncio.ensure_future(statement.prepare())
    await asyncio.sleep(0)
    preparing.cancel()
    await asyncio.wait([preparing])
    statement.close()
    is_free.set()
    await busy
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        statement._base.execute("SELECT 1")
