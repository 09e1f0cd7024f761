"""No acknowledged commit is lost or partial: when the process is killed, and when the disk is full."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Unavailable
from argosy.registry.backends.sqlite import SqliteStore
from argosy.registry.transaction import Append, CountRows, Find, Get, Put, ReadLog, Upsert
from tests.registry.sqlite_stage import BALLS, Ball, commit_of, opened, reads_of

ANSWERED_BEFORE_THE_KILL = 300

# Each commit writes a row, its twin and a log entry; it is acknowledged on stdout after it is answered.
WRITER = """
import asyncio, os, sys
from argosy.base.clock import SystemClock
from argosy.registry.backends.sqlite import SqliteStore
from argosy.registry.transaction import Append, Put
from tests.registry.sqlite_stage import BALLS, TABLES, Ball, commit_of

async def write(store, name):
    for number in range(100_000):
        label = f"{name}-{number}"
        pair = (Put(BALLS, Ball(label, owner=label)), Put(BALLS, Ball(label + "-twin", owner=label)))
        await store.run(commit_of(*pair, Append("log", label.encode())))
        os.write(1, (label + "\\n").encode())

async def main():
    store = await SqliteStore.open(sys.argv[1], clock=SystemClock(), tables=TABLES)
    await asyncio.gather(*(write(store, name) for name in "abcdefgh"))

asyncio.run(main())
"""


def acknowledged_until_killed(path: Path, count: int) -> list[str]:
    """The commits a process has acknowledged when it is killed, after so many."""
    command = [sys.executable, "-c", WRITER, str(path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(count)]
        process.send_signal(signal.SIGKILL)
        return acknowledged + process.stdout.read().split()


async def rows(store: SqliteStore) -> list[Ball]:
    return [Ball(**values) async for kind, values in store.dump() if kind == "balls"]


@pytest.mark.parametrize("turn", range(3))
async def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path, turn: int) -> None:
    acknowledged = acknowledged_until_killed(tmp_path / "r.db", ANSWERED_BEFORE_THE_KILL + turn * 37)
    assert len(acknowledged) >= ANSWERED_BEFORE_THE_KILL
    async with opened(tmp_path / "r.db", clock=SystemClock()) as store:
        assert await store.check() == []
        names = {ball.name for ball in await rows(store)}
        assert set(acknowledged) <= names
        whole = {name for name in names if not name.endswith("-twin")}
        assert names == whole | {f"{name}-twin" for name in whole}
        log = await store.run(reads_of(ReadLog("log", 1_000_000)))
        assert {entry.decode() for entry in log.entries} == whole
        assert await store.revision() == len(names)


def _pages_max(count: int) -> Any:
    return lambda session: session.cursor.execute(f"PRAGMA max_page_count = {count}").fetchone()


async def test_a_full_disk_rejects_whole_commits_and_keeps_earlier_ones(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db") as store:
        await store._writer.submit(_pages_max(60))
        rows_seen: list[str] = []
        refusals: list[str] = []
        for number in range(60):
            pair = (Put(BALLS, Ball(f"{number}", owner="x" * 2000)), Append("log", b"y" * 2000))
            try:
                await store.run(commit_of(*pair))
                rows_seen.append(f"{number}")
            except Unavailable as error:
                refusals.append(str(error))
        assert refusals
        assert all("its disk is full: free some space, then retry" in refusal for refusal in refusals)
        count, log = await store.run(reads_of(CountRows(BALLS, "all"), ReadLog("log", 1)))
        assert (count, log.length) == (len(rows_seen), len(rows_seen))
        await store._writer.submit(_pages_max(10_000))
        await store.run(commit_of(Put(BALLS, Ball("room again"))))
    async with opened(tmp_path / "r.db") as store:
        assert await store.check() == []
        assert {ball.name for ball in await store.run(reads_of(Find(BALLS, "all")))} == {*rows_seen, "room again"}
        assert await store.revision() == len(rows_seen) + 1


async def test_all_calls_of_a_batch_that_fails_fail(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db") as store:
        await store._writer.submit(_pages_max(40))
        writes = (store.run(commit_of(Upsert(BALLS, Ball(f"{n}", owner="x" * 3000)))) for n in range(100))
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert {type(answer) for answer in answers} == {Unavailable}
        assert await store.run(reads_of(Get(BALLS, ("0",)))) is None
        assert await store.revision() == 0
