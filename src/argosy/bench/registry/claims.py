"""Claims on SQLite that are on the disk before they are answered, and what one commit for each would give."""

import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path

from argosy.base.clock import SystemClock
from argosy.registry import jobs
from argosy.registry.backends.sqlite import SqliteStore

CALLERS = 64
LEASE_MS = 60_000  # longer than any run


async def durable_claims_per_s(count: int) -> float:
    """Sixty-four callers claim `count` jobs from one file; each answer waits for the disk."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        store = await SqliteStore.open(Path(folder) / "registry.db", clock=SystemClock(), durability="full")
        try:
            await asyncio.gather(*[store.run(jobs.enqueue(f"job-{n}", "bench", {})) for n in range(count)])
            started = time.perf_counter()
            claimed = await asyncio.gather(*[_claim_all(store, f"worker-{n}") for n in range(CALLERS)])
            took_s = time.perf_counter() - started
        finally:
            await store.close()
    names = [name for each in claimed for name in each]
    assert len(names) == len(set(names)) == count, "each job is claimed once"
    return count / took_s


async def _claim_all(store: SqliteStore, worker: str) -> list[str]:
    mine: list[str] = []
    while (job := await store.run(jobs.claim(worker, lease_ms=LEASE_MS))) is not None:
        mine.append(job.job_id)
    return mine


def committed_claims_per_s(count: int) -> float:
    """The same work as most people would write it: one statement, one durable commit, one caller after the other."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        connection = sqlite3.connect(Path(folder) / "peer.db", isolation_level=None)
        try:
            _prepare(connection, count)
            started = time.perf_counter()
            for _ in range(count):
                assert connection.execute(_CLAIM).fetchone() is not None
            return count / (time.perf_counter() - started)
        finally:
            connection.close()


_CLAIM = """
    UPDATE jobs SET state = 'in_progress', claimed_by = 'w', claim_expires_at = 1, fence = fence + 1
    WHERE job_id = (SELECT job_id FROM jobs WHERE state = 'queued' ORDER BY due LIMIT 1) RETURNING *
"""


def _prepare(connection: sqlite3.Connection, count: int) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE jobs (job_id TEXT PRIMARY KEY, state TEXT, due INTEGER, claimed_by TEXT, "
        "claim_expires_at INTEGER, fence INTEGER) WITHOUT ROWID"
    )
    connection.execute("CREATE INDEX queue ON jobs (state, due)")
    connection.execute("BEGIN")
    rows = ((f"job-{n}", n) for n in range(count))
    connection.executemany("INSERT INTO jobs VALUES (?, 'queued', ?, NULL, NULL, 0)", rows)
    connection.execute("COMMIT")
