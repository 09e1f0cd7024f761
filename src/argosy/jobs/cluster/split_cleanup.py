"""Deletes the rows that a shard inherited from its parent and that belong to its sibling.

Each step reads a chunk of rows, deletes the foreign ones and stores its progress in the same batch, so another node
can resume it. Rows of unfinished work come first: while they exist, opening the shard has to skip them.
"""

from collections.abc import Callable

import msgspec

from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.cluster.model import Cleanup
from argosy.jobs.cluster.owned_rows import RowOwnership
from argosy.jobs.ports import StagedStore

STEP_ROWS = 1000
CLEANUP = keys.key(keys.META, "cleanup")
ORDER = (
    keys.TASK, keys.LEASE, keys.REQUEST, keys.HOLDER, keys.LIVE, keys.FLOATING, keys.UNIQUE, keys.AFTER, keys.SCHEDULE,
    keys.EXPIRY, keys.JOB, keys.DONE, keys.ATTEMPT, keys.STATUS, keys.METADATA,
)  # fmt: skip


class CleanupProgress(msgspec.Struct, frozen=True, array_like=True):
    """Progress of the cleanup of one shard."""

    shard: str  # a row copied from the parent speaks of the parent
    kind: int = 0  # index into ORDER; past its end all is done
    after: bytes = b""  # the last key looked at
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
    """One step; its result is durable."""
    start, end = keys.under(ORDER[progress.kind])
    looked, batch, last = 0, Batch(), b""
    async for key, value in store.scan(max(start, progress.after + b"\x00"), end, limit=STEP_ROWS):
        looked, last = looked + 1, key
        if not owned.has(key, value):
            batch.delete(key)
    deleted = progress.deleted + len(batch)
    if looked < STEP_ROWS:
        kind = progress.kind + 1
        progress = CleanupProgress(progress.shard, kind, b"", deleted, now_ms() if kind >= len(ORDER) else 0)
    else:
        progress = CleanupProgress(progress.shard, progress.kind, last, deleted)
    await store.wait_capacity()
    await store.stage(batch.put(CLEANUP, msgspec.msgpack.encode(progress)))
    return progress
