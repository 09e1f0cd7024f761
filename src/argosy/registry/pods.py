"""Live gateways: each sends heartbeats, and one without a heartbeat for a window counts as gone."""

from argosy.registry.crud import BATCH_MAX, check_key, check_span
from argosy.registry.rows import LivePod
from argosy.registry.tables import LIVE_PODS
from argosy.registry.transaction import Delete, Get, TransactionBody, Upsert, commit, find, now, read_many, transaction

WINDOW_MS = 120_000
WINDOW_MS_MAX = 86_400_000


@transaction
def heartbeat(pod_id: str) -> TransactionBody[None]:
    check_key(LIVE_PODS, (pod_id,))
    clock = yield from now()
    yield from commit(Upsert(LIVE_PODS, LivePod(pod_id, clock)))


@transaction
def leave(pod_id: str) -> TransactionBody[bool]:
    """Removes a pod that shuts down. Returns False if there was none."""
    check_key(LIVE_PODS, (pod_id,))
    (gone,) = yield from read_many(Get(LIVE_PODS, (pod_id,)))
    if gone is None:
        return False
    yield from commit(Delete(LIVE_PODS, gone))
    return True


@transaction
def live(window_ms: int = WINDOW_MS) -> TransactionBody[list[LivePod]]:
    """Pods with a heartbeat within the window, oldest heartbeat first."""
    check_span("the window", window_ms, WINDOW_MS_MAX)
    clock = yield from now()
    return (yield from find(LIVE_PODS, "all", after=clock - window_ms))


@transaction
def prune(window_ms: int = WINDOW_MS_MAX) -> TransactionBody[int]:
    """Deletes a batch of pods without a heartbeat within the window. Call it until it returns 0."""
    check_span("the window", window_ms, WINDOW_MS_MAX)
    clock = yield from now()
    silent = yield from find(LIVE_PODS, "all", until=clock - window_ms, limit=BATCH_MAX)
    if silent:
        yield from commit(*(Delete(LIVE_PODS, pod) for pod in silent))
    return len(silent)
