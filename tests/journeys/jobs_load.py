"""A client and workers of the job broker over real gRPC, which retry and follow shards while nodes come and go."""

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


# Expected errors while nodes come and go; every other error fails the test.
PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.FAILED_PRECONDITION,
}


class Cluster:
    """The nodes as a client knows them; `seeds` are the initial addresses."""

    Refused = grpc.aio.AioRpcError

    def __init__(self, seeds: Iterable[str]) -> None:
        self.known = list(seeds)
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def call(self, address: str, method: str, request: Any, response: Any, timeout_s: float = CALL_S_MAX) -> Any:
        channel = self._channels.get(address)
        if channel is None:
            # A stopped node is retried soon, not after gRPC's default of two minutes.
            options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.enable_retries", 0)]
            channel = self._channels[address] = grpc.aio.insecure_channel(address, options=options)
        stub = channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )
        return await stub(request, timeout=timeout_s)

    async def info(self) -> silo.GetClusterInfoResponse | None:
        """The cluster as reported by the first node that responds."""
        for address in random.sample(self.known, len(self.known)):
            try:
                info_request = silo.GetClusterInfoRequest()
                return await self.call(address, GET_CLUSTER_INFO, info_request, silo.GetClusterInfoResponse, INFO_S_MAX)
            except grpc.aio.AioRpcError:
                continue
        return None

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()


class Load:
    """Enqueues jobs and runs them, and records every run for the auditor."""

    def __init__(self, cluster: Cluster, jobs: int, tenants: Sequence[str]) -> None:
        self.cluster = cluster
        self.auditor = Auditor()
        self.jobs = jobs
        self.done: set[str] = set()  # successes whose report was acknowledged
        self._tenants = tenants
        self._info: silo.GetClusterInfoResponse | None = None
        self._random = random.Random(7)

    async def enqueue_all(self, pace_s: float, last: asyncio.Event) -> None:
        """The last quarter waits for `last`, so that there is load until the last failure however long it takes."""
        wanted = [self._job(number) for number in range(self.jobs)]
        for begin in range(0, len(wanted), BATCH):
            if begin >= len(wanted) * 3 // 4:
                await last.wait()
            await self._enqueue(wanted[begin : begin + BATCH])
            await asyncio.sleep(pace_s)

    async def work(self, worker: str) -> None:
        while True:
            await asyncio.gather(*(self._poll(worker, address) for address in self._addresses()))
            await self._refresh_cluster()

    async def statuses(self) -> dict[str, int]:
        """The status of every acknowledged job."""
        statuses_by_job: dict[str, int] = {}
        while left := [job for job in self.auditor.acknowledged if job not in statuses_by_job]:
            await self._refresh_cluster()
            await asyncio.gather(*(self._fetch_status(job, statuses_by_job) for job in left[:BATCH]))
        return statuses_by_job

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
                await self._refresh_cluster(pause_s=PAUSE_S)

    async def _enqueue_at(self, address: str, jobs: list[api.NewJob]) -> list[api.NewJob]:
        """The jobs that were not acknowledged."""
        request = api.EnqueueBatchRequest(jobs=jobs)
        answer = await self._try_call(address, "EnqueueBatch", request, api.EnqueueBatchResponse)
        if answer is None:
            return jobs
        left = []
        for job, result in zip(jobs, answer.results, strict=True):
            # ALREADY_EXISTS means that an earlier attempt was applied and its response lost.
            if result.WhichOneof("result") == "id" or result.error.code == "ALREADY_EXISTS":
                self.auditor.acknowledged[job.id] = job.tenant
            else:
                assert result.error.code in ("UNAVAILABLE", "NOT_FOUND", "FAILED_PRECONDITION"), result.error
                left.append(job)
        return left

    # -- working ----------------------------------------------------------------------------------------------------

    async def _poll(self, worker: str, address: str) -> None:
        sent_at = time.monotonic()
        request = api.LeaseTasksRequest(worker_id=worker, task_group=GROUP, max_tasks=BATCH // 2, wait_ms=POLL_MS)
        answer = await self._try_call(address, "LeaseTasks", request, api.LeaseTasksResponse)
        if answer is None or not answer.tasks:
            return
        started_at = time.monotonic()
        runs = [self._start_run(each.task, sent_at, started_at) for each in answer.tasks]
        await asyncio.sleep(self._random.uniform(0.0, 0.1))
        for run in runs:
            run.until = min(run.until, time.monotonic())
        await self._report(worker, [each.task for each in answer.tasks])

    def _start_run(self, task: silo.Task, sent_at: float, started_at: float) -> Run:
        limit = f"{task.tenant_id}/{LIMIT_KEY}" if task.limits else ""
        run = Run(task.job_id, task.id, started_at, sent_at + task.lease_ms / 1000, limit)
        self.auditor.runs.append(run)
        return run

    async def _report(self, worker: str, tasks: list[silo.Task]) -> None:
        while tasks:
            left: list[silo.Task] = []
            for address, part in self._by_address(tasks, lambda task: task.tenant_id).items():
                left += await self._report_at(address, worker, part)
            tasks = left
            if tasks:
                await self._refresh_cluster(pause_s=PAUSE_S)

    async def _report_at(self, address: str, worker: str, tasks: list[silo.Task]) -> list[silo.Task]:
        outcomes = [
            api.TaskOutcome(shard=self._locate(task.tenant_id)[0], task_id=task.id, success=b"ok") for task in tasks
        ]
        request = api.ReportOutcomesRequest(worker_id=worker, outcomes=outcomes)
        answer = await self._try_call(address, "ReportOutcomes", request, api.ReportOutcomesResponse)
        if answer is None:
            return tasks
        left = []
        for task, result in zip(tasks, answer.results, strict=True):
            if not result.HasField("error"):
                self.done.add(task.job_id)
            elif "lease not found" not in result.error.message:  # otherwise already reported, or expired
                left.append(task)
        return left

    async def _fetch_status(self, job: str, statuses_by_job: dict[str, int]) -> None:
        tenant = self.auditor.acknowledged[job]
        answer = await self._try_call(
            self._locate(tenant)[1], "GetJob", api.GetJobRequest(tenant=tenant, id=job), api.Job
        )
        if answer is not None:
            statuses_by_job[job] = answer.job.status

    # -- routing ----------------------------------------------------------------------------------------------------

    async def _try_call(self, address: str, method: str, request: Any, response: Any) -> Any:
        """None if the node did not respond, is not ready, or does not serve this shard."""
        if not address:
            return None
        try:
            return await self.cluster.call(address, f"/argosy.jobs.v1.Jobs/{method}", request, response)
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING or "job not found" in (error.details() or ""):
                raise
            return None

    async def _refresh_cluster(self, pause_s: float = 0.0) -> None:
        await asyncio.sleep(pause_s)
        self._info = await self.cluster.info() or self._info

    def _addresses(self) -> list[str]:
        return sorted({owner.grpc_addr for owner in self._info.shard_owners} - {""}) if self._info else []

    def _locate(self, tenant: str) -> tuple[str, str]:
        """The shard and its owner's address; empty if unknown."""
        point = hash_of(tenant)
        for owner in self._info.shard_owners if self._info else ():
            if owner.range_start <= point and (not owner.range_end or point < owner.range_end):
                return owner.shard_id, owner.grpc_addr
        return "", ""

    def _by_address(self, items: Sequence[Any], tenant_of: Any) -> dict[str, list[Any]]:
        parts: dict[str, list[Any]] = {}
        for item in items:
            parts.setdefault(self._locate(tenant_of(item))[1], []).append(item)
        return parts
