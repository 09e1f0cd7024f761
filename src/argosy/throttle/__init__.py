"""Who may pass: a fair throttle for a resource that runs short, whose state all instances share.

    throttle = FairThrottle()
    decision = throttle.register("client-7")
    if decision.throttled: ...
    throttle.report("client-7", Outcome.SUCCESS)

and with other instances, in the background:

    with ThrottleSync.open(throttle, ThrottleSettings(store="redis://cache:6379")): ...

Reading order: `model` (the nouns), `tuning` (numbers from what one knows), `levels` (which buckets), `blue` (one
window's buckets), `windows` (two of them, and the clients), `service` (the throttle itself). Then sharing: `ports` (the
document's storage service, and the rows behind it), `rows` (what a store does, as arithmetic), `ledger`, `peers`,
`squash` and `exchange` (the machine), `client` (the machine for many threads), `worker` (the machine at work), `teller`
(metrics and logs), `backends/`. Before an application: `front/`, middleware for ASGI and WSGI.
"""

from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.model import (
    BucketStats,
    ClientId,
    Config,
    Decision,
    Explanation,
    Outcome,
    Stats,
    mean,
    smallest,
)
from argosy.throttle.ports import (
    BucketDelta,
    Channel,
    OverwriteBucket,
    QueueFull,
    RespBucket,
    RowStore,
    StorageService,
    Update,
)
from argosy.throttle.presets import PRESETS, preset, tune_config
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.sync import ThrottleSync

__all__ = [
    "PRESETS",
    "BucketDelta",
    "BucketStats",
    "Channel",
    "ClientId",
    "Config",
    "Decision",
    "Explanation",
    "FairThrottle",
    "Outcome",
    "OverwriteBucket",
    "QueueFull",
    "RespBucket",
    "RowStore",
    "Stats",
    "StorageService",
    "ThrottleSettings",
    "ThrottleSync",
    "Update",
    "mean",
    "preset",
    "smallest",
    "tune_config",
]
