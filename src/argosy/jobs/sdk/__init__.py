"""The Python SDK of the job broker: clients that put jobs, and workers that do them.

    from argosy.jobs.sdk import JobsClient, Worker

Reading order: `client` (what one asks), `worker` (what one runs), `handlers` and `context` (what a handler is and
knows), `routing` and `backends/router` (how a question finds its node), `grpc` and `backends/local` (how it gets
there).
"""

from argosy.jobs.model import ConcurrencyLimit, FloatingLimit, JobStatus, NewJob, RateLimit, RetryPolicy
from argosy.jobs.sdk.backends.blocking import BlockingClient
from argosy.jobs.sdk.client import JobHandle, JobsClient, new_job
from argosy.jobs.sdk.context import TaskContext, TaskStopped
from argosy.jobs.sdk.errors import JobCancelled, JobFailed, NotDone
from argosy.jobs.sdk.handlers import job
from argosy.jobs.sdk.info import AttemptInfo, JobInfo
from argosy.jobs.sdk.worker import Worker

__all__ = [
    "AttemptInfo",
    "BlockingClient",
    "ConcurrencyLimit",
    "FloatingLimit",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobInfo",
    "JobStatus",
    "JobsClient",
    "NewJob",
    "NotDone",
    "RateLimit",
    "RetryPolicy",
    "TaskContext",
    "TaskStopped",
    "Worker",
    "job",
    "new_job",
]
