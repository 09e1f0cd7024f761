"""SlateDB as an OrderedKV: one database, one writer, durable when it says so.

Durable means: the rows are in a write-ahead object of the store. On S3 that is what the service promises for an object;
in a folder it is what `syncing` says, or with `fsync = never` only that the operating system has them; in memory
nothing outlives the process. Nothing is flushed by a timer: whoever waits for durability starts the flush, and all who
come while it runs share the next one, so a lone write waits for nothing and an idle database costs nothing.

Fencing: the newest opener is the writer. Its predecessor is told at its next write and gets Fenced, then and ever
after. A reader would notice only up to a second later, so every read is also gated by `may_serve`, the lease's own
clock, before and after.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from slatedb.uniffi import (  # type: ignore[import-untyped]
    CloseReason,
    DurabilityLevel,
    Error,
    FlushOptions,
    FlushType,
    IterationOrder,
    KeyRange,
    ScanOptions,
    WriteBatch,
)

from argosy.base import logs
from argosy.base.errors import ArgosyError, Fenced, Invalid, Unavailable
from argosy.base.kv import Batch, check_key, check_keys, check_limit
from argosy.jobs.backends.fsync import DirSync
from argosy.jobs.backends.slatedb_fastcopy import copier
from argosy.jobs.ports import Changes
from argosy.jobs.settings import ShardStoreSettings

SlateError: type[Exception] = Error


def error_from_slatedb(error: Exception, *, store: str) -> ArgosyError:
    """The error to raise in place of one of SlateDB's; `store` is the shard's place in its store."""
    text = str(getattr(error, "message", error))
    match error:
        case Error.Closed(reason=CloseReason.FENCED):
            return Fenced(f"another writer has opened {store}: this one must stop")
        case Error.Closed():
            return Unavailable(f"{store} is closed: open it anew ({text})")
        case Error.Invalid():
            return Invalid(f"{store} refuses this: {text}")
        case Error.Data():
            return Unavailable(f"{store} cannot be read, its files are damaged or of another version: {text}")
        case _:
            return Unavailable(f"{store} does not answer: open it anew once its storage is back ({text})")


if TYPE_CHECKING:
    from slatedb.uniffi import Db

T = TypeVar("T")

GETS_AT_ONCE_MAX = 64  # beyond that they only queue inside SlateDB
SCAN_ROWS = 1000  # one call's worth: 5 µs a row, against 50 one at a time
SCAN_ROWS_FIRST = 64  # most scans want a few rows only
BUILD_ROWS = 1000  # 5 ms of building a batch; then others have their turn
READ_AHEAD_BYTES = 1 << 20
FETCHES_MAX = 4
SYNC_S = 1.0  # the longest a manifest stays unsynced
CLOSE_S_MAX = 10.0
CLOSE_FAILED_S_MAX = 1.0  # a store that is lost has nothing left to flush

_WAL = FlushOptions(flush_type=FlushType.WAL)
_log = logs.get("jobs.slatedb")


def always() -> bool:
    return True


class SlateKV:
    """One shard's rows. Open it through `opening`."""

    def __init__(
        self,
        db: "Db",
        *,
        name: str,
        settings: ShardStoreSettings,
        may_serve: Callable[[], bool] = always,
        sync: DirSync | None = None,
        threads: Executor | None = None,
    ) -> None:
        self._db = db
        self._name = name
        self._settings = settings
        self._may_serve = may_serve
        self._sync = sync
        self._threads = threads
        self._failure: ArgosyError | None = None
        self._is_closed = False
        self._written = 0  # batches that SlateDB has taken
        self._durable = 0  # of those, how many are durable
        self._flushing = asyncio.Lock()  # one flush at a time: with two, a crash could keep the later one only
        self._syncing = None if sync is None else asyncio.ensure_future(self._sync_periodically(sync))

    async def get(self, key: bytes) -> bytes | None:
        self.check_readable()
        check_key(key)
        value: bytes | None = await self._read(self._db.get(key))
        self.check_readable()
        return value

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.check_readable()
        check_keys(keys)
        values: list[bytes | None] = []
        for begin in range(0, len(keys), GETS_AT_ONCE_MAX):
            values += await asyncio.gather(*map(self.get, keys[begin : begin + GETS_AT_ONCE_MAX]))
        return values

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        self.check_readable()
        check_limit(limit)
        if limit == 0 or (end is not None and end <= start):
            return
        pairs = await self._read(self._db.scan_with_options(_range(start, end), _options(reverse)))
        left, rows = limit, SCAN_ROWS_FIRST
        while left is None or left > 0:
            wanted = rows if left is None else min(left, rows)
            found = copier.pairs(await self._read(pairs.next_batch(wanted)))
            self.check_readable()
            for pair in found:
                yield pair
            if len(found) < wanted:
                return
            left = None if left is None else left - len(found)
            rows = SCAN_ROWS

    async def write(self, batch: Batch) -> None:
        await asyncio.shield(await self.write_pipelined(dict(batch.ops())))

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        """Returns when SlateDB has taken the changes, so that reads see them; what is returned ends with durability.

        They become durable in the order in which they were taken.
        """
        self._check_writable()
        if not changes:
            return asyncio.ensure_future(asyncio.sleep(0))
        native = await self._build_batch(changes)
        await self._within(self._settings.durable_s_max, self._db.write(native))
        self._written += 1
        # A task, so that the flush begins now and goes on even if nobody awaits it.
        durable = asyncio.ensure_future(self._until_durable(self._written))
        durable.add_done_callback(_on_flushed)
        return durable

    async def close(self) -> None:
        """Flushes what was written and lets go; what cannot be flushed in time is left as it is."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.gather(self._syncing, return_exceptions=True)
        seconds = CLOSE_S_MAX if self._failure is None else CLOSE_FAILED_S_MAX
        try:
            async with asyncio.timeout(seconds), self._flushing:
                await self._db.shutdown()
                if self._failure is None:
                    await self._sync_all()
        except (TimeoutError, SlateError, OSError) as error:
            _log.warning("shard closed unflushed", store=self._name, error=str(error) or f"after {seconds} s")

    def check_readable(self) -> None:
        """Raises unless what is read now is the newest there is."""
        self._check_writable()
        if not self._may_serve():
            raise Unavailable(f"the lease on {self._name} is not known to stand: ask again, or ask its new holder")

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))
        if self._is_closed:
            raise Unavailable(f"{self._name} is closed: open it anew")

    async def _build_batch(self, changes: Changes) -> WriteBatch:
        native, left = WriteBatch(), iter(changes.items())
        while rows := list(islice(left, BUILD_ROWS)):
            copier.fill(native, rows)
            if len(rows) == BUILD_ROWS:
                await asyncio.sleep(0)
        return native

    async def _until_durable(self, number: int) -> None:
        async with self._flushing:
            if self._durable >= number:
                return
            self._check_writable()
            covers = self._written
            await self._within(self._settings.durable_s_max, self._flush())
            self._durable = covers

    async def _flush(self) -> None:
        await self._db.flush_with_options(_WAL)
        await self._sync_all()

    async def _sync_all(self) -> None:
        if self._sync is not None:
            # Side by side, because in turn each would wait for the disk by itself.
            await asyncio.gather(self._in_thread(self._sync.sync_files), self._in_thread(self._sync.sync_names))

    async def _sync_periodically(self, sync: DirSync) -> None:
        """Tables and manifests appear on SlateDB's own time, also when nobody writes."""
        while self._failure is None:
            await asyncio.sleep(SYNC_S)
            async with self._flushing:
                try:
                    await self._in_thread(sync.sync_others)
                except OSError as error:
                    self._fail(_sync_error(self._name, error))

    async def _in_thread(self, call: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _read(self, call: Coroutine[Any, Any, T]) -> T:
        return await self._within(self._settings.read_s_max, call, is_write=False)

    async def _within(self, seconds: float, call: Coroutine[Any, Any, T], *, is_write: bool = True) -> T:
        """Awaits a call of SlateDB. A write that fails ends this store: nobody knows what became of it."""
        try:
            async with asyncio.timeout(seconds):
                return await call
        except SlateError as error:
            failure = error_from_slatedb(error, store=self._name)
        except OSError as error:  # TimeoutError is one of them
            failure = self._late(seconds) if isinstance(error, TimeoutError) else _sync_error(self._name, error)
        if is_write or isinstance(failure, Fenced):
            self._fail(failure)
        raise failure

    def _late(self, seconds: float) -> Unavailable:
        return Unavailable(f"the storage of {self._name} has not answered for {seconds:g} s: see that it is reachable")

    def _fail(self, failure: ArgosyError) -> None:
        if self._failure is None:
            _log.warning("shard lost its store", store=self._name, error=str(failure))
            self._failure = failure


def _sync_error(name: str, error: OSError) -> Unavailable:
    # After a failed fsync the kernel may have dropped the pages, so a second one would succeed and prove nothing.
    return Unavailable(f"the disk under {name} did not take what was written: {error.strerror or error}")


def _on_flushed(done: "asyncio.Future[None]") -> None:
    """The failure is kept and told to every later caller, so that nobody awaited this one is no news."""
    with suppress(asyncio.CancelledError):
        done.exception()


def _range(start: bytes, end: bytes | None) -> KeyRange:
    return KeyRange(start=start or None, start_inclusive=True, end=end, end_inclusive=False)


def _options(reverse: bool) -> ScanOptions:
    return ScanOptions(
        durability_filter=DurabilityLevel.MEMORY,
        dirty=False,
        read_ahead_bytes=READ_AHEAD_BYTES,
        cache_blocks=True,
        max_fetch_tasks=FETCHES_MAX,
        order=IterationOrder.DESCENDING if reverse else IterationOrder.ASCENDING,
    )
