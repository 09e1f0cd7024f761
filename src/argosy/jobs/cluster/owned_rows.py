"""A view of a shard's own rows after a split.

The children of a split start with all rows of their parent. Until the sibling's rows are deleted, no layer above the
store may see them: a task of the sibling must never be leased here (JOB-2).
"""

from collections.abc import AsyncIterator, Awaitable, Sequence

import msgspec

from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.cluster.shardmap import HashRange
from argosy.jobs.model import TaskLease
from argosy.jobs.ports import StagedStore

_TASK_TENANT, _EXPIRY_TENANT = 5, 1  # which part of the key it is; everywhere else the first
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

    CACHED_MAX = 10_000

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

    def stage(self, batch: Batch) -> Awaitable[None]:
        return self._store.stage(batch)

    async def wait_capacity(self) -> None:
        await self._store.wait_capacity()

    async def get(self, key: bytes) -> bytes | None:
        """Not filtered: the caller named the tenant in the key, and the guard has checked the tenant."""
        return await self._store.get(key)

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return await self._store.get_many(keys)

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
        async for key, value in self._store.scan(start, end, reverse=reverse):
            if self._ownership.has(key, value):
                yield key, value
                left = None if left is None else left - 1
                if left == 0:
                    return
