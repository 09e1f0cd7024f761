"""The state that all calls of a shard share, and how a change is committed.

A call reads the rows it needs, then changes the queue state and rows together in one `ShardTxn`; `commit` stages the
batch of rows and waits until it is durable. Transactions take effect in the order in which they are staged. When a
commit fails, the queue state in memory is ahead of the durable rows, so the shard stops and must be reopened.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.model import ShardOptions
from argosy.jobs.ports import StagedStore
from argosy.jobs.shard.limit_chain import grant
from argosy.jobs.shard.queue_state import QueueState
from argosy.jobs.shard.txn import ChangeTracker, ShardTxn
from argosy.throttle.limits.ports import RateLimiter

READS_MAX = 16  # reads of one call, if its job keeps changing in between


class Core:
    def __init__(
        self,
        store: StagedStore,
        *,
        now_ms: Callable[[], int],
        new_id: Callable[[], str],
        random: Random,
        limiter: RateLimiter,
        options: ShardOptions | None = None,
    ) -> None:
        self.store = store
        self.now_ms = now_ms
        self.new_id = new_id
        self.random = random
        self.limiter = limiter
        self.options = options or ShardOptions()
        self.queues = QueueState()
        self.changes = ChangeTracker()
        self.on_change: Callable[[], None] = lambda: None  # called after every transaction
        self.over: ArgosyError | None = None  # why the shard has stopped
        self._staged = 0
        self._durable = 0

    def check_open(self) -> None:
        if self.over is not None:
            raise self.over

    async def wait_capacity(self) -> None:
        """Waits until the store accepts more. Large calls wait before they read anything."""
        self.check_open()
        await self.store.wait_capacity()

    @contextmanager
    def begin_txn(self) -> Iterator[ShardTxn]:
        """One that raises after its first change leaves state and rows apart and stops the shard: check first."""
        self.check_open()
        txn = ShardTxn(self.queues, self.changes, self.options, self.new_id, self.now_ms())
        try:
            yield txn
            grant(txn)
        except BaseException as error:
            if len(txn.batch):
                self.fail(Unavailable(f"a change of the shard failed half-way ({error}): open the shard anew"))
            raise

    def stage(self, txn: ShardTxn) -> Awaitable[None]:
        """Stages the transaction's rows; the result must be awaited at once."""
        self._staged += 1
        try:
            durable = self.store.stage(txn.batch)
        except ArgosyError as error:
            self.fail(error)
            raise
        return self._until_durable(durable, self._staged)

    async def commit(self, txn: ShardTxn) -> None:
        if len(txn.batch):
            durable = self.stage(txn)
            self.on_change()
            await durable

    async def wait_staged_durable(self) -> None:
        """Returns when all staged changes are durable: a response must not report what a crash could undo."""
        if self._durable < self._staged:
            self.check_open()
            self._staged += 1
            barrier = Batch().put(keys.key(keys.META, "barrier"), b"")
            await self._until_durable(self.store.stage(barrier), self._staged)

    def fail(self, error: ArgosyError) -> None:
        if self.over is None:
            self.over = error
            self.on_change()

    async def _until_durable(self, durable: Awaitable[None], number: int) -> None:
        try:
            await durable
        except ArgosyError as error:
            self.fail(error)
            raise
        self._durable = max(self._durable, number)
