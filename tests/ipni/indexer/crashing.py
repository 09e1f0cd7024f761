"""A store that fails from some call on, like a killed process: earlier calls have taken effect."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from argosy.base.errors import Unavailable
from argosy.ipni.backends.memory import MemoryIndexStore
from argosy.ipni.model import IndexValue, StoreStats
from argosy.ipni.ports import Rows


class Crash(Unavailable):
    """The process is dead."""


class CrashingStore:
    """Forwards everything to `inner`; the changing call with number `crashes_at`, and all after it, fail."""

    def __init__(self, inner: MemoryIndexStore, *, crashes_at: int | None = None) -> None:
        self.inner = inner
        self.crashes_at = crashes_at
        self.calls = 0
        self.stored: list[bytes] = []

    def _call(self) -> None:
        if self.crashes_at is not None and self.calls >= self.crashes_at:
            raise Crash("crashed")
        self.calls += 1

    async def put(
        self,
        value: IndexValue,
        multihashes: Sequence[bytes] = (),
        rows: Rows | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        self._call()
        await self.inner.put(value, multihashes, rows, is_durable=is_durable)
        self.stored += multihashes

    async def remove_context(self, provider: str, context: bytes, rows: Rows | None = None) -> None:
        self._call()
        await self.inner.remove_context(provider, context, rows)

    async def remove_provider(self, provider: str, rows: Rows | None = None) -> None:
        self._call()
        await self.inner.remove_provider(provider, rows)

    async def write(self, rows: Rows, *, is_durable: bool = False) -> None:
        self._call()
        await self.inner.write(rows, is_durable=is_durable)

    async def sweep(self, entries_max: int) -> int:
        return await self.inner.sweep(entries_max)

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        return await self.inner.find(multihashes)

    async def find_second(self, digests: Sequence[bytes]) -> list[bytes | None]:
        return await self.inner.find_second(digests)

    async def find_value(self, value_key_hash: bytes) -> IndexValue | None:
        return await self.inner.find_value(value_key_hash)

    async def multihashes(self, provider: str, context: bytes, *, start: bytes, limit: int) -> list[bytes]:
        return await self.inner.multihashes(provider, context, start=start, limit=limit)

    async def context_size(self, provider: str, context: bytes) -> int:
        return await self.inner.context_size(provider, context)

    async def read(self, key: bytes) -> bytes | None:
        return await self.inner.read(key)

    def scan(self, prefix: bytes) -> AsyncIterator[tuple[bytes, bytes]]:
        return self.inner.scan(prefix)

    async def stats(self) -> StoreStats:
        return await self.inner.stats()

    async def close(self) -> None:
        await self.inner.close()


async def rows_of(store: Any, prefix: bytes = b"") -> dict[bytes, bytes]:
    return {key: data async for key, data in store.scan(prefix)}
