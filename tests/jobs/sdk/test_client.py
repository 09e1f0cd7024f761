"""The client against real servers: routing, retries, results, errors."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound, NotOwner, Unauthorized, Unavailable
from argosy.base.retry import Backoff
from argosy.jobs import JobCancelled, JobFailed, JobHandle, JobsClient, NotDone, new_job
from argosy.jobs.model import JobStatus, RetryPolicy, TaskFailure, TaskSuccess
from argosy.jobs.rpc.call_context import Access
from argosy.jobs.rpc.server import REQUESTS, server_credentials
from argosy.jobs.sdk.links import GrpcLinks, channel_credentials
from argosy.jobs.sdk.router import ShardRouter, SharedRouting
from tests.jobs.rpc.stage import ACQUIRING, HERE, Stage, open_stage
from tests.jobs.sdk.threaded_server import wait_until
from tests.throttle.limits.test_tls import Authority

QUICK = Backoff(first_s=0.01, ceiling_s=0.02, attempts_max=4)
SECRET = "a-good-secret"
GROUP = "mail"


def quick_client(*addresses: str) -> JobsClient:
    """A client with short retry delays."""
    known = SharedRouting(GrpcLinks(), addresses)
    return JobsClient(ShardRouter(known, clock=SystemClock(), random=seeded_random(1), backoff=QUICK))


def calls_of(stage: Stage, method: str, status: str = "OK") -> float:
    return stage.metrics.value(REQUESTS, service="argosy.jobs.v1.Jobs", method=method, status=status)


async def finish(stage: Stage, *, code: str = "", data: bytes = b"") -> None:
    """Complete the due tasks, as a worker does."""
    shard = stage.node.shards[HERE]
    tasks, _ = await shard.lease(GROUP, "w", 100)
    await shard.report([(leased.task.id, TaskFailure(code, data) if code else TaskSuccess(data)) for leased in tasks])


async def test_an_enqueued_job_can_be_inspected(client: JobsClient) -> None:
    handle = await client.enqueue(
        GROUP, {"to": "ada"}, id="j-1", priority=7, metadata={"k": "v"}, retry=RetryPolicy(2, 10, 20)
    )
    info = await handle.info()
    assert (info.id, info.status, info.payload, info.priority) == ("j-1", JobStatus.SCHEDULED, {"to": "ada"}, 7)
    assert (info.metadata, info.retry) == ({"k": "v"}, RetryPolicy(2, 10, 20))


async def test_results_round_trip(stage: Stage, client: JobsClient) -> None:
    handle = await client.enqueue(GROUP)
    waiting = asyncio.ensure_future(handle.result(timeout_s=20))
    await finish(stage, data=b"\x81\xa1n\x01")
    assert await waiting == {"n": 1}


async def test_a_failed_job_raises_its_workers_error(stage: Stage, client: JobsClient) -> None:
    handle = await client.enqueue(GROUP)
    await finish(stage, code="BAD", data=b"\xa4oops")
    with pytest.raises(JobFailed, match="failed with BAD: oops") as raised:
        await handle.result()
    assert (raised.value.code, raised.value.data) == ("BAD", "oops")


async def test_a_cancelled_or_unfinished_job_has_no_result(client: JobsClient) -> None:
    handle = await client.enqueue(GROUP)
    with pytest.raises(NotDone, match="scheduled after 0 s"):
        await handle.result(timeout_s=0)
    await handle.cancel()
    with pytest.raises(JobCancelled):
        await handle.result()


async def test_a_taken_id_is_a_conflict(client: JobsClient) -> None:
    await client.enqueue(GROUP, id="mine")
    with pytest.raises(Conflict):
        await client.enqueue(GROUP, id="mine")
    answers = await client.enqueue_many([new_job(GROUP, id="other"), new_job(GROUP, id="mine"), new_job("")])
    assert isinstance(answers[0], JobHandle)
    assert [type(answer) for answer in answers[1:]] == [Conflict, Invalid]


async def test_a_taken_unique_key_returns_its_job(client: JobsClient) -> None:
    first = await client.enqueue(GROUP, unique_key="once")
    second = await client.enqueue(GROUP, unique_key="once")
    assert first.id == second.id


async def test_many_jobs_take_few_calls_and_keep_their_order(stage: Stage, client: JobsClient) -> None:
    answers = await client.enqueue_many([new_job(GROUP, at, id=f"j-{at}") for at in range(2_500)])
    assert [answer.id for answer in answers if isinstance(answer, JobHandle)] == [f"j-{at}" for at in range(2_500)]
    assert calls_of(stage, "EnqueueBatch") == 3


async def test_a_batch_never_exceeds_the_message_limit(stage: Stage, client: JobsClient) -> None:
    answers = await client.enqueue_many([new_job(GROUP, bytes(5 << 20)) for _ in range(3)])
    assert not [answer for answer in answers if isinstance(answer, ArgosyError)]
    assert calls_of(stage, "EnqueueBatch") == 3


async def test_concurrent_enqueues_share_calls(stage: Stage) -> None:
    async with JobsClient.connect(stage.address, with_coalescing=True) as client:
        handles = await asyncio.gather(*(client.enqueue(GROUP, id=f"j-{at}") for at in range(100)))
        assert [handle.id for handle in handles] == [f"j-{at}" for at in range(100)]
        assert calls_of(stage, "EnqueueBatch") <= 5
        with pytest.raises(Conflict):
            await client.enqueue(GROUP, id="j-7")


async def test_jobs_are_found_page_by_page_by_status_and_metadata(client: JobsClient) -> None:
    for at in range(5):
        await client.enqueue(GROUP, id=f"j-{at}", metadata={"parity": str(at % 2)})
    await client.cancel("j-0")
    cancelled = await client.find(status=JobStatus.CANCELLED)
    odd = await client.find(metadata=("parity", "1"))
    first = await client.find(status=JobStatus.SCHEDULED, limit=3)
    rest = await client.find(status=JobStatus.SCHEDULED, after=first[-1].id)
    assert [info.id for info in cancelled] == ["j-0"]
    assert {info.id for info in odd} == {"j-1", "j-3"}
    assert {info.id for info in first + rest} == {"j-1", "j-2", "j-3", "j-4"}


async def test_jobs_are_cancelled_restarted_expedited_and_deleted(stage: Stage, client: JobsClient) -> None:
    handle = await client.enqueue(GROUP, delay_s=3600)
    assert (await handle.info()).next_start_at_ms > 0
    await client.expedite(handle.id)
    assert (await handle.info()).next_start_at_ms <= stage.node.now
    await client.cancel(handle.id)
    await client.restart(handle.id)
    assert (await handle.info()).status == JobStatus.SCHEDULED
    await client.cancel(handle.id)
    await client.delete(handle.id)
    with pytest.raises(NotFound, match=f"^{handle.id}: job not found$"):
        await handle.info()
    await client.delete(handle.id)


async def test_errors_name_the_rejected_job(client: JobsClient) -> None:
    for call in (client.get, client.result, client.cancel, client.restart, client.expedite):
        with pytest.raises(NotFound, match=r"^j: job not found$"):
            await call("j")
    await client.enqueue(GROUP, id="j")
    with pytest.raises(Conflict, match=r"^j: job cannot be deleted: it is scheduled$"):
        await client.delete("j")
    errors_by_id = await client.requeue(["j", "never"])
    assert {id: str(error) for id, error in errors_by_id.items()} == {
        "j": "job j is not a dead letter: it is scheduled",
        "never": "never: job not found",
    }


async def test_dead_letters_are_requeued(stage: Stage, client: JobsClient) -> None:
    dead, alive = await client.enqueue(GROUP), await client.enqueue("other")
    await finish(stage, code="BAD")
    assert [info.id for info in await client.find(is_dead=True)] == [dead.id]
    errors_by_id = await client.requeue([dead.id, alive.id])
    assert errors_by_id[dead.id] is None
    assert isinstance(errors_by_id[alive.id], Conflict)
    assert (await dead.info()).status == JobStatus.SCHEDULED


async def test_schedules_are_created_listed_and_deleted(client: JobsClient) -> None:
    await client.put_schedule("nightly", "0 3 * * *", GROUP, {"n": 1}, timezone="Europe/Berlin")
    [schedule] = await client.schedules()
    assert (schedule.name, schedule.cron, schedule.timezone) == ("nightly", "0 3 * * *", "Europe/Berlin")
    assert schedule.next_at > 0
    await client.delete_schedule("nightly")
    assert await client.schedules() == []
    with pytest.raises(Invalid):
        await client.put_schedule("bad", "whenever", GROUP)


async def test_a_moved_shard_is_followed_by_its_hint() -> None:
    async with open_stage() as old, open_stage() as new, JobsClient.connect(old.address) as client:
        await client.shards()
        old.node.failures[HERE] = NotOwner("it left", hint=new.address, node="node-2")
        handle = await client.enqueue(GROUP, id="moved")
        [batch] = await client.enqueue_many([new_job(GROUP, id="too")])
        assert isinstance(batch, JobHandle)
        assert (await handle.info()).id == "moved"
        assert {view.job.id for view in await new.node.shards[HERE].find("-")} == {"moved", "too"}
        assert calls_of(new, "EnqueueBatch") == 2  # the second went to the new owner directly


async def test_a_moved_shard_without_a_hint_is_looked_up_in_the_map(stage: Stage) -> None:
    async with quick_client(stage.address) as client:
        await client.shards()
        stage.node.failures[HERE] = NotOwner("it left")
        with pytest.raises(NotOwner):
            await client.enqueue(GROUP)
        assert calls_of(stage, "EnqueueBatch") == QUICK.attempts_max


async def test_an_unavailable_shard_is_retried(stage: Stage) -> None:
    async with quick_client(stage.address) as client:
        stage.node.failures[HERE] = ACQUIRING
        enqueued = asyncio.ensure_future(client.enqueue(GROUP))
        await wait_until(lambda: calls_of(stage, "EnqueueBatch") > 0)
        del stage.node.failures[HERE]
        assert (await (await enqueued).info()).status == JobStatus.SCHEDULED


async def test_an_enqueue_with_a_lost_response_is_applied_once(stage: Stage) -> None:
    """The first response is lost; the second reports that the id is taken, by the first attempt."""
    shard = stage.node.shards[HERE]
    enqueue, lost = shard.enqueue, [True]

    async def lose_response(jobs):  # type: ignore[no-untyped-def]
        answers = await enqueue(jobs)
        if lost:
            lost.clear()
            raise Unavailable("gone while answering")
        return answers

    shard.enqueue = lose_response  # type: ignore[method-assign]
    async with quick_client(stage.address) as client:
        handle = await client.enqueue(GROUP)
        assert [view.job.id for view in await shard.find("-")] == [handle.id]


async def test_retries_are_bounded_and_an_unreachable_node_is_named() -> None:
    async with quick_client("127.0.0.1:9") as client:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 unreachable: .*GetClusterInfo"):
            await client.get("x")
        [answer] = await client.enqueue_many([new_job(GROUP)])
        assert isinstance(answer, Unavailable)


async def test_one_reachable_seed_is_enough(stage: Stage) -> None:
    async with quick_client("127.0.0.1:9", stage.address) as client:
        assert (await client.enqueue(GROUP, id="j")).id == "j"


async def test_tenants_and_tokens() -> None:
    access = Access([SECRET], {"key-of-tenant-0": "tenant-0"})
    async with open_stage(with_tenants=True, access=access) as stage:
        async with JobsClient.connect(stage.address, tenant="tenant-0", token="wrong-secret") as stranger:
            with pytest.raises(Unauthorized):
                await stranger.enqueue(GROUP)
        async with JobsClient.connect(stage.address, tenant="tenant-0", token="key-of-tenant-0") as client:
            handle = await client.enqueue(GROUP)
            assert (await handle.info()).tenant == "tenant-0"
            assert [info.id for info in await client.find()] == [handle.id]
            with pytest.raises(ArgosyError, match="not for tenant"):
                await client.enqueue(GROUP, tenant="customer-123")


async def test_shards_are_listed_and_split(stage: Stage, client: JobsClient) -> None:
    places = await client.shards()
    assert [place.range_start for place in places] == ["", "8" + "0" * 15, "c" + "0" * 15]
    status = await client.split(HERE)
    assert status.point == "4" + "0" * 15
    assert (await client.split_status(HERE)).phase == "SplitRequested"
    with pytest.raises(NotFound, match="argosy shard list"):
        await client.split("nowhere")


@pytest.fixture
async def embedded_client(tmp_path: Path) -> AsyncIterator[JobsClient]:
    async with JobsClient.open_embedded(tmp_path / "a folder") as client:
        yield client


async def test_a_directory_is_an_embedded_broker_with_durable_jobs(tmp_path: Path) -> None:
    async with JobsClient.open_embedded(tmp_path) as client:
        await client.enqueue(GROUP, {"n": 1}, id="kept")
        with pytest.raises(Conflict, match="in use by another process"):
            async with JobsClient.open_embedded(tmp_path):
                pass
    async with JobsClient.open_embedded(tmp_path) as client:
        assert (await client.get("kept")).payload == {"n": 1}


async def test_errors_are_the_same_without_a_network(embedded_client: JobsClient) -> None:
    with pytest.raises(NotFound, match="job not found"):
        await embedded_client.get("nothing")
    await embedded_client.enqueue(GROUP, id="taken")
    with pytest.raises(Conflict):
        await embedded_client.enqueue(GROUP, id="taken")
    with pytest.raises(Conflict, match="tenant must not be provided"):
        await embedded_client.enqueue(GROUP, tenant="somebody")


async def test_over_mutual_tls_both_sides_are_verified() -> None:
    authority = Authority("ours")
    chain, key = authority.issue_certificate()
    own_chain, own_key = authority.issue_certificate()
    server = server_credentials(chain=chain, key=key, client_ca=authority.pem)
    known = channel_credentials(ca=authority.pem, cert=own_chain, key=own_key)
    async with open_stage(credentials=server, channel=known) as stage:
        async with JobsClient.connect(stage.address, credentials=known) as client:
            assert (await client.enqueue(GROUP, id="j")).id == "j"
        async with quick_client(stage.address) as stranger:
            with pytest.raises(Unavailable):
                await stranger.enqueue(GROUP)
