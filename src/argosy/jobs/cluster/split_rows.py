"""Rows after a split: each child shows only its own, and deletes those of its sibling.

The children of a split start with all rows of their parent, because rows are ordered by kind and tenant, not by hash
(decision 0025). Until the sibling's rows are deleted, no layer above the store may see them: a task of the sibling must
never be leased here (JOB-2).

The cleanup reads a chunk of rows per step, deletes the foreign ones and stores its progress in the same batch, so
another node can resume it. Rows of unfinished work come first: while they exist, opening the shard has to skip them.
"""

from collections.abc import AsyncIterator, Callable
from enum import StrEnum

import msgspec

from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.cluster.shard_map import HashRange
from argosy.jobs.model import TaskLease
from argosy.jobs.ports import StagedStore

_TASK_TENANT, _EXPIRY_TENANT = 5, 1  # index of the tenant in these keys; in all others it is the first item
_OF_NO_TENANT = frozenset({keys.BUCKET, keys.META})
_LEASE = msgspec.msgpack.Decoder(TaskLease)


def tenant_of(key: bytes, value: bytes) -> str | None:
    """The tenant of a row; None for rows of the shard itself."""
    kind = key[0]
    if kind in _OF_NO_TENANT:
        return None
    if kind == keys.LEASE:
        return _LEASE.decode(value).task.tenant
    at = {keys.TASK: _TASK_TENANT, keys.EXPIRY: _EXPIRY_TENANT}.get(kind, 0)
    return str(keys.items(key)[at])


class RowOwnership:
    """Which rows belong to the shard. Consecutive rows mostly have the same tenant, so recent answers are cached."""

    CACHED_MAX = 10_000  # tenants; cleared when full, since scans meet tenants in order and rarely again

    def __init__(self, range_: HashRange) -> None:
        self._range = range_
        self._known: dict[str, bool] = {}

    def has(self, key: bytes, value: bytes) -> bool:
        tenant = tenant_of(key, value)
        return tenant is None or self.has_tenant(tenant)

    def has_tenant(self, tenant: str) -> bool:
        known = self._known.get(tenant)
        if known is None:
            if len(self._known) >= self.CACHED_MAX:
                self._known.clear()
            known = self._known[tenant] = self._range.has(tenant)
        return known


class OwnedRowsView:
    """A store that shows only the shard's own rows, until `is_clean`."""

    def __init__(self, store: StagedStore, owned: RowOwnership, *, is_clean: bool) -> None:
        self._store = store
        self._ownership = owned
        self.is_clean = is_clean
        # Only scans are filtered. A read by key names the tenant in the key, and the guard has checked the tenant. The
        # store's own methods, not wrappers: every enqueue, lease and report passes here.
        self.stage = store.stage
        self.wait_capacity = store.wait_capacity
        self.get = store.get
        self.get_many = store.get_many

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        if self.is_clean:
            async for pair in self._store.scan(start, end, limit=limit, reverse=reverse):
                yield pair
            return
        left = limit
        if left == 0:
            return
        # Without the limit: rows of the sibling count for the store and not for the caller.
        async for key, value in self._store.scan(start, end, reverse=reverse):
            if self._ownership.has(key, value):
                yield key, value
                left = None if left is None else left - 1
                if left == 0:
                    return


STEP_ROWS = 1000  # 5 ms of reading; the shard serves meanwhile
CLEANUP = keys.key(keys.META, "cleanup")
ORDER = (
    keys.TASK, keys.LEASE, keys.REQUEST, keys.HOLDER, keys.LIVE, keys.FLOATING, keys.UNIQUE, keys.AFTER, keys.SCHEDULE,
    keys.EXPIRY, keys.JOB, keys.DONE, keys.ATTEMPT, keys.STATUS, keys.METADATA,
)  # fmt: skip


class Cleanup(StrEnum):
    """The phase of deleting the sibling's rows after a split."""

    PENDING = "CleanupPending"
    RUNNING = "CleanupRunning"
    DONE = "CompactionDone"  # or there never was anything to clean


class CleanupProgress(msgspec.Struct, frozen=True, array_like=True):
    """Progress of the cleanup of one shard."""

    shard: str  # a row that was copied from the parent has the parent's id, and does not count
    kind: int = 0  # index into ORDER; past its end all is done
    after: bytes = b""  # the last key that was examined
    deleted: int = 0
    done_at: int = 0  # milliseconds since the epoch

    @property
    def is_done(self) -> bool:
        return self.kind >= len(ORDER)

    @property
    def status(self) -> Cleanup:
        if self.is_done:
            return Cleanup.DONE
        return Cleanup.RUNNING if self.kind or self.after else Cleanup.PENDING


async def read_progress(store: StagedStore, shard_id: str, *, has_parent: bool) -> CleanupProgress:
    """The stored progress; a shard that did not come from a split needs no cleanup."""
    found = await store.get(CLEANUP)
    known = msgspec.msgpack.decode(found, type=CleanupProgress) if found is not None else None
    if known is not None and known.shard == shard_id:
        return known
    return CleanupProgress(shard_id, kind=0 if has_parent else len(ORDER))


async def clean_chunk(
    store: StagedStore, owned: RowOwnership, progress: CleanupProgress, now_ms: Callable[[], int]
) -> CleanupProgress:
    """One step. The progress is part of the batch of deletions, so neither can be durable without the other."""
    start, end = keys.under(ORDER[progress.kind])
    examined, batch, last = 0, Batch(), b""
    # From the last examined key: a scan from the start would pass the tombstones of all earlier steps.
    async for key, value in store.scan(max(start, progress.after + b"\x00"), end, limit=STEP_ROWS):
        examined, last = examined + 1, key
        if not owned.has(key, value):
            batch.delete(key)
    deleted = progress.deleted + len(batch)
    if examined < STEP_ROWS:
        kind = progress.kind + 1
        progress = CleanupProgress(progress.shard, kind, b"", deleted, now_ms() if kind >= len(ORDER) else 0)
    else:
        progress = CleanupProgress(progress.shard, progress.kind, last, deleted)
    # The cleanup is the least urgent writer: it waits while clients fill the store.
    await store.wait_capacity()
    await store.stage(batch.put(CLEANUP, msgspec.msgpack.encode(progress)))
    return progress
