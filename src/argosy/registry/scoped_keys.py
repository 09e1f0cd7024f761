"""Search keys that are rotated without downtime: the old key is revoked only when every live gateway uses the new one.

A gateway reports which generation it used, and the report is valid for a minute. Without live gateways none has shown
that it has the new key, so the old one stays valid.
"""

from dataclasses import dataclass, replace

from argosy.base.errors import Conflict, Invalid
from argosy.registry import crud, pods
from argosy.registry.crud import check_key, check_span, put_row, require
from argosy.registry.rows import ScopedKey, ScopedKeyObserved
from argosy.registry.tables import SCOPED_KEYS, SCOPED_KEYS_OBSERVED
from argosy.registry.transaction import Find, TransactionBody, Upsert, commit, get, now, read_many, transaction

OBSERVED_MS = 60_000
OBSERVED_MS_MAX = 3_600_000


@dataclass(frozen=True)
class RevocationCheck:
    """Whether the previous key may be revoked. `waiting` are the live gateways that have not used the new one."""

    is_open: bool
    waiting: tuple[str, ...]


@transaction
def rotate(index_uid: str, primary_uid: str, *, expected_generation: int) -> TransactionBody[ScopedKey]:
    """Puts a new key in force (from generation 0: the first); Conflict if a rotation was first, or is not over."""
    if not primary_uid:
        raise Invalid("a search key has an id")
    check_key(SCOPED_KEYS, (index_uid,))
    clock = yield from now()
    old = yield from get(SCOPED_KEYS, index_uid)
    generation = 0 if old is None else old.generation
    if generation != expected_generation:
        raise Conflict(f"the search key of {index_uid!r} is of generation {generation}, not {expected_generation}")
    if old is None:
        return (yield from put_row(SCOPED_KEYS, ScopedKey(index_uid, primary_uid, None, clock, 1)))
    if old.previous_uid is not None:
        raise Conflict(f"key {old.previous_uid!r} of {index_uid!r} has not been revoked yet: nobody would remember it")
    new = replace(
        old, primary_uid=primary_uid, previous_uid=old.primary_uid, rotated_at=clock, generation=generation + 1
    )
    return (yield from put_row(SCOPED_KEYS, new))


@transaction
def observe(pod_id: str, index_uid: str, generation: int, ttl_ms: int = OBSERVED_MS) -> TransactionBody[None]:
    """Records that a gateway has used a generation; valid for `ttl_ms`."""
    check_key(SCOPED_KEYS_OBSERVED, (pod_id, index_uid))
    check_span("the word of a gateway", ttl_ms, OBSERVED_MS_MAX)
    clock = yield from now()
    seen = ScopedKeyObserved(pod_id, index_uid, generation, clock, clock + ttl_ms)
    yield from commit(Upsert(SCOPED_KEYS_OBSERVED, seen))


@transaction
def gate(index_uid: str, window_ms: int = pods.WINDOW_MS) -> TransactionBody[RevocationCheck]:
    """Whether every live gateway has used the current key."""
    key = yield from require(SCOPED_KEYS, index_uid)
    return (yield from _gate(key, window_ms))


@transaction
def revoke_previous(index_uid: str, generation: int, window_ms: int = pods.WINDOW_MS) -> TransactionBody[str | None]:
    """Takes the previous key out of the record if the gate is open, and returns it: delete it now. Else None."""
    key = yield from require(SCOPED_KEYS, index_uid)
    if key.generation != generation:
        raise Conflict(f"the search key of {index_uid!r} is of generation {key.generation}, not {generation}")
    opened = yield from _gate(key, window_ms)
    if key.previous_uid is None or not opened.is_open:
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
    alive = yield from pods.live(window_ms)
    (observed,) = yield from read_many(Find(SCOPED_KEYS_OBSERVED, "index", (key.index_uid,)))
    ready = {seen.pod_id for seen in observed if seen.generation >= key.generation}
    waiting = tuple(sorted(pod.pod_id for pod in alive if pod.pod_id not in ready))
    return RevocationCheck(bool(alive) and not waiting, waiting)
