"""Buckets in a file: an embedded limiter that a restart does not make forget.

All buckets are held in memory and answered from there; what a batch has changed is written to an SQLite file before
the batch is answered. One write serves every batch that came in while the last one was under way. A killed process
loses nothing that was answered; a machine that loses power may lose the last moments.

The file belongs to one process, which holds it locked: two processes would each count half of the hits. For several
processes there is Redis.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, tzinfo
from pathlib import Path

from argosy.base.clock import Clock
from argosy.base.errors import Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle.limits.backends.bucket_file import LOCK_WAIT_S, BucketFile
from argosy.throttle.limits.metrics import count, count_table
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse
from argosy.throttle.limits.table import KEYS_MAX, BucketTable, now_ms


class SqliteLimiter:
    """A bounded table of buckets that outlives the process; to be used from one event loop."""

    def __init__(self, file: BucketFile, table: BucketTable, *, clock: Clock, metrics: Metrics | None) -> None:
        """Use `open`."""
        self._file = file
        self._table = table
        self._clock = clock
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="argosy-limits")
        self._answered = 0  # batches that have changed the table
        self._saved = 0  # batches whose changes are in the file
        self._saving: asyncio.Task[None] | None = None
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        clock: Clock,
        zone: tzinfo = UTC,
        keys_max: int = KEYS_MAX,
        metrics: Metrics | None = None,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> "SqliteLimiter":
        """Opens or makes the file, and takes over the buckets that are still alive."""
        table = BucketTable(zone=zone, keys_max=keys_max, is_saved=True)
        file = await asyncio.to_thread(BucketFile, Path(path), lock_wait_s=lock_wait_s)
        try:
            table.restore(await asyncio.to_thread(file.rows), now_ms(clock))
        except BaseException:
            file.close()
            raise
        return cls(file, table, clock=clock, metrics=metrics)

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        if self._is_closed:
            raise Unavailable(f"the limits in {self._file.path} have been closed: open them anew")
        responses = self._table.answer(requests, now_ms(self._clock))
        self._answered += 1
        await self._until_saved(self._answered)
        count(self._metrics, responses)
        count_table(self._metrics, self._table)
        return responses

    async def ping(self) -> None:
        """Tries again what could not be written, if anything."""
        await self._until_saved(self._answered)

    async def close(self) -> None:
        """Writes what is left and gives the file free."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._until_saved(self._answered)
        finally:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
            self._thread.shutdown()

    async def _until_saved(self, batch: int) -> None:
        """Returns when this batch is in the file; the write that holds it may serve many."""
        while self._saved < batch:
            if self._saving is None or self._saving.done():
                self._saving = asyncio.create_task(self._save())
                self._saving.add_done_callback(_heard)
            # Shielded, because others wait for the same write.
            await asyncio.shield(self._saving)

    async def _save(self) -> None:
        batch, changes = self._answered, self._table.take_changes()
        try:
            if changes:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._file.save, changes)
        except BaseException:
            self._table.give_back(changes)
            raise
        self._saved = batch


def _heard(saving: asyncio.Task[None]) -> None:
    """Those who wait hear of a failure; if all of them have been cancelled, nobody needs to."""
    if not saving.cancelled():
        saving.exception()
