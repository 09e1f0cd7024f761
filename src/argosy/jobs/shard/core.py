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

# A call that reads rows and finds that they changed meanwhile reads again. Each round lets at least one other change
# through, so the shard makes progress, and a caller that keeps losing gets Unavailable instead of waiting for ever.
READS_MAX = 16


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
        self.failure: ArgosyError | None = None  # why the shard has stopped
        self._staged = 0
        self._durable = 0

    def check_open(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def wait_capacity(self) -> None:
        """Waits until the store accepts more. Large calls wait before they read anything."""
        self.check_open()
        await self.store.wait_capacity()

    @contextmanager
    def begin_txn(self) -> Iterator[ShardTxn]:
        """A transaction on queue state and rows; the block must not await.

        A block that raises after its first change leaves the two apart and stops the shard, so everything that can be
        rejected is checked before.
        """
        self.check_open()
        txn = ShardTxn(self.queues, self.changes, self.options, self.new_id, self.now_ms())
        try:
            yield txn
            # In the transaction that released a slot, so that no slot is idle until the next tick.
            grant(txn)
        except BaseException as error:
            # An error before the first change leaves queue state and rows equal, so the shard can go on.
            if len(txn.batch):
                self.fail(Unavailable(f"a transaction of the shard failed half-way: {error}; the shard is reopened"))
            raise

    async def commit(self, txn: ShardTxn) -> None:
        """Stages the transaction's rows and returns when they are durable.

        Nothing may be acknowledged earlier: a job that a client believes enqueued survives a crash (JOB-1), and a task
        is not handed to a worker while a crash could put it back into the queue (JOB-2).
        """
        if not len(txn.batch):
            return
        try:
            # Without an await since the transaction: the order of staging is the order of transactions.
            durable = self.store.stage(txn.batch)
        except ArgosyError as error:
            self.fail(error)
            raise
        self._staged += 1
        number = self._staged
        # Before the wait: workers that are woken read the queue state, and their own leases become durable after this
        # batch because batches keep their order.
        self.on_change()
        await self._wait_durable(durable, number)

    async def wait_staged_durable(self) -> None:
        """Returns when all staged changes are durable.

        A rejection is an answer too: "the job exists" or "is running" may rest on a change that is staged only, and
        a crash would make it false.
        """
        if self._durable < self._staged:
            self.check_open()
            self._staged += 1
            # A row of its own, because durability follows the order of staging: when it is durable, all before it are.
            barrier = Batch().put(keys.key(keys.META, "barrier"), b"")
            await self._wait_durable(self.store.stage(barrier), self._staged)

    def fail(self, error: ArgosyError) -> None:
        if self.failure is None:
            self.failure = error
            self.on_change()

    async def _wait_durable(self, durable: Awaitable[None], number: int) -> None:
        try:
            await durable
        except ArgosyError as error:
            self.fail(error)
            raise
        # Batches become durable in order, but their waiters may run in another one.
        self._durable = max(self._durable, number)
