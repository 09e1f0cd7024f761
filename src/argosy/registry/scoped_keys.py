"""Search keys that are rotated without downtime: the old key is revoked only when every live gateway uses the new one.

A gateway reports which generation it used, and the report is valid for a minute, so that a crashed gateway does not
block the rotation. Live gateways are those with a heartbeat within a window. Without live gateways none has shown that
it has the new key, so the old one stays valid.
"""

from dataclasses import dataclass, replace

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud
from argosy.registry.crud import BATCH_MAX, check_key, check_span, put_row, require
from argosy.registry.rows import LivePod, ScopedKey, ScopedKeyObserved
from argosy.registry.tables import LIVE_PODS, SCOPED_KEYS, SCOPED_KEYS_OBSERVED
from argosy.registry.transaction import (
    Delete,
    Find,
    Get,
    TransactionBody,
    Upsert,
    commit,
    find,
    get,
    now,
    read_many,
    transaction,
)

# A live gateway that misses a heartbeat must still be waited for.
WINDOW_MS = 120_000
WINDOW_MS_MAX = 86_400_000
OBSERVED_MS = 60_000  # without an expiry, the reports of crashed gateways would count forever
OBSERVED_MS_MAX = 3_600_000


@dataclass(frozen=True)
class RevocationCheck:
    """Whether the previous key may be revoked. `waiting` are the live gateways that have not used the new one."""

    is_open: bool
    waiting: tuple[str, ...]


@transaction
def rotate(index_uid: str, primary_uid: str, *, expected_generation: int) -> TransactionBody[ScopedKey]:
    """Makes a new key the current one; generation 0 expects none. Raises `Conflict` if another rotation was first, or
    the previous one is not finished."""
    if not primary_uid:
        raise Invalid("a search key needs an id")
    check_key(SCOPED_KEYS, (index_uid,))
    clock = yield from now()
    old = yield from get(SCOPED_KEYS, index_uid)
    generation = 0 if old is None else old.generation
    if generation != expected_generation:
        raise Conflict(f"the search key of {index_uid!r} is of generation {generation}, not {expected_generation}")
    if old is None:
        return (yield from put_row(SCOPED_KEYS, ScopedKey(index_uid, primary_uid, None, clock, 1)))
    # A record has room for one previous key. A second rotation would lose the id of the first, which could not be
    # revoked.
    if old.previous_uid is not None:
        raise Conflict(
            f"key {old.previous_uid!r} of {index_uid!r} has not been revoked yet; revoke it before the next rotation"
        )
    new = replace(
        old, primary_uid=primary_uid, previous_uid=old.primary_uid, rotated_at=clock, generation=generation + 1
    )
    return (yield from put_row(SCOPED_KEYS, new))


@transaction
def observe(pod_id: str, index_uid: str, generation: int, ttl_ms: int = OBSERVED_MS) -> TransactionBody[None]:
    """Records that a gateway has used a generation; valid for `ttl_ms`."""
    check_key(SCOPED_KEYS_OBSERVED, (pod_id, index_uid))
    check_span("the validity of a report", ttl_ms, OBSERVED_MS_MAX)
    clock = yield from now()
    # An upsert with the latest generation: gateways report often, and a lost older report does not matter.
    report = ScopedKeyObserved(pod_id, index_uid, generation, clock, clock + ttl_ms)
    yield from commit(Upsert(SCOPED_KEYS_OBSERVED, report))


@transaction
def gate(index_uid: str, window_ms: int = WINDOW_MS) -> TransactionBody[RevocationCheck]:
    """Whether every live gateway has used the current key."""
    key = yield from require(SCOPED_KEYS, index_uid)
    return (yield from _gate(key, window_ms))


@transaction
def revoke_previous(index_uid: str, generation: int, window_ms: int = WINDOW_MS) -> TransactionBody[str | None]:
    """Removes the previous key from the record if every live gateway has used the current one, and returns it, so that
    the caller deletes it. Else None."""
    key = yield from require(SCOPED_KEYS, index_uid)
    if key.generation != generation:
        raise Conflict(f"the search key of {index_uid!r} is of generation {key.generation}, not {generation}")
    check = yield from _gate(key, window_ms)
    if key.previous_uid is None or not check.is_open:
        return None
    yield from put_row(SCOPED_KEYS, replace(key, previous_uid=None))
    return key.previous_uid


@transaction
def read(index_uid: str) -> TransactionBody[ScopedKey | None]:
    check_key(SCOPED_KEYS, (index_uid,))
    return (yield from get(SCOPED_KEYS, index_uid))


@transaction
def everything() -> TransactionBody[list[ScopedKey]]:
    return (yield from crud.every(SCOPED_KEYS))


def _gate(key: ScopedKey, window_ms: int) -> TransactionBody[RevocationCheck]:
    alive = yield from live_pods(window_ms)
    (observed,) = yield from read_many(Find(SCOPED_KEYS_OBSERVED, "index", (key.index_uid,)))
    ready = {seen.pod_id for seen in observed if seen.generation >= key.generation}
    waiting = tuple(sorted(pod.pod_id for pod in alive if pod.pod_id not in ready))
    # Without live gateways the check is closed (see the module's docstring).
    return RevocationCheck(bool(alive) and not waiting, waiting)


# -- live gateways ----------------------------------------------------------------------------------------------------


@transaction
def heartbeat_pod(pod_id: str) -> TransactionBody[None]:
    check_key(LIVE_PODS, (pod_id,))
    clock = yield from now()
    yield from commit(Upsert(LIVE_PODS, LivePod(pod_id, clock)))


@transaction
def remove_pod(pod_id: str) -> TransactionBody[bool]:
    """Removes a pod that shuts down. Returns False if there was none."""
    check_key(LIVE_PODS, (pod_id,))
    (pod,) = yield from read_many(Get(LIVE_PODS, (pod_id,)))
    if pod is None:
        return False
    yield from commit(Delete(LIVE_PODS, pod))
    return True


@transaction
def live_pods(window_ms: int = WINDOW_MS) -> TransactionBody[list[LivePod]]:
    """Pods with a heartbeat within the window, oldest heartbeat first."""
    check_span("the window", window_ms, WINDOW_MS_MAX)
    clock = yield from now()
    return (yield from find(LIVE_PODS, "all", after=clock - window_ms))


@transaction
def prune_pods(window_ms: int = WINDOW_MS_MAX) -> TransactionBody[int]:
    """Deletes a batch of pods without a heartbeat within the window. Call it until it returns 0."""
    check_span("the window", window_ms, WINDOW_MS_MAX)
    clock = yield from now()
    silent = yield from find(LIVE_PODS, "all", until=clock - window_ms, limit=BATCH_MAX)
    if silent:
        yield from commit(*(Delete(LIVE_PODS, pod) for pod in silent))
    return len(silent)
