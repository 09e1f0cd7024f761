"""The registry benchmark: memory and atomic upserts on Valkey, durable claims on SQLite."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.base.backends.servers import Valkey
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Figure, Run, Values
from argosy.registry import jobs, open_registry
from argosy.registry.backends.redis_memory import measure
from argosy.registry.backends.sqlite import SqliteStore
from argosy.registry.memory import ESTIMATES, TOTAL_MAX_BYTES
from argosy.registry.rows import AliasKind, ControlTask, IndexAlias, TaskStatus
from argosy.registry.table import Table
from argosy.registry.tables import ALIASES, TASKS
from argosy.registry.transaction import TransactionBody, Upsert, commit, transaction

WRITERS = 50  # concurrent upserts
ROWS = 2000  # different rows: each is written several times, as tasks are
CLAIMERS = 64  # concurrent claims
LEASE_MS = 60_000  # longer than any run
# The name of a row in figures, for each table with a memory ceiling.
ROW_NAMES = {
    "tasks": "task",
    "sessions": "session",
    "idempotency_cache": "idempotency",
    "canary_runs": "run",
    "ratelimit": "rate_limit",
}


@dataclass(frozen=True)
class RegistrySizes:
    """How much is done in one run. Memory does not vary, so one run of it is enough."""

    upserts: int
    claims: int
    peer_claims: int  # fewer: one commit each takes long, and the rate does not depend on the number


FULL = RegistrySizes(upserts=40_000, claims=20_000, peer_claims=2_000)
QUICK = RegistrySizes(upserts=10_000, claims=6_000, peer_claims=400)

# The goal is for a row with one index, which is what a plain client's row and index set are. A task has three indexes.
UPSERTS = Figure("upsert.valkey", "rows/s", "higher", goal=20_000)
TASK_UPSERTS = Figure("upsert.task.valkey", "rows/s", "higher", goal=None)
CLAIMS = Figure("claim.sqlite", "claims/s", "higher", goal=8_000)
TOTALS = {runs: Figure(f"memory.runs_{runs}", "bytes", "lower", goal) for runs, goal in TOTAL_MAX_BYTES.items()}
ROW_BYTES = tuple(
    Figure(f"memory.row.{name}", "bytes/row", "lower", ESTIMATES[table].ceiling_bytes)
    for table, name in ROW_NAMES.items()
)


async def registry(bench: Bench) -> None:
    """Memory and atomic upserts on Valkey, durable claims on SQLite; what is usually done, beside them."""
    sizes = QUICK if bench.is_quick else FULL
    peers = bench.load_peers()
    await measure_valkey(bench, sizes, peers)
    await bench.measure(
        CLAIMS,
        run=lambda: durable_claims_per_s(sizes.claims),
        peers=None if peers is None else peers.claim_runs(sizes.peer_claims),
    )


async def measure_valkey(bench: Bench, sizes: RegistrySizes, peers: Any | None) -> None:
    figures = (*TOTALS.values(), *ROW_BYTES, UPSERTS, TASK_UPSERTS)
    if not bench.wants_any(figures):
        return
    try:
        server = Valkey()
    except ArgosyError as error:
        bench.record_error(figures, error)
        return
    with server:
        for runs, total in TOTALS.items():
            await measure_memory(
                bench,
                server,
                runs,
                (total, *ROW_BYTES) if total is TOTALS[100] else (total,),
                {} if peers is None else peers.memory_runs(server, runs),
            )
        # A quarter of the rows: the peers are slower, and their rate does not depend on the number.
        writers: Mapping[str, Run] = {} if peers is None else peers.upsert_runs(server, tasks(sizes.upserts // 4))
        rows, task_rows = aliases(sizes.upserts), tasks(sizes.upserts)
        await bench.measure(UPSERTS, run=lambda: upserts_per_s(server, ALIASES, rows), peers=writers)
        await bench.measure(TASK_UPSERTS, run=lambda: upserts_per_s(server, TASKS, task_rows), peers=writers)


# -- memory -----------------------------------------------------------------------------------------------------------


async def measure_memory(
    bench: Bench, server: Valkey, runs: int, figures: tuple[Figure, ...], peers: Mapping[str, Run]
) -> None:
    ids = {figure.id for figure in figures}

    async def run() -> Values:
        return {name: value for name, value in (await sample_bytes(server, runs)).items() if name in ids}

    await bench.measure(*figures, run=run, peers=peers, repeats=1)


async def sample_bytes(server: Valkey, runs: int) -> Values:
    """The bytes of the sample data set, and of a row of each table with a ceiling."""
    found = await measure(server.url, runs=runs, clock=SystemClock(), random=system_random())
    rows = {f"memory.row.{ROW_NAMES[each.name]}": each.bytes_per_row for each in found.tables if each.name in ROW_NAMES}
    return {f"memory.runs_{runs}": found.total_bytes, **rows}


# -- upserts ----------------------------------------------------------------------------------------------------------


def tasks(count: int) -> list[ControlTask]:
    at, nodes = 1_700_000_000_000, {"node-0": "41", "node-1": "42", "node-2": "43"}
    numbers = (n % ROWS for n in range(count))
    return [
        ControlTask(f"task-{n:06}", n + 1, at + n, TaskStatus.ENQUEUED, nodes, {}, f"index-{n % 10}") for n in numbers
    ]


def aliases(count: int) -> list[IndexAlias]:
    at = 1_700_000_000_000
    numbers = (n % ROWS for n in range(count))
    return [IndexAlias(f"alias-{n:06}", AliasKind.SINGLE, f"index-{n % 10}", (), at + n) for n in numbers]


@transaction
def upsert(table: Table[Any], row: Any) -> TransactionBody[int]:
    """One atomic step: row, version, indexes, revision and change feed."""
    done = yield from commit(Upsert(table, row))
    return done.versions[0]


async def upserts_per_s(server: Valkey, table: Table[Any], rows: Sequence[Any]) -> float:
    store = await open_registry(server.url, clock=SystemClock(), random=system_random(), namespace="bench")
    try:
        return len(rows) / await time_writes(lambda row: store.run(upsert(table, row)), rows)
    finally:
        await store.close()


async def time_writes(write: Callable[[Any], Awaitable[Any]], rows: Iterable[Any]) -> float:
    """Seconds until all rows are written by concurrent writers."""
    remaining = iter(rows)

    async def work() -> None:
        for row in remaining:
            await write(row)

    started = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(WRITERS)])
    return time.perf_counter() - started


# -- claims -----------------------------------------------------------------------------------------------------------


async def durable_claims_per_s(count: int) -> float:
    """Sixty-four callers claim `count` jobs from one file. Each response waits for the disk; commits are shared."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as directory:
        store = await SqliteStore.open(Path(directory) / "registry.db", clock=SystemClock(), durability="full")
        try:
            await asyncio.gather(*[store.run(jobs.enqueue(f"job-{n}", "bench", {})) for n in range(count)])
            started = time.perf_counter()
            claimed = await asyncio.gather(*[_claim_all(store, f"worker-{n}") for n in range(CLAIMERS)])
            took_s = time.perf_counter() - started
        finally:
            await store.close()
    # A job that is claimed twice would make the rate look good.
    names = [name for each in claimed for name in each]
    assert len(names) == len(set(names)) == count, "each job is claimed once"
    return count / took_s


async def _claim_all(store: SqliteStore, worker: str) -> list[str]:
    claimed: list[str] = []
    while (job := await store.run(jobs.claim(worker, lease_ms=LEASE_MS))) is not None:
        claimed.append(job.job_id)
    return claimed
