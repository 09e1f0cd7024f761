"""The whole broker in one process on SlateDB: started, used, split, closed, started again."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, NotFound
from argosy.base.kv import Batch
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.embedded import open_broker
from argosy.jobs.model import NO_TENANT, JobStatus, NewJob, TaskSuccess
from argosy.jobs.settings import ShardStoreSettings

RECONCILE_S = 0.05
FAST = ShardStoreSettings(fsync="never")


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  there is no event to wait for; the test's timeout bounds the loop
        await asyncio.sleep(0)


async def put(broker: JobsNode, *ids: str) -> None:
    answers = await broker.shard(broker.shard_of(NO_TENANT)).enqueue([NewJob("g", id=each) for each in ids])
    assert answers == list(ids)


async def test_jobs_and_shard_ids_survive_a_restart(tmp_path: Path) -> None:
    async with open_broker(f"file://{tmp_path}", stored=FAST) as broker:
        places = broker.topology().shards
        await put(broker, "a", "b")
        (given,) = await broker.lease("g", "w", 1)
        await broker.shard(given.shard_id).report([(given.tasks[0].task.id, TaskSuccess(b"done"))])
    async with open_broker(f"file://{tmp_path}", stored=FAST) as broker:
        assert broker.topology().shards == places
        shard = broker.shard(broker.shard_of(NO_TENANT))
        statuses = [(await shard.get(NO_TENANT, each)).state.status for each in ("a", "b")]
        assert sorted(statuses) == [JobStatus.SCHEDULED, JobStatus.SUCCEEDED]


async def test_a_split_on_slatedb_keeps_every_job_and_every_lease(tmp_path: Path) -> None:
    async with open_broker(f"file://{tmp_path}", stored=FAST) as broker:
        ids = [f"j{number}" for number in range(20)]
        await put(broker, *ids)
        (running,) = await broker.lease("g", "w", 5)
        parent = broker.shard_of(NO_TENANT)
        split = await broker.split(parent, "")
        await wait_until(lambda: len(broker.local()) == 2 and broker.shard_of(NO_TENANT) != parent)
        home = broker.shard_of(NO_TENANT)
        assert home == split.left
        reported = await broker.shard(home).report(
            [(task.task.id, TaskSuccess()) for task in running.tasks], worker="w"
        )
        assert reported == [None] * 5
        given = [task.job.id for each in await broker.lease("g", "w", 100) for task in each.tasks]
        assert sorted([*given, *(task.job.id for task in running.tasks)]) == sorted(ids)
        assert (await broker.stats(home)).total_jobs == 20
        await broker.flush(home)
    async with open_broker(f"file://{tmp_path}", stored=FAST) as broker:
        assert {place.id for place in broker.topology().shards} == {split.left, split.right}


async def test_a_second_process_on_the_same_directory_is_rejected(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from argosy.base.errors import Conflict\n"
        "from argosy.jobs.embedded import lock_dir\n"
        "try:\n"
        "    with lock_dir(sys.argv[1]): pass\n"
        "except Conflict as why: sys.exit(str(why))\n"
    )
    async with open_broker(f"file://{tmp_path}", stored=FAST):
        with pytest.raises(Conflict, match="in use by another process"):
            async with open_broker(f"file://{tmp_path}", stored=FAST):
                pass
        command = [sys.executable, "-c", code, f"file://{tmp_path}"]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert "in use by another process" in done.stderr
    async with open_broker(f"file://{tmp_path}", stored=FAST) as broker:
        assert broker.is_ready()


async def test_an_operator_can_list_and_compact_tables() -> None:
    store = await SlateShardStore.open("memory://", FAST)
    for number in range(3):
        rows = await store.shard("s")
        await rows.write(Batch().put(f"k{number}".encode(), b"v"))
        await rows.close()
    before = await store.storage("s")
    assert before.l0_ssts == 3
    assert before.l0_bytes > 0
    rows = await store.shard("s")
    await store.compact("s")
    while (await store.storage("s")).l0_ssts:  # noqa: ASYNC110
        await asyncio.sleep(RECONCILE_S)  # SlateDB polls for such requests every few seconds
    assert [run.ssts for run in (await store.storage("s")).runs] == [1]
    with pytest.raises(Conflict, match="nothing to compact"):
        await store.compact("s")
    with pytest.raises(NotFound):
        await store.storage("unknown")
    await rows.close()
    await store.close()
