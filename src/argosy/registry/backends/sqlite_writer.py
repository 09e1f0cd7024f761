"""One thread writes, and many callers share each of its commits.

A durable commit waits for the disk, about a millisecond, whether it holds one program or hundreds. So callers' jobs are
collected, run one after another in one transaction, and answered together after it is durable. Jobs that become ready
in the same turn of the event loop are handed over together: the first does not leave with a commit of its own.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from sqlite3 import Error
from typing import Any, TypeVar

from argosy.base.errors import Unavailable
from argosy.registry.backends.sqlite_errors import to_argosy_error
from argosy.registry.backends.sqlite_session import Effects, SqliteSession

T = TypeVar("T")

BATCH_MAX = 256  # jobs that share one commit
WAITING_MAX = 16_384  # jobs not yet answered; beyond it the store is overrun

Job = Callable[[SqliteSession], Any]
_Item = tuple[Job, bool, "asyncio.Future[Any]"]
_Answer = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Writer:
    """Runs jobs on a session. `on_commit` is called in the event loop with the revision and what the batch led to."""

    def __init__(self, session: SqliteSession, *, where: str, on_commit: Callable[[int, Effects], None]) -> None:
        self._session = session
        self._where = where
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._ready: list[_Item] = []
        self._inbox: queue.SimpleQueue[list[_Item] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="registry-writer", daemon=True)
        self._thread.start()

    # -- in the event loop ------------------------------------------------------------------------------------

    def submit(self, job: Callable[[SqliteSession], T], *, is_writing: bool = True) -> "asyncio.Future[T]":
        """The job's answer, once it is durable."""
        if self._is_closed:
            raise Unavailable(f"the registry {self._where} is closed")
        if self._waiting >= WAITING_MAX:
            raise Unavailable(f"{WAITING_MAX} calls already wait for the registry {self._where}: retry with back-off")
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting += 1
        if not self._ready:
            self._loop.call_soon(self._hand_over)
        self._ready.append((job, is_writing, future))
        return future

    def _hand_over(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            self._inbox.put(ready)

    def _deliver(self, answers: list[_Answer], revision: int, effects: Effects | None) -> None:
        self._waiting -= len(answers)
        for future, value, error in answers:
            if future.done():  # its caller has gone
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        if effects is not None:
            self._on_commit(revision, effects)

    async def close(self) -> None:
        """Answers what was submitted, then ends the thread and the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        self._hand_over()
        self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    # -- in the writer's thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        is_open = True
        waiting: list[_Item] = []
        while is_open or waiting:
            is_open = self._collect(waiting, is_open)
            batch, waiting = waiting[:BATCH_MAX], waiting[BATCH_MAX:]
            if batch:
                self._answer(batch)
        self._session.connection.close()

    def _collect(self, waiting: list[_Item], is_open: bool) -> bool:
        """Adds what has arrived, waiting if there is nothing; False once the writer is closing."""
        while is_open and len(waiting) < BATCH_MAX:
            try:
                items = self._inbox.get(block=not waiting)
            except queue.Empty:
                break
            if items is None:
                return False
            waiting += items
        return is_open

    def _answer(self, batch: list[_Item]) -> None:
        answers, effects = self._transact(batch)
        try:
            self._loop.call_soon_threadsafe(self._deliver, answers, self._session.revision, effects)
        except RuntimeError:
            pass  # the event loop is closed: nobody is left to be told

    def _transact(self, batch: list[_Item]) -> tuple[list[_Answer], Effects | None]:
        """Nothing is answered before it is durable; if the transaction fails, everybody in it is told so."""
        session = self._session
        try:
            session.begin(is_writing=any(is_writing for _, is_writing, _ in batch))
            answers = [self._attempt(job, future) for job, _, future in batch]
            return answers, session.end()
        except Exception as error:
            failure: BaseException = error
            try:
                session.undo()
            except Error as second:
                failure = second
            return [(future, None, to_argosy_error(failure, self._where)) for _, _, future in batch], None

    def _attempt(self, job: Job, future: "asyncio.Future[Any]") -> _Answer:
        try:
            return future, job(self._session), None
        except Error:
            raise  # about the whole transaction
        except BaseException as error:  # the program's own: it is its caller's to handle
            return future, None, error
