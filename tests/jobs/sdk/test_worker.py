"""The worker against a real server: handlers, heartbeats, cancellation, stopping."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import pytest

from argosy.base.errors import Invalid, NotFound, NotOwner, Unauthorized, Unavailable
from argosy.base.tracing import NO_TRACER, Attribute, Span
from argosy.jobs import JobCancelled, JobFailed, JobsClient, TaskContext, Worker, job, new_job
from argosy.jobs.model import FloatingLimit, JobStatus, RetryPolicy
from argosy.jobs.rpc.call_context import Access
from argosy.jobs.sdk import worker as worker_module
from tests.jobs.rpc.stage import HERE, Stage, open_stage
from tests.jobs.sdk.threaded_server import PATIENCE_S, wait_until

GROUP = "mail"
POLL_S = 0.2


@pytest.fixture(autouse=True)
def _frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "HEARTBEATS_PER_LEASE", 100)


@asynccontextmanager
async def run_worker(worker: Worker) -> AsyncIterator[Worker]:
    task = asyncio.ensure_future(worker.run())
    try:
        yield worker
        worker.stop()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def worker_of(client: JobsClient, **options: Any) -> Worker:
    return Worker(client, **{"poll_s": POLL_S, "name": "w", **options})


async def test_async_and_sync_handlers_return_results(client: JobsClient) -> None:
    worker = worker_of(client)

    @worker.handler("async")
    async def greet(payload: dict[str, str]) -> str:
        return f"hello {payload['name']}"

    @worker.handler("threads")
    def double(payload: int, context: TaskContext) -> dict[str, object]:
        return {"twice": payload * 2, "attempt": context.attempt, "in": threading.current_thread().name}

    async with run_worker(worker):
        first = await client.enqueue("async", {"name": "ada"})
        second = await client.enqueue("threads", 21)
        assert await first.result(PATIENCE_S) == "hello ada"
        result = await second.result(PATIENCE_S)
    assert result == {"twice": 42, "attempt": 1, "in": f"job {second.id}"}


async def test_decorated_functions_are_added_and_a_group_has_one_handler(client: JobsClient) -> None:
    @job("a")
    async def one(payload: object) -> int:
        return 1

    worker = worker_of(client)
    assert worker.add([one, print]) == ["a"]
    with pytest.raises(Invalid, match="already has a handler"):
        worker.handler("a")(lambda payload: 2)
    async with run_worker(worker):
        assert await (await client.enqueue("a")).result(PATIENCE_S) == 1


async def test_a_worker_without_handlers_or_slots_is_rejected(client: JobsClient) -> None:
    with pytest.raises(Invalid, match="needs a handler"):
        await worker_of(client).run()
    with pytest.raises(Invalid, match="between 1 and 1000"):
        worker_of(client, concurrency=0)


@pytest.mark.parametrize("error", [ValueError("no such address"), SystemExit("bye")])
async def test_an_exception_is_a_failure_with_its_details(client: JobsClient, error: BaseException) -> None:
    worker = worker_of(client)

    @worker.handler("async")
    async def fail(payload: object) -> None:
        raise error

    @worker.handler("threads")
    def fail_too(payload: object) -> None:
        raise error

    async with run_worker(worker):
        for group in ("async", "threads"):
            handle = await client.enqueue(group)
            with pytest.raises(JobFailed) as raised:
                await handle.result(PATIENCE_S)
            assert raised.value.code == "HANDLER_ERROR"
            assert type(error).__name__ in raised.value.data["traceback"]


async def test_a_failed_handler_is_logged_with_its_retry(client: JobsClient, caplog: pytest.LogCaptureFixture) -> None:
    worker = worker_of(client)

    @worker.handler(GROUP)
    async def fail(payload: object) -> None:
        raise ValueError("no such address")

    async with run_worker(worker):
        handle = await client.enqueue(GROUP, id="j", retry=RetryPolicy(1))
        with pytest.raises(JobFailed):
            await handle.result(PATIENCE_S)
    error_from_status = [record.getMessage() for record in caplog.records if "handler" in record.getMessage()]
    about = 'handler failed job=j group=mail attempt={} error=ValueError why="no such address" is_retried={}'
    assert error_from_status == [about.format(1, "true"), about.format(2, "false")]


async def test_an_unencodable_result_is_a_failure(client: JobsClient) -> None:
    worker = worker_of(client)

    @worker.handler(GROUP)
    async def strange(payload: object) -> object:
        return object()

    async with run_worker(worker):
        with pytest.raises(JobFailed, match="cannot encode the value"):
            await (await client.enqueue(GROUP)).result(PATIENCE_S)


async def test_retries_call_the_handler_again(client: JobsClient) -> None:
    worker = worker_of(client)
    tries: list[tuple[int, bool]] = []

    @worker.handler(GROUP)
    async def shaky(payload: object, context: TaskContext) -> int:
        tries.append((context.attempt, context.is_last_attempt))
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return len(tries)

    async with run_worker(worker):
        handle = await client.enqueue(GROUP, retry=RetryPolicy(2))
        assert await handle.result(PATIENCE_S) == 3
    assert tries == [(1, False), (2, False), (3, True)]


async def test_no_more_tasks_are_leased_than_slots_and_all_complete(client: JobsClient) -> None:
    worker = worker_of(client, concurrency=3)
    now, most = 0, 0

    @worker.handler(GROUP)
    async def count_concurrency(payload: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return payload

    async with run_worker(worker):
        handles = await client.enqueue_many([new_job(GROUP, at) for at in range(50)])
        results = [await handle.result(PATIENCE_S) for handle in handles]  # type: ignore[union-attr]
    assert results == list(range(50))
    assert 1 <= most <= 3


async def test_more_groups_than_slots_are_polled_in_turn(client: JobsClient) -> None:
    worker = worker_of(client, concurrency=1)
    groups = ["a", "b", "c"]
    for group in groups:
        worker.handler(group)(lambda payload: payload)
    async with run_worker(worker):
        handles = [await client.enqueue(group, group) for group in groups]
        assert [await handle.result(PATIENCE_S) for handle in handles] == groups


async def test_a_cancelled_job_cancels_an_async_handler(client: JobsClient) -> None:
    worker = worker_of(client)
    started, ended = asyncio.Event(), asyncio.Event()

    @worker.handler(GROUP)
    async def endless(payload: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with run_worker(worker):
        handle = await client.enqueue(GROUP)
        await started.wait()
        await handle.cancel()
        with pytest.raises(JobCancelled):
            await handle.result(PATIENCE_S)
        assert ended.is_set()


async def test_a_cancelled_job_sets_the_flag_of_a_sync_handler(client: JobsClient) -> None:
    worker = worker_of(client)
    started = threading.Event()

    @worker.handler(GROUP)
    def patient(payload: object, context: TaskContext) -> None:
        started.set()
        while True:
            context.check()

    async with run_worker(worker):
        handle = await client.enqueue(GROUP)
        await wait_until(started.is_set)
        await handle.cancel()
        with pytest.raises(JobCancelled):
            await handle.result(PATIENCE_S)


async def test_progress_is_visible_while_the_handler_runs(stage: Stage, client: JobsClient) -> None:
    worker = worker_of(client)
    progress_seen = asyncio.Event()

    @worker.handler(GROUP)
    async def slow(payload: object, context: TaskContext) -> None:
        context.progress({"done": 1})
        context.progress({"done": 2})
        await progress_seen.wait()

    async with run_worker(worker):
        handle = await client.enqueue(GROUP)
        seen_values = []
        async with asyncio.timeout(PATIENCE_S):
            while {"done": 2} not in seen_values:
                seen_values.append((await handle.info()).progress)
        progress_seen.set()
        await handle.result(PATIENCE_S)
    assert seen_values[-1] == {"done": 2}


async def test_a_lost_lease_cancels_the_handler_without_a_report(stage: Stage, client: JobsClient) -> None:
    worker = worker_of(client)
    started, ended = asyncio.Event(), asyncio.Event()

    @worker.handler(GROUP)
    async def endless(payload: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    shard = stage.node.shards[HERE]

    async def no_lease(*_: object, **__: object) -> None:
        raise NotFound("lease not found")

    async with run_worker(worker):
        handle = await client.enqueue(GROUP)
        await started.wait()
        shard.heartbeat = no_lease  # type: ignore[method-assign, assignment]
        await ended.wait()
        await wait_until(lambda: not worker.tasks)
        assert (await handle.info()).status == JobStatus.RUNNING  # as far as the broker knows


async def test_an_outcome_is_reported_again_while_the_shard_is_unavailable(stage: Stage, client: JobsClient) -> None:
    worker = worker_of(client)

    @worker.handler(GROUP)
    async def outcome_while_unavailable(payload: object) -> str:
        stage.node.failures[HERE] = Unavailable("shard not ready: acquisition in progress")
        return "told"

    async with run_worker(worker):
        handle = await client.enqueue(GROUP)
        await wait_until(lambda: HERE in stage.node.failures)
        del stage.node.failures[HERE]
        assert await handle.result(PATIENCE_S) == "told"


async def test_a_task_whose_shard_moved_is_reported_to_its_new_node() -> None:
    """Both servers use the same shards, as nodes before and after a move do."""
    async with open_stage() as old, open_stage() as new, JobsClient.connect(old.address) as client:
        new.node.shards = old.node.shards
        worker = worker_of(client)

        @worker.handler(GROUP)
        async def with_address(payload: object) -> str:
            old.node.failures[HERE] = NotOwner("it left", hint=new.address)
            return "there"

        async with run_worker(worker):
            handle = await client.enqueue(GROUP)
            assert await handle.result(PATIENCE_S) == "there"
        new.node.shards = {}  # the other node closes them


async def test_stopping_waits_for_running_tasks(client: JobsClient) -> None:
    worker = worker_of(client)
    started, may_end = asyncio.Event(), asyncio.Event()

    @worker.handler(GROUP)
    async def slow(payload: object) -> str:
        started.set()
        await may_end.wait()
        return "ended"

    task = asyncio.ensure_future(worker.run())
    handle = await client.enqueue(GROUP)
    await started.wait()
    worker.stop()
    await client.enqueue(GROUP, id="later")
    may_end.set()
    await task
    assert await handle.result() == "ended"
    assert worker.tasks == 0


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_task_that_does_not_end_in_time_is_released(client: JobsClient, is_async: bool) -> None:
    worker = worker_of(client, stop_s=0.0)
    started, never = threading.Event(), threading.Event()

    async def endless(payload: object) -> None:
        started.set()
        await asyncio.Event().wait()

    def stuck(payload: object) -> None:
        started.set()
        never.wait()

    worker.handler(GROUP)(endless if is_async else stuck)
    task = asyncio.ensure_future(worker.run())
    handle = await client.enqueue(GROUP)  # no retry policy, and none is needed
    await wait_until(started.is_set)
    worker.stop()
    await task
    never.set()
    info = await handle.info(with_attempts=True)
    assert info.status == JobStatus.SCHEDULED  # for another worker, without waiting for the lease to end
    assert [attempt.error_code for attempt in info.attempts] == ["WORKER_STOPPED"]


async def test_a_rejected_token_ends_the_worker() -> None:
    async with (
        open_stage(access=Access(["a-good-secret"])) as stage,
        JobsClient.connect(stage.address, token="a-bad-secret") as client,
    ):
        worker = worker_of(client)
        worker.handler(GROUP)(lambda payload: None)
        with pytest.raises(Unauthorized):
            await worker.run()


async def test_a_worker_waits_for_a_node_that_starts_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MAP_S", 0.05)
    async with open_stage() as stage, JobsClient.connect("127.0.0.1:9") as client:
        worker = worker_of(client)
        worker.handler(GROUP)(lambda payload: payload)
        async with run_worker(worker), JobsClient.connect(stage.address) as other:
            client.router.shared.seeds = ("127.0.0.1:9", stage.address)
            assert await (await other.enqueue(GROUP, 5)).result(PATIENCE_S) == 5


async def test_a_floating_limit_is_refreshed_by_the_worker(stage: Stage, client: JobsClient) -> None:
    worker = worker_of(client)
    refreshes: list[tuple[str, int, dict[str, str]]] = []
    may_end = asyncio.Event()

    @worker.refresher
    async def height(key: str, now: int, metadata: Any) -> int:
        refreshes.append((key, now, dict(metadata)))
        return 2

    @worker.handler(GROUP)
    async def slow(payload: object) -> None:
        await may_end.wait()

    limit = FloatingLimit("api", 1, 1_000, {"account": "7"})
    async with run_worker(worker):
        await client.enqueue(GROUP, limits=(limit,))
        await wait_until(lambda: worker.tasks == 1)
        stage.node.now += 2_000
        await client.enqueue(GROUP, limits=(limit,))  # waits, which triggers a refresh
        await wait_until(lambda: worker.tasks == 2)
        may_end.set()
    assert refreshes[0] == ("api", 1, {"account": "7"})


class Recorder:
    """A tracer that records which traces were continued, and has a current trace itself."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        self.continued_with: list[Mapping[str, str]] = []

    def span(self, name: str, /, **attributes: Attribute) -> AbstractContextManager[Span]:
        return NO_TRACER.span(name, **attributes)

    def inject(self) -> dict[str, str]:
        return {"traceparent": self.trace}

    def extract(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        self.continued_with.append(headers)
        return nullcontext()


async def test_the_trace_of_the_enqueue_reaches_the_handler(stage: Stage) -> None:
    tracer = Recorder("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    async with JobsClient.connect(stage.address, tracer=tracer) as client:
        worker = worker_of(client, tracer=tracer)

        @worker.handler(GROUP)
        async def handle_traced(payload: object, context: TaskContext) -> str:
            return context.trace

        async with run_worker(worker):
            assert await (await client.enqueue(GROUP)).result(PATIENCE_S) == tracer.trace
    assert tracer.continued_with == [{"traceparent": tracer.trace}]
