"""Idempotency keys: a request takes its key atomically, and a repeated request gets the result of the first one.

A key stays pending until its owner finishes or abandons it, or it expires: a request that may have taken effect is
never repeated."""

from dataclasses import dataclass, replace
from enum import StrEnum

from argosy.base.errors import Invalid
from argosy.registry.crud import check_key, check_span, put_row
from argosy.registry.rows import IdempotencyEntry, IdempotencyState
from argosy.registry.tables import IDEMPOTENCY_CACHE
from argosy.registry.transaction import Delete, Get, Now, TransactionBody, commit, get, read_many, transaction

TTL_MS = 86_400_000  # a day, as in the design and at Stripe: longer than clients retry
TTL_MS_MAX = 30 * 86_400_000
KEY_CHARS_MAX = 255  # Stripe's limit, which clients expect
_SHA256_BYTES = 32


class IdempotencyVerdict(StrEnum):
    NEW = "new"  # the key was free: act, then call finish
    PENDING = "pending"  # another request with the key is in progress
    REPLAY = "replay"  # it is done: return its task
    MISMATCH = "mismatch"  # the key was used for another body


@dataclass(frozen=True)
class BeginResult:
    verdict: IdempotencyVerdict
    task_id: str | None = None  # of a replay


@transaction
def begin(key: str, body_sha256: bytes, ttl_ms: int = TTL_MS) -> TransactionBody[BeginResult]:
    """Takes a key, or returns its state."""
    _check(key)
    check_span("the life of an idempotency key", ttl_ms, TTL_MS_MAX)
    if len(body_sha256) != _SHA256_BYTES:
        raise Invalid(f"body_sha256 must be the {_SHA256_BYTES} bytes of a sha-256, not {len(body_sha256)}")
    clock, entry = yield from read_many(Now(), Get(IDEMPOTENCY_CACHE, (key,)))
    if entry is None:
        pending = IdempotencyEntry(key, body_sha256, IdempotencyState.PENDING, None, clock + ttl_ms)
        # Version 0: of two requests that found the key free, one commits, and the other runs again and sees it pending.
        yield from put_row(IDEMPOTENCY_CACHE, pending)
        return BeginResult(IdempotencyVerdict.NEW)
    # Checked before the state: even a request in progress must not be taken for another one.
    if entry.body_sha256 != body_sha256:
        return BeginResult(IdempotencyVerdict.MISMATCH)
    if entry.state is IdempotencyState.PENDING:
        return BeginResult(IdempotencyVerdict.PENDING)
    return BeginResult(IdempotencyVerdict.REPLAY, entry.task_id)


@transaction
def finish(key: str, task_id: str) -> TransactionBody[bool]:
    """Records the task of a pending key; its expiry is unchanged. Returns False if the key is not pending."""
    if not task_id:
        raise Invalid("finish needs the id of the task")
    entry = yield from _pending(key)
    if entry is None:
        return False
    yield from put_row(IDEMPOTENCY_CACHE, replace(entry, state=IdempotencyState.DONE, task_id=task_id))
    return True


@transaction
def abandon(key: str) -> TransactionBody[bool]:
    """Frees a pending key, because nothing was done. Returns False if the key is not pending."""
    entry = yield from _pending(key)
    if entry is None:
        return False
    yield from commit(Delete(IDEMPOTENCY_CACHE, entry))
    return True


def _pending(key: str) -> TransactionBody[IdempotencyEntry | None]:
    _check(key)
    entry = yield from get(IDEMPOTENCY_CACHE, key)
    return entry if entry is not None and entry.state is IdempotencyState.PENDING else None


def _check(key: str) -> None:
    check_key(IDEMPOTENCY_CACHE, (key,))
    if len(key) > KEY_CHARS_MAX:
        raise Invalid(f"an idempotency key has at most {KEY_CHARS_MAX} characters, not {len(key)}")
