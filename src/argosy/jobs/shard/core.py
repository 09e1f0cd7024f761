"""What all calls of a shard share: memory, the ledger beneath, and the way a change is made.

A call reads what it needs, then makes one `Step`; `commit` stages its batch and awaits durability. The order of staging
is the order of truth: when a commit fails, memory is ahead of what is kept, so the shard is over and must be opened
anew.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.ports import Ledger
from argosy.jobs.shard.change_tracker import Watches
from argosy.jobs.shard.limit_chain import grant
from argosy.jobs.shard.options import ShardOptions
from argosy.jobs.shard.queue_state import Memory
from argosy.jobs.shard.txn import Step
from argosy.throttle.limits.ports import RateLimiter

READS_MAX = 16  # how often a call reads anew because its job changed meanwhile


class Core:
    def __init__(
        self,
        ledger: Ledger,
        *,
        now_ms: Callable[[], int],
        new_id: Callable[[], str],
        random: Random,
        limiter: RateLimiter,
        options: ShardOptions,
    ) -> None:
        self.ledger = ledger
        self.now_ms = now_ms
        self.new_id = new_id
        self.random = random
        self.limiter = limiter
        self.options = options
        self.memory = Memory()
        self.watches = Watches()
        self.on_step: Callable[[], None] = lambda: None  # told after every step
        self.over: ArgosyError | None = None  # why the shard can serve no more
        self._staged = 0
        self._durable = 0

    def check_open(self) -> None:
        if self.over is not None:
            raise self.over

    async def room(self) -> None:
        """Waits until the ledger takes more: asked by calls that bring much, before they read anything."""
        self.check_open()
        await self.ledger.room()

    @contextmanager
    def step(self) -> Iterator[Step]:
        """A step that fails half-way leaves memory and rows apart, so it ends the shard; check first, then change."""
        self.check_open()
        step = Step(self.memory, self.watches, self.options, self.new_id, self.now_ms())
        try:
            yield step
            grant(step)
        except BaseException as error:
            if len(step.batch):
                self.fail(Unavailable(f"a change of the shard failed half-way ({error}): open the shard anew"))
            raise

    def stage(self, step: Step) -> Awaitable[None]:
        """Takes the step's rows in; to be awaited at once."""
        self._staged += 1
        try:
            durable = self.ledger.stage(step.batch)
        except ArgosyError as error:
            self.fail(error)
            raise
        return self._until_durable(durable, self._staged)

    async def commit(self, step: Step) -> None:
        if len(step.batch):
            durable = self.stage(step)
            self.on_step()
            await durable

    async def settle(self) -> None:
        """Returns when all that was staged so far is durable: nobody is told of what a crash could still undo."""
        if self._durable < self._staged:
            self.check_open()
            self._staged += 1
            barrier = Batch().put(keys.key(keys.META, "barrier"), b"")
            await self._until_durable(self.ledger.stage(barrier), self._staged)

    def fail(self, error: ArgosyError) -> None:
        if self.over is None:
            self.over = error
            self.on_step()

    async def _until_durable(self, durable: Awaitable[None], number: int) -> None:
        try:
            await durable
        except ArgosyError as error:
            self.fail(error)
            raise
        self._durable = max(self._durable, number)
