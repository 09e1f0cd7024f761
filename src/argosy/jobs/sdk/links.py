"""The calls that the SDK makes, the port over which it makes them (a link to each node), and that port over gRPC."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import grpc  # type: ignore[import-untyped, unused-ignore]

from argosy.base.errors import ArgosyError, Unavailable
from argosy.jobs.api import argosy_jobs_pb2 as api
from argosy.jobs.rpc.status import MESSAGE_BYTES_MAX, OWNER_ADDRESS
from argosy.jobs.sdk.errors import error_from_status
from argosy.jobs.silo import silo_pb2 as silo

SILO = "silo.v1.Silo"
JOBS = "argosy.jobs.v1.Jobs"


@dataclass(frozen=True)
class RpcMethod:
    service: str
    method: str
    answer: Any

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.method}"


CLUSTER = RpcMethod(SILO, "GetClusterInfo", silo.GetClusterInfoResponse)
CANCEL = RpcMethod(SILO, "CancelJob", silo.CancelJobResponse)
RESTART = RpcMethod(SILO, "RestartJob", silo.RestartJobResponse)
EXPEDITE = RpcMethod(SILO, "ExpediteJob", silo.ExpediteJobResponse)
DELETE = RpcMethod(SILO, "DeleteJob", silo.DeleteJobResponse)
SPLIT = RpcMethod(SILO, "RequestSplit", silo.RequestSplitResponse)
SPLIT_STATUS = RpcMethod(SILO, "GetSplitStatus", silo.GetSplitStatusResponse)
REPORT_REFRESH = RpcMethod(SILO, "ReportRefreshOutcome", silo.ReportRefreshOutcomeResponse)
ENQUEUE = RpcMethod(JOBS, "EnqueueBatch", api.EnqueueBatchResponse)
LEASE = RpcMethod(JOBS, "LeaseTasks", api.LeaseTasksResponse)
REPORT = RpcMethod(JOBS, "ReportOutcomes", api.ReportOutcomesResponse)
HEARTBEATS = RpcMethod(JOBS, "Heartbeats", api.HeartbeatsResponse)
GET = RpcMethod(JOBS, "GetJob", api.Job)
FIND = RpcMethod(JOBS, "FindJobs", api.FindJobsResponse)
REQUEUE = RpcMethod(JOBS, "RequeueDead", api.RequeueDeadResponse)
PUT_SCHEDULE = RpcMethod(JOBS, "PutSchedule", api.PutScheduleResponse)
SCHEDULES = RpcMethod(JOBS, "ListSchedules", api.ListSchedulesResponse)
DELETE_SCHEDULE = RpcMethod(JOBS, "DeleteSchedule", api.DeleteScheduleResponse)


class NodeLink(Protocol):
    """A connection to one node. Failures are raised as Argosy's errors."""

    async def call(self, call: RpcMethod, request: Any, *, timeout_s: float, headers: Mapping[str, str]) -> Any: ...


class NodeLinks(Protocol):
    """Links to all nodes, by address."""

    def link(self, address: str) -> NodeLink:
        """Unavailable if the address is empty."""
        ...

    async def close(self) -> None: ...


_OPTIONS = [
    # As on the server: gRPC's default of 4 MiB is less than one payload may have.
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # A waiting poll sends nothing, so without pings it would not notice that its node is cut off.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # A node that returns is found quickly; gRPC's own back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


class GrpcLink:
    def __init__(self, channel: Any, address: str) -> None:
        self._channel = channel
        self._address = address
        self._methods: dict[str, Any] = {}

    async def call(self, call: RpcMethod, request: Any, *, timeout_s: float, headers: Mapping[str, str]) -> Any:
        # One multicallable per method, made on first use.
        method = self._methods.get(call.path)
        if method is None:
            encode = type(request).SerializeToString
            method = self._methods[call.path] = self._channel.unary_unary(call.path, encode, call.answer.FromString)
        try:
            return await method(request, timeout=timeout_s, metadata=tuple(headers.items()))
        except grpc.aio.AioRpcError as error:
            raise self._to_error(call, error) from None
        except asyncio.CancelledError:
            # grpc.aio cancels the calls of a channel that is closed; their callers were not cancelled.
            if self._channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN:
                raise Unavailable(f"the link to {self._address} was closed") from None
            raise

    def _to_error(self, call: RpcMethod, error: grpc.aio.AioRpcError) -> ArgosyError:
        trailing = dict(error.trailing_metadata() or ())
        status = error_from_status(error.code().name, error.details() or "", trailing.get(OWNER_ADDRESS, ""))
        if isinstance(status, Unavailable):
            return Unavailable(f"{self._address} unreachable: {status} ({call.method}: {error.code().name})")
        return status

    async def close(self) -> None:
        await self._channel.close()


class GrpcLinks:
    """Opens channels on first use, encrypted if there are credentials."""

    def __init__(self, credentials: grpc.ChannelCredentials | None = None) -> None:
        self._credentials = credentials
        self._links: dict[str, GrpcLink] = {}

    def link(self, address: str) -> GrpcLink:
        # A shard without a server has an empty address in the map.
        if not address:
            raise Unavailable("no node serves this shard at the moment; retry")
        if address not in self._links:
            # One channel per node: gRPC multiplexes all calls, waiting polls too, over one connection.
            if self._credentials is None:
                channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
            else:
                channel = grpc.aio.secure_channel(address, self._credentials, options=_OPTIONS)
            self._links[address] = GrpcLink(channel, address)
        return self._links[address]

    async def close(self) -> None:
        # Taken out first: a call that starts meanwhile opens a new channel instead of using a closed one.
        links, self._links = self._links, {}
        for link in links.values():
            await link.close()


def channel_credentials(
    *, ca: bytes | None = None, cert: bytes | None = None, key: bytes | None = None
) -> grpc.ChannelCredentials:
    """PEM texts: the nodes' authority (by default the system's), and a client certificate if the nodes require one."""
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=cert)
