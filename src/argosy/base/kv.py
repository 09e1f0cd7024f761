"""The ordered key-value store, a port, and its implementation in memory.

Every implementation guarantees the following; `tests/contracts/test_ordered_kv.py` tests each of them:

- keys and values are `bytes`; keys sort bytewise, are never empty, and have a maximum length;
- a batch is atomic, and `write` returns when it is as durable as the store makes it;
- a read that starts after a write has returned sees the write;
- a scan is a snapshot of the moment at which its first pair is requested;
- a store has one writer; a writer that has been replaced gets Fenced and must stop;
- after `close` every call raises Unavailable; closing twice is allowed.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Protocol

from sortedcontainers import SortedDict  # type: ignore[import-untyped]

from argosy.base.errors import Invalid, Unavailable

KEY_BYTES_MAX = 65_535  # SlateDB keeps a key's length in two bytes
# The same bounds for every implementation: code that passes on the store in memory must not fail on disk.
BATCH_OPS_MAX = 100_000
BATCH_BYTES_MAX = 64 * 1024 * 1024  # a batch is held in memory whole, by the caller and by the store
GET_MANY_MAX = 100_000


class Batch:
    """Changes that are written atomically; of several changes to a key the last one applies."""

    def __init__(self) -> None:
        self._ops: dict[bytes, bytes | None] = {}
        self._size_bytes = 0

    def put(self, key: bytes, value: bytes) -> "Batch":
        if not isinstance(value, bytes):
            raise Invalid(f"a value must be bytes; got {type(value).__name__}")
        return self._add(key, value)

    def delete(self, key: bytes) -> "Batch":
        """Deleting a missing key is no error."""
        return self._add(key, None)

    def ops(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Each key once, with its new value, or None if it is deleted."""
        return iter(self._ops.items())

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._ops)

    def _add(self, key: bytes, value: bytes | None) -> "Batch":
        check_key(key)
        # A key that is put again replaces its earlier change, so only the difference counts.
        replaced = _size(key, self._ops[key]) if key in self._ops else 0
        size_bytes = self._size_bytes - replaced + _size(key, value)
        if size_bytes > BATCH_BYTES_MAX:
            raise Invalid(f"batch too large: the limit is {BATCH_BYTES_MAX} bytes; split it")
        if not replaced and len(self._ops) >= BATCH_OPS_MAX:
            raise Invalid(f"batch too large: the limit is {BATCH_OPS_MAX} keys; split it")
        self._ops[key] = value
        self._size_bytes = size_bytes
        return self


class OrderedKV(Protocol):
    """The port; the module's docstring lists its guarantees."""

    async def get(self, key: bytes) -> bytes | None: ...

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """One value per key, in the order of the keys."""
        ...

    def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """The pairs with start <= key < end in key order, or in descending order; no `end` means the last key."""
        ...

    async def write(self, batch: Batch) -> None:
        """Applies the batch atomically; an empty batch changes nothing."""
        ...

    async def close(self) -> None: ...


class MemoryKV:
    """The store in memory, as durable as the process: for tests, simulations and small embedded use.

    A scan copies the pairs of its range when it starts, so pass a `limit` if only the first few are needed.
    """

    def __init__(self) -> None:
        # Sorted by key, because scans are what distinguishes this store from a dict.
        self._pairs = SortedDict()
        self._is_closed = False

    async def get(self, key: bytes) -> bytes | None:
        self._check_open()
        check_key(key)
        value: bytes | None = self._pairs.get(key)
        return value

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        check_keys(keys)
        return [self._pairs.get(key) for key in keys]

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        self._check_open()
        check_limit(limit)
        # Copied, because a write during the scan must not be seen by it, as SlateDB guarantees too.
        for pair in self._snapshot(start, end, limit, reverse):
            yield pair

    async def write(self, batch: Batch) -> None:
        self._check_open()
        for key, value in batch.ops():
            if value is None:
                self._pairs.pop(key, None)
            else:
                self._pairs[key] = value

    async def close(self) -> None:
        self._is_closed = True

    def _snapshot(self, start: bytes, end: bytes | None, limit: int | None, reverse: bool) -> list[tuple[bytes, bytes]]:
        if end is not None and end <= start:
            return []
        keys = self._pairs.irange(start, end, inclusive=(True, False), reverse=reverse)
        return [(key, self._pairs[key]) for key in islice(keys, limit)]

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the store is closed")


def check_key(key: bytes) -> None:
    """Every implementation rejects the same keys, so code that works in memory works on disk."""
    if not isinstance(key, bytes) or not key:
        raise Invalid(f"a key must be bytes and not empty; got {key!r}")
    if len(key) > KEY_BYTES_MAX:
        raise Invalid(f"key too long: {len(key)} bytes; the limit is {KEY_BYTES_MAX}")


def check_keys(keys: Sequence[bytes]) -> None:
    if len(keys) > GET_MANY_MAX:
        raise Invalid(f"too many keys: {len(keys)}; the limit is {GET_MANY_MAX}")
    for key in keys:
        check_key(key)


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise Invalid(f"a scan's limit cannot be negative; got {limit}")


def _size(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"")
