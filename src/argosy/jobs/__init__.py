"""A durable multi-tenant job broker: an acknowledged job is never lost, no limit is exceeded, and shards move
between nodes.

    async with JobsClient.connect("127.0.0.1:7450") as client:
        handle = await client.enqueue("mail", {"to": "ada"})

    worker = Worker(JobsClient.connect("127.0.0.1:7450"))
    worker.add([send_mail])  # decorated with @job("mail")
    worker.run_forever()

    async with open_broker("file:///var/lib/app/jobs") as broker: ...  # the whole broker in this process

Exports load on first use: a client loads no broker.

Reading order: `model` and `keys` (what is stored), `ports` (store, shard and node as others see them), `shard` (the
queue of some tenants), `group_commit` and `overlay` (durability), `cluster` (shards on nodes, splits), `rpc`, `silo`,
`api`, `web` (gRPC and HTTP), `sql` (queries), `sdk` (client and worker), `backends` (SlateDB on a directory or S3).
"""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.jobs.cluster.node import JobsNode
    from argosy.jobs.embedded import open_broker
    from argosy.jobs.model import (
        AttemptStatus,
        ConcurrencyLimit,
        FloatingLimit,
        JobStatus,
        NewJob,
        RateLimit,
        RetryPolicy,
        Schedule,
    )
    from argosy.jobs.sdk.blocking import BlockingClient
    from argosy.jobs.sdk.client import JobHandle, JobsClient, new_job
    from argosy.jobs.sdk.codec import AttemptInfo, JobInfo
    from argosy.jobs.sdk.errors import JobCancelled, JobFailed, NotDone
    from argosy.jobs.sdk.handlers import TaskContext, TaskStopped, job
    from argosy.jobs.sdk.worker import Worker
    from argosy.jobs.settings import JobsSettings

__all__ = [
    "AttemptInfo",
    "AttemptStatus",
    "BlockingClient",
    "ConcurrencyLimit",
    "FloatingLimit",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobInfo",
    "JobStatus",
    "JobsClient",
    "JobsNode",
    "JobsSettings",
    "NewJob",
    "NotDone",
    "RateLimit",
    "RetryPolicy",
    "Schedule",
    "TaskContext",
    "TaskStopped",
    "Worker",
    "job",
    "new_job",
    "open_broker",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "argosy.jobs.embedded": ("open_broker",),
        "argosy.jobs.cluster.node": ("JobsNode",),
        "argosy.jobs.model": (
            "AttemptStatus",
            "ConcurrencyLimit",
            "FloatingLimit",
            "JobStatus",
            "NewJob",
            "RateLimit",
            "RetryPolicy",
            "Schedule",
        ),
        "argosy.jobs.sdk.blocking": ("BlockingClient",),
        "argosy.jobs.sdk.client": (
            "JobHandle",
            "JobsClient",
            "new_job",
        ),
        "argosy.jobs.sdk.errors": (
            "JobCancelled",
            "JobFailed",
            "NotDone",
        ),
        "argosy.jobs.sdk.handlers": ("TaskContext", "TaskStopped", "job"),
        "argosy.jobs.sdk.codec": (
            "AttemptInfo",
            "JobInfo",
        ),
        "argosy.jobs.sdk.worker": ("Worker",),
        "argosy.jobs.settings": ("JobsSettings",),
    },
)
