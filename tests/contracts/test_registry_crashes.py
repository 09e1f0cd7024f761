"""A caller that dies between any two steps of an operation leaves all of it or nothing; so does a crashing server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from argosy.base.errors import Unavailable
from argosy.registry import aliases, canaries, changes, jobs, leadership, limits, sessions, tasks
from argosy.registry.rows import ControlJobState, RunStatus, TaskStatus
from argosy.registry.transaction import Transaction, TransactionBody
from tests.contracts.registry_stage import LoadingStore, Stage
from tests.contracts.test_registry_dump import dump_sorted
from tests.servers.valkey import Valkey

STEPS_MAX = 20


class Crash(BaseException):
    """The caller has died."""


def with_crash(operation: Transaction[Any], after: int) -> Transaction[Any]:
    """The operation, whose caller dies after `after` of its steps."""

    def program() -> TransactionBody[Any]:
        steps = operation.begin()
        answer: Any = None
        for _ in range(after):
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            answer = yield step
        raise Crash

    return Transaction(program)


async def fill(store: LoadingStore) -> None:
    """Data for each operation to work on."""
    await store.run(jobs.enqueue("waiting", "index", {}))
    await store.run(jobs.enqueue("big", "index", {}, priority=1))
    await store.run(jobs.claim("w", lease_ms=60_000))
    await store.run(aliases.create("docs", ["docs-1"]))
    await store.run(canaries.create("c", "n", index_uid="i", interval_s=1, query={}, assertions=[]))
    await store.run(canaries.append_run("c", RunStatus.PASS, 1))
    await store.run(changes.push("hook", b"12345", 12))
    await store.run(changes.push("hook", b"67890", 12))
    await store.run(tasks.insert("t", task_uid=1))


OPERATIONS: dict[str, Callable[[], Transaction[Any]]] = {
    "claim": lambda: jobs.claim("other", lease_ms=60_000),
    "split": lambda: jobs.split("big", "w", 1, [{"part": 1}, {"part": 2}]),
    "complete": lambda: jobs.complete("big", "w", 1),
    "flip": lambda: aliases.flip("docs", ["docs-2"]),
    "remove a canary with its runs": lambda: canaries.remove("c"),
    "overflow": lambda: changes.push("hook", b"abcde", 12),
    "lead": lambda: leadership.acquire("reshard", "pod", ttl_ms=1000),
    "fail to log in": lambda: limits.login_failed("::1"),
    "end a task": lambda: tasks.set_status("t", TaskStatus.SUCCEEDED),
    "log in": lambda: sessions.insert_admin("s", csrf_token="c", admin_key_hash="a" * 64, ttl_ms=60_000),
}


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_crash_between_any_two_steps_leaves_all_or_nothing(name: str, stage: Stage) -> None:
    store = await stage.open()
    await fill(store)
    before, outcomes = await dump_sorted(store), []
    for after in range(STEPS_MAX):
        try:
            await store.run(with_crash(OPERATIONS[name](), after))
            break
        except Crash:
            outcomes.append(await dump_sorted(store) != before)
            if outcomes[-1]:
                break
    assert outcomes
    assert not any(outcomes[:-1]), "nothing is written before the commit, which is the last step"
    assert await dump_sorted(store) != before


@pytest.fixture
async def durable_stage(tmp_path: Any) -> AsyncIterator[tuple[Valkey, Stage]]:
    with Valkey(is_durable=True, options=("--appendfsync", "always")) as server:
        stage = Stage("valkey", server.url)
        yield server, stage
        await stage.close()


async def test_a_server_killed_while_writing_keeps_acknowledged_writes_and_no_partial_ones(
    durable_stage: tuple[Valkey, Stage],
) -> None:
    server, stage = durable_stage
    store = await stage.open()
    acknowledged: list[str] = []
    enough = asyncio.Event()

    async def write(worker: int) -> None:
        for number in range(10_000):
            try:
                await store.run(jobs.enqueue(f"{worker}-{number}", "index", {"n": number}))
            except Unavailable:
                return
            acknowledged.append(f"{worker}-{number}")
            if len(acknowledged) >= 500:
                enough.set()

    writers = [asyncio.ensure_future(write(worker)) for worker in range(20)]
    await enough.wait()
    server.kill()
    await asyncio.gather(*writers)
    server.start()
    again = await stage.reopen()
    try:
        stored = {job.job_id: job async for job in every_job(again)}
        assert set(acknowledged) <= stored.keys()
        assert all(job.state is ControlJobState.QUEUED and job.params for job in stored.values())
        assert await again.run(jobs.count(ControlJobState.QUEUED)) == len(stored)
    finally:
        await again.close()


async def every_job(store: LoadingStore) -> AsyncIterator[Any]:
    async for table, values in store.dump():
        if table == "jobs":
            job = await store.run(jobs.read(values["job_id"]))
            assert job is not None
            yield job
