"""SlateDB as an OrderedKV: one database with one writer, and explicit durability.

Durable means that the rows are in a write-ahead object of the store. On S3 that is what the service promises for an
object; in a directory what `fsync` describes, or with `fsync = never` only that the operating system has them; in
memory nothing outlives the process. There is no flush timer: a caller that waits for durability starts a flush, and
those that come while it runs share the next one, so a lone write does not wait for a timer and an idle database costs
nothing.

Fencing: the newest opener is the writer. The previous one gets Fenced at its next write and from then on. Its reads
would notice only up to a second later (SlateDB polls the manifest once a second), so every read is also checked with
`may_serve`, the lease by the local clock, before and after.
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
            return Fenced(f"{store} has been opened by another writer")
        case Error.Closed():
            return Unavailable(f"{store} is closed; reopen it ({text})")
        case Error.Invalid():
            return Invalid(f"{store} rejected the call: {text}")
        case Error.Data():
            return Unavailable(f"cannot read {store}: its files are damaged or of another version: {text}")
        case _:
            return Unavailable(f"{store} is unreachable; reopen it when its storage is back ({text})")


if TYPE_CHECKING:
    from slatedb.uniffi import Db

T = TypeVar("T")

GETS_AT_ONCE_MAX = 64  # further ones would only queue inside SlateDB
SCAN_ROWS = 1000  # of one call: 5 µs a row, against 50 µs with a call for each
SCAN_ROWS_FIRST = 64  # most scans need a few rows only
BUILD_ROWS = 1000  # 5 ms of building a batch; then the event loop runs other tasks
READ_AHEAD_BYTES = 1 << 20
FETCHES_MAX = 4
SYNC_S = 1.0  # the longest a manifest stays unsynced
CLOSE_S_MAX = 10.0
CLOSE_FAILED_S_MAX = 1.0  # a store that has failed has nothing to flush

_WAL = FlushOptions(flush_type=FlushType.WAL)
_log = logs.get("jobs.slatedb")


def always() -> bool:
    return True


class SlateKV:
    """One shard's rows; see `SlateShardStore.shard`."""

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
        """Returns when reads see the changes; the result completes when they are durable, in the order of calls."""
        self._check_writable()
        if not changes:
            return asyncio.ensure_future(asyncio.sleep(0))
        native = await self._build_batch(changes)
        await self._within(self._settings.durable_s_max, self._db.write(native))
        # After the call: only what SlateDB has taken can be covered by a flush.
        self._written += 1
        # A task, so that the flush starts now and continues even if the caller is cancelled.
        durable = asyncio.ensure_future(self._until_durable(self._written))
        durable.add_done_callback(_on_flushed)
        return durable

    async def close(self) -> None:
        """Flushes what was written and closes the database; gives up after a time limit."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.gather(self._syncing, return_exceptions=True)
        seconds = CLOSE_S_MAX if self._failure is None else CLOSE_FAILED_S_MAX
        try:
            # Waits for a flush in progress, whose callers get its result.
            async with asyncio.timeout(seconds), self._flushing:
                await self._db.shutdown()
                if self._failure is None:
                    await self._sync_all()
        except (TimeoutError, SlateError, OSError) as error:
            _log.warning("shard closed unflushed", store=self._name, error=str(error) or f"after {seconds} s")

    def check_readable(self) -> None:
        """Raises unless reads return the newest data."""
        self._check_writable()
        if not self._may_serve():
            raise Unavailable(f"the lease on {self._name} may have expired; retry, here or at its new holder")

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))
        if self._is_closed:
            raise Unavailable(f"{self._name} is closed; reopen it")

    async def _build_batch(self, changes: Changes) -> WriteBatch:
        native, left = WriteBatch(), iter(changes.items())
        while rows := list(islice(left, BUILD_ROWS)):
            copier.fill(native, rows)
            if len(rows) == BUILD_ROWS:
                await asyncio.sleep(0)
        return native

    async def _until_durable(self, number: int) -> None:
        # The lock makes the callers of one flush share it: those that come while it runs find, once they have the lock,
        # that a later flush has covered them, or start the next one for all.
        async with self._flushing:
            if self._durable >= number:
                return
            self._check_writable()
            covers = self._written  # everything that was written before the flush starts
            await self._within(self._settings.durable_s_max, self._flush())
            self._durable = covers

    async def _flush(self) -> None:
        await self._db.flush_with_options(_WAL)
        await self._sync_all()

    async def _sync_all(self) -> None:
        if self._sync is not None:
            # Concurrently: one after the other, each would wait for the disk.
            await asyncio.gather(self._in_thread(self._sync.sync_files), self._in_thread(self._sync.sync_names))

    async def _sync_periodically(self, sync: DirSync) -> None:
        """SlateDB writes tables and manifests in the background, also when there are no writes."""
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
        """Awaits a call of SlateDB. A write that fails ends this store: whether it reached the disk is unknown."""
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
        return Unavailable(f"{self._name} timed out after {seconds:g} s; check that its storage is reachable")

    def _fail(self, failure: ArgosyError) -> None:
        if self._failure is None:
            _log.warning("shard store failed", store=self._name, error=str(failure))
            self._failure = failure


def _sync_error(name: str, error: OSError) -> Unavailable:
    # Not retried: after a failed fsync Linux may drop the dirty pages, so a second one succeeds without the data being
    # on the disk (PostgreSQL, "fsyncgate", 2018). The shard is reopened from what is there.
    return Unavailable(f"cannot sync {name} to disk: {error.strerror or error}")


def _on_flushed(done: "asyncio.Future[None]") -> None:
    """Retrieves the exception, so that asyncio does not log it: the failure is raised to every later caller."""
    with suppress(asyncio.CancelledError):
        done.exception()


def _range(start: bytes, end: bytes | None) -> KeyRange:
    # SlateDB rejects an empty key as a bound.
    return KeyRange(start=start or None, start_inclusive=True, end=end, end_inclusive=False)


def _options(reverse: bool) -> ScanOptions:
    return ScanOptions(
        # Reads see what is written and not yet durable: the caller acknowledges nothing before it is (JOB-1).
        durability_filter=DurabilityLevel.MEMORY,
        dirty=False,
        read_ahead_bytes=READ_AHEAD_BYTES,
        cache_blocks=True,
        max_fetch_tasks=FETCHES_MAX,
        order=IterationOrder.DESCENDING if reverse else IterationOrder.ASCENDING,
    )
