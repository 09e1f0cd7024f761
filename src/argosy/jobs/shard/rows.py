"""Encoding of row values, and the keys and times derived from a job.

Values are msgpack arrays, so field names take no room in a million rows; a field may therefore only be added at the end
and with a default (see `model`). Encoders and decoders are made once: making one per row would cost more than using it.
"""

import msgspec

from argosy.base.hashing import hash64
from argosy.jobs import keys
from argosy.jobs.model import (
    Attempt,
    FloatingState,
    Job,
    JobState,
    JobStatus,
    QueuedTask,
    Schedule,
    SlotRequest,
    TaskLease,
)

METADATA_INDEXED_CHARS_MAX = 256  # a longer value is indexed by its prefix and hash, because keys must be short

encode = msgspec.msgpack.Encoder().encode

decode_job = msgspec.msgpack.Decoder(Job).decode
decode_state = msgspec.msgpack.Decoder(JobState).decode
decode_attempt = msgspec.msgpack.Decoder(Attempt).decode
decode_task = msgspec.msgpack.Decoder(QueuedTask).decode
decode_lease = msgspec.msgpack.Decoder(TaskLease).decode
decode_request = msgspec.msgpack.Decoder(SlotRequest).decode
decode_floating = msgspec.msgpack.Decoder(FloatingState).decode
decode_schedule = msgspec.msgpack.Decoder(Schedule).decode
decode_unique = msgspec.msgpack.Decoder(tuple[str, int, bool]).decode  # job, until, whether the job is done
decode_time = msgspec.msgpack.Decoder(int).decode


def status_key(tenant: str, status: JobStatus, at: int, job: str) -> bytes:
    return keys.key(keys.STATUS, tenant, int(status), keys.NEWEST_FIRST - at, job)


def status_at(state: JobState) -> int:
    """The time in the status index: the start of a scheduled job, the latest change of any other."""
    return state.next_start_at if state.status == JobStatus.SCHEDULED else state.changed_at


def task_key(queued: QueuedTask, *, job: str, attempt: int) -> bytes:
    return keys.key(keys.TASK, queued.task_group, queued.start_at, queued.priority, job, attempt, queued.task.tenant)


def scheduled_task_key(job: Job, state: JobState) -> bytes:
    """The key of a scheduled job's task, unless the job is parked for a slot."""
    return keys.key(keys.TASK, job.task_group, state.next_start_at, job.priority, job.id, state.attempt, job.tenant)


def request_key(request: SlotRequest) -> bytes:
    return keys.key(
        keys.REQUEST, request.tenant, request.key, request.start_at, request.priority, request.job, request.attempt
    )


def index_value(value: str) -> str:
    """A metadata value as it appears in index keys."""
    if len(value) <= METADATA_INDEXED_CHARS_MAX:
        return value
    return f"{value[:METADATA_INDEXED_CHARS_MAX]}#{hash64(value):016x}"


def expiry_at(job: Job, changed_at: int, retention_ms: int) -> int:
    """When a finished job is deleted; 0: never. `retention_ms` is the broker's setting."""
    keep_ms = job.retention_ms or retention_ms
    return changed_at + keep_ms if keep_ms else 0


def without_payload(job: Job) -> Job:
    """The part of a running job that the shard keeps in memory; payloads may have 16 MiB each."""
    return msgspec.structs.replace(job, payload=b"", metadata={}, trace="")
