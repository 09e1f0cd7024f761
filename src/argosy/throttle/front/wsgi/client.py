"""A limiter of any kind for code without an event loop, such as a WSGI application.

    limiter = BlockingLimiter(lambda: open_limiter("redis://cache:6379", clock=SystemClock()))

Its calls run in a loop on a thread of its own, and who asks waits for the answer no longer than `wait_s_max`. In
servers that fork, make it in each worker process, after the fork: the thread would not survive it.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self, TypeVar

from argosy.base.errors import Unavailable
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse
from argosy.throttle.limits.ports import RateLimiter

WAIT_S_MAX = 0.25  # for an answer, as in front of an ASGI application
OPEN_S_MAX = 10.0  # for opening and closing

T = TypeVar("T")


class BlockingLimiter:
    """Waits for a limiter in the caller's thread; any number of threads may share it."""

    def __init__(self, open_: Callable[[], Awaitable[RateLimiter]], *, wait_s_max: float = WAIT_S_MAX) -> None:
        """`open_` is called in the loop, so that the limiter belongs to it."""
        self._wait_s_max = wait_s_max
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="argosy-limits", daemon=True)
        self._thread.start()
        try:
            self._limiter = self._await(_awaited(open_), OPEN_S_MAX)
        except BaseException:
            self._end()
            raise

    def check_now(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        return self._await(self._limiter.check(requests), self._wait_s_max)

    def close(self) -> None:
        """Closes the limiter and ends the thread; to be called once, when nobody asks any more."""
        try:
            self._await(self._limiter.close(), OPEN_S_MAX)
        finally:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _await(self, work: Coroutine[Any, Any, T], wait_s_max: float) -> T:
        if self._loop.is_closed():
            work.close()
            raise Unavailable("the limiter has been closed: open a new one")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(wait_s_max)
        except TimeoutError as error:
            future.cancel()
            raise Unavailable(f"the limiter did not answer within {wait_s_max} s, hits may count") from error
        except CancelledError as error:
            raise Unavailable("the limiter was closed while it was asked") from error

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(OPEN_S_MAX)
        if not self._thread.is_alive():
            self._loop.close()


async def _awaited(open_: Callable[[], Awaitable[T]]) -> T:
    return await open_()
