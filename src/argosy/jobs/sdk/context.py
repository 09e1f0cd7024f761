"""What a handler knows of the task it works on, and what it can say meanwhile."""

from collections.abc import Callable, Mapping
from typing import Any

from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import NO_TENANT
from argosy.jobs.sdk.payload_codec import pack, unpack


class TaskStopped(Exception):
    """Raised by `Context.check`: the job was cancelled, or is no longer this worker's."""


class TaskContext:
    """May be used from any thread."""

    def __init__(self, leased: pb.LeasedTask, wake: Callable[[], None]) -> None:
        task = leased.task
        self.task_id: str = task.id
        self.job_id: str = task.job_id
        self.tenant: str = task.tenant_id or NO_TENANT
        self.task_group: str = task.task_group
        self.attempt: int = task.attempt_number
        self.is_last_attempt: bool = task.is_last_attempt
        self.metadata: Mapping[str, str] = dict(task.metadata)
        self.priority: int = task.priority
        self.schedule: str = leased.schedule
        self.trace: str = leased.trace
        self.lease_ms: int = task.lease_ms
        self.payload_bytes: bytes = task.payload.msgpack
        self._wake = wake
        self._progress: bytes | None = None
        self._is_cancelled = False

    @property
    def payload(self) -> Any:
        return unpack(self.payload_bytes)

    @property
    def is_cancelled(self) -> bool:
        """Whether to stop: async handlers are cancelled, others must look."""
        return self._is_cancelled

    def check(self) -> None:
        """Raises Stopped if the work is no longer wanted; a handler may let that rise."""
        if self._is_cancelled:
            raise TaskStopped(f"job {self.job_id} is to stop")

    def progress(self, value: object) -> None:
        """Tells whoever looks at the job how far it is; sent soon, and only the latest."""
        self._progress = pack(value)
        self._wake()

    def cancel(self) -> None:
        """For the worker."""
        self._is_cancelled = True

    def restore_progress(self, progress: bytes | None) -> None:
        """For the worker: it could not be sent; a later one counts more."""
        if self._progress is None:
            self._progress = progress

    def pop_progress(self) -> bytes | None:
        """For the worker: what is to be sent, once."""
        taken, self._progress = self._progress, None
        return taken
