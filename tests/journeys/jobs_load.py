"""A client and workers of the job broker over real gRPC, which find their way whatever the nodes go through."""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any

import grpc

from argosy.jobs.api import argosy_jobs_pb2 as api
from argosy.jobs.cluster.shard_map import hash_of
from argosy.jobs.silo import silo_pb2 as silo
from tests.jobs.cluster.auditor import Auditor, Run

CALL_S_MAX = 5.0
INFO_S_MAX = 1.0
GET_CLUSTER_INFO = "/silo.v1.Silo/GetClusterInfo"
POLL_MS = 1000
PAUSE_S = 0.2
BATCH = 50
GROUP = "g"
LIMIT_KEY, LIMIT = "few", 3
RETRY = silo.RetryPolicy(retry_count=100, initial_interval_ms=50, max_interval_ms=500, backoff_factor=1.0)


# What a client meets while nodes come and go; all else is a fault.
PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.FAILED_PRECONDITION,
}


class Cluster:
    """The nodes as a client knows them; `seeds` are the addresses to begin with."""

    Refused = grpc.aio.AioRpcError

    def __init__(self, seeds: Iterable[str]) -> None:
        self.known = list(seeds)
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def call(self, address: str, method: str, request: Any, response: Any, timeout_s: float = CALL_S_MAX) -> Any:
        channel = self._channels.get(address)
        if channel is None:
            # A node that was stopped is tried again soon, not after gRPC's two minutes.
            options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.enable_retries", 0)]
            channel = self._channels[address] = grpc.aio.insecure_channel(address, options=options)
        stub = channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )
        return await stub(request, timeout=timeout_s)

    async def info(self) -> silo.GetClusterInfoResponse | None:
        """What any node that answers says of the cluster."""
        for address in random.sample(self.known, len(self.known)):
            try:
                asked = silo.GetClusterInfoRequest()
                return await self.call(address, GET_CLUSTER_INFO, asked, silo.GetClusterInfoResponse, INFO_S_MAX)
            except grpc.aio.AioRpcError:
                continue
        return None

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


class Load:
    """Enqueues jobs and works them off, and tells the auditor what it saw."""

    def __init__(self, cluster: Cluster, jobs: int, tenants: Sequence[str]) -> None:
        self.cluster = cluster
        self.auditor = Auditor()
        self.jobs = jobs
        self.done: set[str] = set()  # a worker's report of success was acknowledged
        self._tenants = tenants
        self._info: silo.GetClusterInfoResponse | None = None
        self._random = random.Random(7)

    async def enqueue_all(self, pace_s: float, last: asyncio.Event) -> None:
        """The last quarter comes only when `last` is set, so that there is load until then however long it takes."""
        wanted = [self._job(number) for number in range(self.jobs)]
        for begin in range(0, len(wanted), BATCH):
            if begin >= len(wanted) * 3 // 4:
                await last.wait()
            await self._enqueue(wanted[begin : begin + BATCH])
            await asyncio.sleep(pace_s)

    async def work(self, worker: str) -> None:
        while True:
            await asyncio.gather(*(self._poll(worker, address) for address in self._addresses()))
            await self._look()

    async def statuses(self) -> dict[str, int]:
        """The status of every acknowledged job."""
        found: dict[str, int] = {}
        while left := [job for job in self.auditor.acknowledged if job not in found]:
            await self._look()
            await asyncio.gather(*(self._status(job, found) for job in left[:BATCH]))
        return found

    # -- enqueueing -------------------------------------------------------------------------------------------------

    def _job(self, number: int) -> api.NewJob:
        limits = [silo.Limit(concurrency=silo.ConcurrencyLimit(key=LIMIT_KEY, max_concurrency=LIMIT))]
        return api.NewJob(
            tenant=self._random.choice(self._tenants),
            id=f"job-{number}",
            task_group=GROUP,
            payload=b"x" * 100,
            retry_policy=RETRY,
            limits=limits if number % 10 == 0 else [],
        )

    async def _enqueue(self, jobs: list[api.NewJob]) -> None:
        while jobs:
            left: list[api.NewJob] = []
            for address, part in self._by_address(jobs, lambda job: job.tenant).items():
                left += await self._enqueue_at(address, part)
            jobs = left
            if jobs:
                await self._look(pause_s=PAUSE_S)

    async def _enqueue_at(self, address: str, jobs: list[api.NewJob]) -> list[api.NewJob]:
        """Those that were not acknowledged."""
        request = api.EnqueueBatchRequest(jobs=jobs)
        answer = await self._try(address, "EnqueueBatch", request, api.EnqueueBatchResponse)
        if answer is None:
            return jobs
        left = []
        for job, result in zip(jobs, answer.results, strict=True):
            # ALREADY_EXISTS is our own earlier try, whose answer was lost.
            if result.WhichOneof("result") == "id" or result.error.code == "ALREADY_EXISTS":
                self.auditor.acknowledged[job.id] = job.tenant
            else:
                assert result.error.code in ("UNAVAILABLE", "NOT_FOUND", "FAILED_PRECONDITION"), result.error
                left.append(job)
        return left

    # -- working ----------------------------------------------------------------------------------------------------

    async def _poll(self, worker: str, address: str) -> None:
        asked_at = time.monotonic()
        request = api.LeaseTasksRequest(worker_id=worker, task_group=GROUP, max_tasks=BATCH // 2, wait_ms=POLL_MS)
        answer = await self._try(address, "LeaseTasks", request, api.LeaseTasksResponse)
        if answer is None or not answer.tasks:
            return
        began = time.monotonic()
        runs = [self._began(each.task, asked_at, began) for each in answer.tasks]
        await asyncio.sleep(self._random.uniform(0.0, 0.1))
        for run in runs:
            run.until = min(run.until, time.monotonic())
        await self._report(worker, [each.task for each in answer.tasks])

    def _began(self, task: silo.Task, asked_at: float, began: float) -> Run:
        limit = f"{task.tenant_id}/{LIMIT_KEY}" if task.limits else ""
        run = Run(task.job_id, task.id, began, asked_at + task.lease_ms / 1000, limit)
        self.auditor.runs.append(run)
        return run

    async def _report(self, worker: str, tasks: list[silo.Task]) -> None:
        while tasks:
            left: list[silo.Task] = []
            for address, part in self._by_address(tasks, lambda task: task.tenant_id).items():
                left += await self._report_at(address, worker, part)
            tasks = left
            if tasks:
                await self._look(pause_s=PAUSE_S)

    async def _report_at(self, address: str, worker: str, tasks: list[silo.Task]) -> list[silo.Task]:
        outcomes = [
            api.TaskOutcome(shard=self._place(task.tenant_id)[0], task_id=task.id, success=b"ok") for task in tasks
        ]
        request = api.ReportOutcomesRequest(worker_id=worker, outcomes=outcomes)
        answer = await self._try(address, "ReportOutcomes", request, api.ReportOutcomesResponse)
        if answer is None:
            return tasks
        left = []
        for task, result in zip(tasks, answer.results, strict=True):
            if not result.HasField("error"):
                self.done.add(task.job_id)
            elif "lease not found" not in result.error.message:  # else it was heard before, or has run out
                left.append(task)
        return left

    async def _status(self, job: str, found: dict[str, int]) -> None:
        tenant = self.auditor.acknowledged[job]
        answer = await self._try(self._place(tenant)[1], "GetJob", api.GetJobRequest(tenant=tenant, id=job), api.Job)
        if answer is not None:
            found[job] = answer.job.status

    # -- finding the way --------------------------------------------------------------------------------------------

    async def _try(self, address: str, method: str, request: Any, response: Any) -> Any:
        """None if the node did not answer, or not yet, or not for this shard."""
        if not address:
            return None
        try:
            return await self.cluster.call(address, f"/argosy.jobs.v1.Jobs/{method}", request, response)
        except grpc.aio.AioRpcError as refused:
            if refused.code() not in PASSING or "job not found" in (refused.details() or ""):
                raise
            return None

    async def _look(self, pause_s: float = 0.0) -> None:
        await asyncio.sleep(pause_s)
        self._info = await self.cluster.info() or self._info

    def _addresses(self) -> list[str]:
        return sorted({owner.grpc_addr for owner in self._info.shard_owners} - {""}) if self._info else []

    def _place(self, tenant: str) -> tuple[str, str]:
        """The shard and the address of its owner; empty if unknown."""
        point = hash_of(tenant)
        for owner in self._info.shard_owners if self._info else ():
            if owner.range_start <= point and (not owner.range_end or point < owner.range_end):
                return owner.shard_id, owner.grpc_addr
        return "", ""

    def _by_address(self, items: Sequence[Any], tenant_of: Any) -> dict[str, list[Any]]:
        parts: dict[str, list[Any]] = {}
        for item in items:
            parts.setdefault(self._place(tenant_of(item))[1], []).append(item)
        return parts
