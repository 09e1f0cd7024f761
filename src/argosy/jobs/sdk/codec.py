"""Payloads as msgpack, and jobs as clients see them, decoded from messages.

msgpack, because silo's clients send it and the broker shows payloads as JSON in SQL; bytes pass unchanged, for programs
with an encoding of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from argosy.base.errors import Invalid
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import NO_TENANT, PAYLOAD_BYTES_MAX, AttemptStatus, JobStatus, Limit, RetryPolicy
from argosy.jobs.silo import codec as silo
from argosy.jobs.silo import silo_pb2

# Made once: making an encoder costs more than encoding a small payload.
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def pack(value: object) -> bytes:
    """Bytes are kept as they are. None becomes empty, and is decoded as None."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        packed = bytes(value)
    else:
        try:
            packed = _encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise Invalid(f"cannot encode the value as msgpack ({error}); send plain values, or bytes") from error
    # Here as well as at the shard: the error names the value before it has been sent.
    if len(packed) > PAYLOAD_BYTES_MAX:
        raise Invalid(f"the encoded value has {len(packed)} bytes; at most {PAYLOAD_BYTES_MAX} are allowed")
    return packed


def unpack(data: bytes) -> Any:
    """The decoded value; bytes that are not msgpack are returned as bytes."""
    if not data:
        return None
    try:
        # Bytes that are valid msgpack by accident are decoded too; `payload_bytes` has the original.
        return _decode(data)
    except msgspec.DecodeError:
        return data


@dataclass(frozen=True)
class AttemptInfo:
    """One attempt. `data` is the result, or the error data of its failure."""

    number: int
    status: AttemptStatus
    started_at_ms: int
    finished_at_ms: int
    error_code: str
    data: bytes


@dataclass(frozen=True)
class JobInfo:
    """Everything visible of a job; payload, progress and result are decoded on access."""

    id: str
    tenant: str
    task_group: str
    status: JobStatus
    priority: int
    enqueued_at_ms: int
    changed_at_ms: int
    next_start_at_ms: int  # 0 unless it is scheduled
    attempt: int
    is_dead: bool  # failed with no retries left: `requeue` schedules it again
    cancelled_at_ms: int  # not 0: it was cancelled, and may still be stopping
    metadata: Mapping[str, str]
    payload_bytes: bytes
    progress_bytes: bytes
    result_bytes: bytes | None  # of a job that succeeded
    retry: RetryPolicy | None
    limits: tuple[Limit, ...]
    waiting_for: tuple[str, ...]
    after: tuple[str, ...]
    unique_key: str
    schedule: str
    trace: str
    attempts: tuple[AttemptInfo, ...] = ()  # oldest first, if requested

    @property
    def payload(self) -> Any:
        return unpack(self.payload_bytes)

    @property
    def progress(self) -> Any:
        return unpack(self.progress_bytes)

    @property
    def result(self) -> Any:
        return unpack(self.result_bytes or b"")


def read_job(message: pb.Job) -> JobInfo:
    job = message.job
    return JobInfo(
        id=job.id,
        tenant=message.tenant or NO_TENANT,
        task_group=job.task_group,
        status=JobStatus(job.status),
        priority=job.priority,
        enqueued_at_ms=job.enqueue_time_ms,
        changed_at_ms=job.status_changed_at_ms,
        next_start_at_ms=job.next_attempt_starts_after_ms,
        attempt=message.attempt,
        is_dead=message.is_dead,
        cancelled_at_ms=message.cancelled_at_ms,
        metadata=dict(job.metadata),
        payload_bytes=job.payload.msgpack,
        progress_bytes=message.progress,
        result_bytes=job.result.msgpack if job.HasField("result") else None,
        retry=silo.from_retry(job.retry_policy) if job.HasField("retry_policy") else None,
        limits=tuple([silo.from_limit(limit) for limit in job.limits]),
        waiting_for=tuple(message.waiting_for),
        after=tuple(message.after),
        unique_key=message.unique_key,
        schedule=message.schedule,
        trace=message.trace,
        attempts=tuple([_read_attempt(attempt) for attempt in job.attempts]),
    )


def _read_attempt(message: silo_pb2.JobAttempt) -> AttemptInfo:
    return AttemptInfo(
        number=message.attempt_number,
        status=AttemptStatus(message.status),
        started_at_ms=message.started_at_ms,
        finished_at_ms=message.finished_at_ms,
        error_code=message.error_code,
        data=message.error_data.msgpack if message.HasField("error_data") else message.result.msgpack,
    )
