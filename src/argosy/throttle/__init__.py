"""Fair admission control for a resource that runs short; all instances share what they learn.

    throttle = FairThrottle()
    decision = throttle.register("client-7")
    if decision.throttled: ...
    throttle.report("client-7", Outcome.SUCCESS)

and with other instances, in the background:

    with ThrottleSync.open(throttle, ThrottleSettings(store="redis://cache:6379")): ...

The algorithm is Stochastic Fair BLUE: hashed buckets hold drop probabilities that rise with failures and decay with
time, so that the state is bounded and no client is listed by name.

Reading order: `model` (configuration, decision, outcome, tuning), `levels` (the buckets of a client), `blue` (one
window of buckets), `windows` (two windows, and the clients), `fair_throttle` (the throttle). Synchronization: `ports`
(the design document's storage service and the rows behind it), `rows` (arithmetic in the store, and of merging),
`exchange` (the state machine), `sync` (the background worker), `telemetry`, `backends/`. `middleware/` puts the
throttle in front of an ASGI or WSGI application, `limits/` has token and leaky buckets.
"""

from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.model import (
    PRESETS,
    BucketStats,
    ClientId,
    Config,
    Decision,
    Explanation,
    Outcome,
    ThrottleStats,
    mean,
    preset,
    smallest,
    tune_config,
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
    "StorageService",
    "ThrottleSettings",
    "ThrottleStats",
    "ThrottleSync",
    "Update",
    "mean",
    "preset",
    "smallest",
    "tune_config",
]
