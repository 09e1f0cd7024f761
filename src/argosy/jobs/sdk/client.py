"""`JobsClient`: enqueue jobs, query them and wait for their results, from any process.

    async with JobsClient.connect("127.0.0.1:7450") as client:
        handle = await client.enqueue("mail", {"to": "ada"})
        print(await handle.result(timeout_s=60))

The client is given some nodes of a cluster and discovers the others. It assigns job ids before sending, so a retried
call enqueues each job once. `JobsClient.open_embedded(directory)` is the same without a server.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack
from uuid import uuid4

import grpc  # type: ignore[import-untyped, unused-ignore]
import msgspec

from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import ArgosyError, Conflict, Invalid
from argosy.base.retry import Backoff
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.api import codec
from argosy.jobs.model import FIND_DEFAULT, FIND_MAX, NO_TENANT, JobStatus, Limit, NewJob, RetryPolicy, Schedule
from argosy.jobs.ports import ShardInfo, SplitStatus
from argosy.jobs.sdk.codec import JobInfo, pack, read_job, unpack
from argosy.jobs.sdk.errors import JobCancelled, JobFailed, NotDone, add_job_id, error_from_item, with_job_id
from argosy.jobs.sdk.flow_control import Batcher
from argosy.jobs.sdk.links import (
    CANCEL,
    DELETE,
    DELETE_SCHEDULE,
    ENQUEUE,
    EXPEDITE,
    FIND,
    GET,
    PUT_SCHEDULE,
    REQUEUE,
    RESTART,
    SCHEDULES,
    SPLIT,
    SPLIT_STATUS,
    GrpcLinks,
    NodeLinks,
    RpcMethod,
)
from argosy.jobs.sdk.router import TIMEOUT_S, ShardRouter, SharedRouting
from argosy.jobs.sdk.task_leases import ITEM_BYTES
from argosy.jobs.sdk.validation import check_new_job, find_error, start_at_ms
from argosy.jobs.shard.validation import check_number
from argosy.jobs.silo import silo_pb2 as silo
from argosy.jobs.silo.codec import to_status

# Between two polls for a result: short jobs are found soon, and a job of hours costs one read a second.
POLL_BACKOFF = Backoff(first_s=0.02, ceiling_s=1.0, attempts_max=1_000_000)


class JobOptions(TypedDict, total=False):
    """Options of a job besides its group and payload; see `NewJob`."""

    id: str
    priority: int
    start_at_ms: int
    retry: RetryPolicy | None
    limits: tuple[Limit, ...]
    metadata: Mapping[str, str]
    unique_key: str
    unique_for_ms: int
    after: tuple[str, ...]
    retention_ms: int
    trace: str


@dataclass(frozen=True)
class JobHandle:
    """A job that was enqueued."""

    client: "JobsClient"
    id: str
    tenant: str

    async def info(self, *, with_attempts: bool = False) -> JobInfo:
        return await self.client.get(self.id, tenant=self.tenant, with_attempts=with_attempts)

    async def result(self, timeout_s: float | None = None) -> Any:
        return await self.client.result(self.id, tenant=self.tenant, timeout_s=timeout_s)

    async def cancel(self) -> None:
        await self.client.cancel(self.id, tenant=self.tenant)


class JobsClient:
    """One per process is enough: it is safe for concurrent tasks."""

    def __init__(
        self,
        router: ShardRouter,
        *,
        tenant: str = NO_TENANT,
        tracer: Tracer = NO_TRACER,
        with_coalescing: bool = False,
    ) -> None:
        self.router = router
        self.tenant = tenant
        self._tracer = tracer
        # Off by default: a caller that awaits one job after the other would gain nothing.
        self._enqueue_batcher: Batcher[NewJob, str] | None = Batcher(self._enqueue) if with_coalescing else None

    @classmethod
    def connect(
        cls,
        *addresses: str,
        tenant: str = NO_TENANT,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        timeout_s: float = TIMEOUT_S,
        tracer: Tracer = NO_TRACER,
        with_coalescing: bool = False,
    ) -> "JobsClient":
        """Of a cluster, given some of its nodes as host:port. With coalescing, single jobs that are enqueued at the
        same time share a call."""
        links = GrpcLinks(credentials)  # connects on first use: a client can be made before its cluster is up
        return cls.over(
            links,
            addresses,
            tenant=tenant,
            token=token,
            timeout_s=timeout_s,
            tracer=tracer,
            with_coalescing=with_coalescing,
        )

    @classmethod
    def over(
        cls,
        links: NodeLinks,
        addresses: Sequence[str] = ("",),
        *,
        tenant: str = NO_TENANT,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        clock: Clock | None = None,
        random: Random | None = None,
        tracer: Tracer = NO_TRACER,
        with_coalescing: bool = False,
    ) -> "JobsClient":
        """A client over any kind of links."""
        router = ShardRouter(
            SharedRouting(links, addresses),
            clock=clock or SystemClock(),
            random=random or system_random(),
            headers=_headers(token),
            timeout_s=timeout_s,
        )
        return cls(router, tenant=tenant, tracer=tracer, with_coalescing=with_coalescing)

    @classmethod
    @asynccontextmanager
    async def open_embedded(
        cls, folder: str | Path, *, tenant: str = NO_TENANT, tracer: Tracer = NO_TRACER
    ) -> AsyncIterator["JobsClient"]:
        """The whole broker in this process, its jobs in a directory or at a URL; Conflict if another process has it."""
        from argosy.jobs.embedded import open_broker  # clients of a server load no broker
        from argosy.jobs.sdk.local_links import LocalLink, LocalLinks

        async with open_broker(url_of(folder)) as node:
            yield cls.over(LocalLinks(LocalLink(node, with_tenants=tenant != NO_TENANT)), tenant=tenant, tracer=tracer)

    def caller(self, headers: Mapping[str, str], *, tenant: str = NO_TENANT) -> "JobsClient":
        """A client that sends another caller's headers, over the same links."""
        return JobsClient(self.router.with_headers(headers), tenant=tenant, tracer=self._tracer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.router.shared.links.close()

    async def enqueue(
        self,
        task_group: str,
        payload: object = None,
        *,
        tenant: str | None = None,
        delay_s: float = 0.0,
        **options: Unpack[JobOptions],
    ) -> JobHandle:
        """Returns when the job is durable. Conflict if its id exists; a taken `unique_key` gives its job."""
        job = NewJob(task_group, pack(payload), tenant or self.tenant, **options)
        # By the client's clock: the broker has no notion of a delay, only of a start.
        if delay_s:
            job = msgspec.structs.replace(job, start_at_ms=start_at_ms(delay_s, self.router.clock.wall()))
        if self._enqueue_batcher is not None:
            return JobHandle(self, await self._enqueue_batcher.add(job), job.tenant)
        [answer] = await self._enqueue([job])
        if isinstance(answer, ArgosyError):
            raise answer
        return JobHandle(self, answer, job.tenant)

    async def enqueue_many(self, jobs: Sequence[NewJob]) -> list[JobHandle | ArgosyError]:
        """Any number of jobs, each answered in its place; `new_job` builds one from an unencoded payload."""
        answers = await self._enqueue(jobs)
        return [
            answer if isinstance(answer, ArgosyError) else JobHandle(self, answer, job.tenant)
            for job, answer in zip(jobs, answers, strict=True)
        ]

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[str | ArgosyError]:
        errors = [find_error(job) for job in jobs]
        trace = self._tracer.inject().get("traceparent", "")
        # The id is chosen before the first attempt: if a response is lost, the next attempt finds the id taken and
        # knows that the job is enqueued. With an id of the caller's own this is indistinguishable from a duplicate.
        valid = [(_with_id(job, trace), not job.id) for job, error in zip(jobs, errors, strict=True) if error is None]

        async def send(address: str, batch: Sequence[tuple[tuple[NewJob, bool], ShardInfo]]) -> list[str | ArgosyError]:
            request = pb.EnqueueBatchRequest(jobs=[codec.to_new_job(job) for (job, _), _ in batch])
            response = await self.router.call(address, ENQUEUE, request)
            return [
                _to_enqueue_result(job, is_id_new, result)
                for ((job, is_id_new), _), result in zip(batch, response.results, strict=True)
            ]

        answers = iter(
            await self.router.send_by_node(
                valid, lambda each: each[0].tenant, lambda each: len(each[0].payload) + ITEM_BYTES, send
            )
        )
        return [next(answers) if error is None else error for error in errors]

    async def get(self, id: str, *, tenant: str | None = None, with_attempts: bool = False) -> JobInfo:
        tenant = tenant or self.tenant
        request = pb.GetJobRequest(tenant=_wire_tenant(tenant), id=id, with_attempts=with_attempts)
        with add_job_id(id):
            return read_job(await self._call_for_tenant(tenant, GET, request))

    async def result(self, id: str, *, tenant: str | None = None, timeout_s: float | None = None) -> Any:
        """Waits for the result: JobFailed, JobCancelled, or NotDone after `timeout_s`."""
        clock = self.router.clock
        ends = None if timeout_s is None else clock.now() + timeout_s
        # Polled, because the protocol has no call that waits for a result.
        for polls in range(1, POLL_BACKOFF.attempts_max):
            info = await self.get(id, tenant=tenant)
            if info.status.is_final:
                return await self._read_result(info)
            wait_s = POLL_BACKOFF.delay(polls, self.router.random)
            if ends is not None and clock.now() + wait_s >= ends:
                # Before the wait and not after it: a caller with a timeout learns at once that it will not suffice.
                raise NotDone(f"job {id} is {info.status.name.lower()} after {timeout_s:g} s; retry later")
            await clock.sleep(wait_s)
        raise NotDone(f"job {id} is not done; retry later")

    async def _read_result(self, info: JobInfo) -> Any:
        if info.status == JobStatus.CANCELLED:
            raise JobCancelled(f"job {info.id} was cancelled")
        if info.status == JobStatus.FAILED:
            # Read once more with its attempts, which the polls leave out: the error is in the last one.
            info = await self.get(info.id, tenant=info.tenant, with_attempts=True)
            last = info.attempts[-1] if info.attempts else None
            raise JobFailed(info.id, last.error_code if last else "", unpack(last.data) if last else None)
        return info.result

    async def find(
        self,
        *,
        tenant: str | None = None,
        status: JobStatus | None = None,
        metadata: tuple[str, str] | None = None,
        is_dead: bool = False,
        after: str = "",
        limit: int = FIND_DEFAULT,
    ) -> list[JobInfo]:
        """Jobs, latest change first; `after` is the last id of the previous page."""
        check_number("limit", limit, FIND_MAX, least=1)
        tenant = tenant or self.tenant
        key, value = metadata or ("", "")
        request = pb.FindJobsRequest(
            tenant=_wire_tenant(tenant),
            metadata_key=key,
            metadata_value=value,
            is_dead=is_dead,
            after=after,
            limit=limit,
        )
        if status is not None:
            # Set only if given: SCHEDULED is 0, the default of the field.
            request.status = to_status(status)
        return [read_job(job) for job in (await self._call_for_tenant(tenant, FIND, request)).jobs]

    async def cancel(self, id: str, *, tenant: str | None = None) -> None:
        """Cancels a waiting job at once; a running one is cancelled by its worker, after the next heartbeat."""
        await self._control(CANCEL, silo.CancelJobRequest, id, tenant)

    async def restart(self, id: str, *, tenant: str | None = None) -> None:
        """Schedules a failed or cancelled job again."""
        await self._control(RESTART, silo.RestartJobRequest, id, tenant)

    async def expedite(self, id: str, *, tenant: str | None = None) -> None:
        """Starts a scheduled job now."""
        await self._control(EXPEDITE, silo.ExpediteJobRequest, id, tenant)

    async def delete(self, id: str, *, tenant: str | None = None) -> None:
        """Deletes a finished job; succeeds if it does not exist."""
        await self._control(DELETE, silo.DeleteJobRequest, id, tenant)

    async def _control(self, call: RpcMethod, request: Any, id: str, tenant: str | None) -> None:
        tenant = tenant or self.tenant
        with add_job_id(id):
            await self.router.call_shard(
                lambda shards: shards.shard_of(tenant),
                call,
                lambda place: request(shard=place.id, id=id, tenant=_wire_tenant(tenant) or None),
            )

    async def requeue(
        self, ids: Sequence[str] = (), *, tenant: str | None = None, limit: int = FIND_DEFAULT
    ) -> dict[str, ArgosyError | None]:
        """Requeues dead-lettered jobs, those named or the latest; returns the error of each, if any."""
        check_number("limit", limit, FIND_MAX, least=1)
        tenant = tenant or self.tenant
        request = pb.RequeueDeadRequest(tenant=_wire_tenant(tenant), ids=ids, limit=limit)
        response = await self._call_for_tenant(tenant, REQUEUE, request)
        return {
            each.id: with_job_id(error_from_item(each.error), each.id) if each.HasField("error") else None
            for each in response.results
        }

    async def put_schedule(
        self,
        name: str,
        cron: str,
        task_group: str,
        payload: object = None,
        *,
        timezone: str = codec.DEFAULT_TIMEZONE,
        is_paused: bool = False,
        tenant: str | None = None,
        **options: Unpack[JobOptions],
    ) -> None:
        """Enqueues such a job whenever `cron` is due; replaces a schedule of the same name."""
        job = NewJob(task_group, pack(payload), tenant or self.tenant, **options)
        await self.put_schedule_of(name, cron, job, timezone=timezone, is_paused=is_paused)

    async def put_schedule_of(
        self, name: str, cron: str, job: NewJob, *, timezone: str = codec.DEFAULT_TIMEZONE, is_paused: bool = False
    ) -> None:
        """The same for a job built before."""
        check_new_job(job)
        tenant = job.tenant
        schedule = Schedule(name, tenant, cron, timezone, job, next_at=0, is_paused=is_paused)
        await self._call_for_tenant(tenant, PUT_SCHEDULE, pb.PutScheduleRequest(schedule=codec.to_schedule(schedule)))

    async def schedules(self, *, tenant: str | None = None) -> list[Schedule]:
        tenant = tenant or self.tenant
        response = await self._call_for_tenant(tenant, SCHEDULES, pb.ListSchedulesRequest(tenant=_wire_tenant(tenant)))
        # `from_schedule` leaves the next time out, since clients do not set it; here it is the server's.
        found = [(each, codec.from_schedule(each, tenant)) for each in response.schedules]
        return [msgspec.structs.replace(schedule, next_at=each.next_at_ms) for each, schedule in found]

    async def delete_schedule(self, name: str, *, tenant: str | None = None) -> None:
        tenant = tenant or self.tenant
        await self._call_for_tenant(
            tenant, DELETE_SCHEDULE, pb.DeleteScheduleRequest(tenant=_wire_tenant(tenant), name=name)
        )

    async def shards(self) -> list[ShardInfo]:
        """All shards, in the order of their ranges, read from the cluster."""
        return (await self.router.read()).shards

    async def split(self, shard_id: str, point: str = "") -> SplitStatus:
        """Starts a split of the shard at a hash of 16 hexadecimal digits, by default in the middle of its range."""
        # A fresh map: splits are rare, and an old map would name a shard that is gone.
        place = (await self.router.refresh()).by_id(shard_id)
        point = point or middle(place)
        request = silo.RequestSplitRequest(shard_id=shard_id, split_point=point)
        response = await self.router.call(place.address, SPLIT, request)
        return SplitStatus(response.phase, response.left_child_id, response.right_child_id, point)

    async def split_status(self, shard_id: str) -> SplitStatus:
        """From the node that serves the shard, or from any node once the shard is gone."""
        # A split ends with the shard's removal from the map; then any node can tell, since it has the new map.
        shards = await self.router.refresh()
        served = [place.address for place in shards.shards if place.id == shard_id]
        response = await self.router.call(
            (served or shards.addresses())[0], SPLIT_STATUS, silo.GetSplitStatusRequest(shard_id=shard_id)
        )
        return SplitStatus(
            response.phase,
            response.left_child_id,
            response.right_child_id,
            response.split_point,
            response.initiator_node_id,
            response.requested_at_ms,
        )

    async def _call_for_tenant(self, tenant: str, call: RpcMethod, request: Any) -> Any:
        return await self.router.call_shard(lambda shards: shards.shard_of(tenant), call, lambda _: request)


def new_job(
    task_group: str, payload: object = None, *, tenant: str = NO_TENANT, **options: Unpack[JobOptions]
) -> NewJob:
    """A job for `enqueue_many`."""
    return NewJob(task_group, pack(payload), tenant, **options)


def url_of(folder: str | Path) -> str:
    """URLs are returned unchanged."""
    return str(folder) if "://" in str(folder) else Path(folder).absolute().as_uri()


def middle(place: ShardInfo) -> str:
    """The hash in the middle of a shard's range."""
    start, end = int(place.range_start or "0", 16), int(place.range_end or "1" + "0" * 16, 16)
    if end - start < 2:
        raise Invalid(f"cannot split shard {place.id}: its range has a single hash")
    return f"{(start + end) // 2:016x}"


def _headers(token: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def _wire_tenant(tenant: str) -> str:
    """On the wire, a broker without tenants gets an empty one."""
    return "" if tenant == NO_TENANT else tenant


def _with_id(job: NewJob, trace: str) -> NewJob:
    if job.id and (job.trace or not trace):
        return job
    return msgspec.structs.replace(job, id=job.id or str(uuid4()), trace=job.trace or trace)


def _to_enqueue_result(job: NewJob, is_id_new: bool, result: pb.EnqueueResult) -> str | ArgosyError:
    if result.WhichOneof("result") == "id":
        return result.id
    error = error_from_item(result.error)
    # A new random id exists only if an earlier attempt of this call succeeded and its response was lost. The error
    # names the id if the conflict is about the id and not about the tenant.
    return job.id if is_id_new and isinstance(error, Conflict) and job.id in str(error) else error
