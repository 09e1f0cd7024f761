"""Errors of the SDK: error kinds derived from gRPC status, and the outcome of a job."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from argosy.base.errors import (
    ArgosyError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotOwner,
    Throttled,
    Unauthorized,
    Unavailable,
)
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.rpc.status import SHARD_NOT_FOUND, Code

STALE_MAP = "refresh topology and retry"  # end of a node's answer when the tenant is in another shard now
THROTTLED_S = 1.0  # RESOURCE_EXHAUSTED of silo.v1 carries no time

_KINDS: dict[str, type[ArgosyError]] = {
    Code.INVALID_ARGUMENT: Invalid,
    Code.UNIMPLEMENTED: Invalid,
    Code.UNAUTHENTICATED: Unauthorized,
    Code.PERMISSION_DENIED: Forbidden,
    Code.NOT_FOUND: NotFound,
    Code.ALREADY_EXISTS: Conflict,
    Code.FAILED_PRECONDITION: Conflict,
}


class JobFailed(ArgosyError):
    """The job has used up its retries; `code` and `data` are from its last attempt."""

    status = 409

    def __init__(self, job: str, code: str, data: Any) -> None:
        # A handler's exception is reported as a dict, the broker's own failures as text; other clients send anything.
        message = data.get("message", "") if isinstance(data, dict) else data if isinstance(data, str) else ""
        super().__init__(f"job {job} failed with {code}{f': {message}' if message else ''}")
        self.job = job
        self.code = code
        self.data = data


class JobCancelled(ArgosyError):
    """The job was cancelled, so it has no result."""

    status = 409


class NotDone(Unavailable):
    """The job is not done yet; retry later."""


def error_from_status(code: str, message: str, owner_address: str = "") -> ArgosyError:
    """The error for a gRPC code. Codes that do not clearly blame the caller may be retried."""
    # NOT_FOUND is also "job not found", so the text decides, as in silo's own clients. A tenant outside the shard's
    # range means the same for the router: its map is old.
    if (code == Code.NOT_FOUND and SHARD_NOT_FOUND in message) or message.endswith(STALE_MAP):
        return NotOwner(message, hint=owner_address or None)
    if code == Code.RESOURCE_EXHAUSTED:
        return Throttled(message, retry_after_s=THROTTLED_S)
    return _KINDS.get(code, Unavailable)(message)


def error_from_item(error: pb.Error) -> ArgosyError:
    """The error of one item in a batch."""
    return error_from_status(error.code, error.message, error.owner_address)


def with_job_id(error: ArgosyError, job: str) -> ArgosyError:
    """Adds the job id: messages of silo.v1 lack it, and cannot change because older clients match on them."""
    if not isinstance(error, NotFound | Conflict) or f"job {job} " in str(error):
        return error
    return type(error)(f"{job}: {error}")


@contextmanager
def add_job_id(job: str) -> Iterator[None]:
    """Errors raised within name the job."""
    try:
        yield
    except (NotFound, Conflict) as error:
        raise with_job_id(error, job) from error


def is_retryable(error: BaseException | None) -> bool:
    """Whether a retry may succeed. `NotDone`, though an Unavailable for callers, is no failure of the call."""
    return isinstance(error, NotOwner | Unavailable | Throttled) and not isinstance(error, NotDone)
