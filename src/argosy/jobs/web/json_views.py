"""Jobs and tasks as JSON. Values that JSON cannot represent are in base64."""

from base64 import b64encode
from typing import Any

import msgspec

from argosy.base.errors import ArgosyError
from argosy.base.redact import redact
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.broker import ShardInfo
from argosy.jobs.model import Schedule
from argosy.jobs.sdk.info import AttemptInfo, JobInfo
from argosy.jobs.sdk.payload_codec import unpack


def bytes_to_json(name: str, data: bytes) -> dict[str, Any]:
    """`name`, or `name_base64` if the bytes are not msgpack or JSON cannot represent the value."""
    value = unpack(data)
    if not isinstance(value, bytes):
        try:
            return {name: msgspec.json.decode(msgspec.json.encode(value))}
        except (TypeError, ValueError, msgspec.MsgspecError):
            pass
    return {f"{name}_base64": b64encode(data).decode()}


def job_to_json(info: JobInfo, *, with_attempts: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": info.id,
        "tenant": info.tenant,
        "task_group": info.task_group,
        "status": info.status.name.lower(),
        "priority": info.priority,
        "attempt": info.attempt,
        "enqueued_at_ms": info.enqueued_at_ms,
        "changed_at_ms": info.changed_at_ms,
        "next_start_at_ms": info.next_start_at_ms or None,
        "cancelled_at_ms": info.cancelled_at_ms or None,
        "is_dead": info.is_dead,
        "metadata": dict(info.metadata),
        "waiting_for": list(info.waiting_for),
        "schedule": info.schedule or None,
        **bytes_to_json("payload", info.payload_bytes),
        **bytes_to_json("progress", info.progress_bytes),
    }
    if info.result_bytes is not None:
        shown |= bytes_to_json("result", info.result_bytes)
    if with_attempts:
        shown["attempts"] = [_attempt(attempt) for attempt in info.attempts]
    return shown


def _attempt(attempt: AttemptInfo) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "status": attempt.status.name.lower(),
        "started_at_ms": attempt.started_at_ms,
        "finished_at_ms": attempt.finished_at_ms or None,
        "error_code": attempt.error_code or None,
        **bytes_to_json("data", attempt.data),
    }


def task_to_json(leased: pb.LeasedTask) -> dict[str, Any]:
    task = leased.task
    return {
        "task": task.id,
        "job": task.job_id,
        "tenant": task.tenant_id or None,
        "task_group": task.task_group,
        "attempt": task.attempt_number,
        "is_last_attempt": task.is_last_attempt,
        "lease_ms": task.lease_ms,
        "metadata": dict(task.metadata),
        "trace": leased.trace or None,
        **bytes_to_json("payload", task.payload.msgpack),
    }


def schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "is_paused": schedule.is_paused,
        "next_at_ms": schedule.next_at or None,
        "task_group": schedule.job.task_group,
        **bytes_to_json("payload", schedule.job.payload),
    }


def shard_to_json(place: ShardInfo) -> dict[str, Any]:
    return {
        "id": place.id,
        "range_start": place.range_start,
        "range_end": place.range_end,
        "node": place.node or None,
        "address": place.address or None,
    }


def error_to_json(error: ArgosyError) -> dict[str, Any]:
    return {"kind": type(error).__name__, "status": error.status, "message": redact(str(error))}
