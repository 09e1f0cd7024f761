"""What callers ask for in one turn of the loop goes to the server as one call of a script.

Making a script ready costs the server as much as a small commit does, and so does a message to the client; callers who
come at once pay it once. Each part of the call still stands alone: it is answered, refused or done by itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from argosy.base.backends.redis.connection import Arg
from argosy.base.backends.redis.errors import ReplyError
from argosy.base.backends.redis.mux import RedisMux, Script
from argosy.base.errors import ArgosyError, Unavailable

GATHERED_MAX = 16  # parts of one call: more would save little, and the server would begin later
GATHERED_ARGS_MAX = 10_000  # arguments of one call, unless one part alone has more

Part = tuple[list[Arg], "asyncio.Future[Any]"]


class Gather:
    """One script's calls. `joined` makes one list of arguments of several, `parted` several answers of one reply."""

    def __init__(
        self,
        mux: RedisMux,
        script: Script,
        keys: Sequence[str],
        joined: Callable[[Sequence[list[Arg]]], list[Arg]],
        parted: Callable[[Sequence[list[Arg]], Any], Sequence[Any]],
    ) -> None:
        self._mux = mux
        self._script = script
        self._keys = keys
        self._joined = joined
        self._parted = parted
        self._parts: list[Part] = []
        self._size = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, args: list[Arg], *, is_alone: bool = False) -> "asyncio.Future[Any]":
        """The answer to come. `is_alone`: this part must not share its call with others."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if is_alone:
            self._send([(args, future)])
            return future
        if self._parts and (len(self._parts) == GATHERED_MAX or self._size + len(args) > GATHERED_ARGS_MAX):
            self._flush()
        if not self._parts:
            loop.call_soon(self._flush)
        self._parts.append((args, future))
        self._size += len(args)
        return future

    def _flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._send(parts)

    def _send(self, parts: list[Part]) -> None:
        args = self._joined([each for each, _ in parts])
        sent = self._mux.post(self._script, self._keys, args)
        if sent is None:
            self._send_patiently(parts, args)
        else:
            sent.add_done_callback(partial(self._landed, parts, args))

    def _landed(self, parts: list[Part], args: list[Arg], reply: "asyncio.Future[Any]") -> None:
        error = asyncio.CancelledError() if reply.cancelled() else reply.exception()
        if error is None:
            self._answer(parts, reply.result())
        elif isinstance(error, ReplyError) and error.has_done_nothing:
            self._send_patiently(parts, args)
        else:
            self._fail(parts, self._mux.to_error(error) if isinstance(error, ReplyError) else error)

    def _send_patiently(self, parts: list[Part], args: list[Arg]) -> None:
        """For when the server is away, elsewhere, or does not know the script."""
        task = asyncio.get_running_loop().create_task(self._run(parts, args))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, parts: list[Part], args: list[Arg]) -> None:
        try:
            self._answer(parts, await self._mux.script(self._script, self._keys, args))
        except BaseException as error:
            self._fail(parts, error)
            if not isinstance(error, ArgosyError):
                raise

    def _answer(self, parts: list[Part], reply: Any) -> None:
        for (_, future), answer in zip(parts, self._parted([each for each, _ in parts], reply), strict=True):
            if not future.done():
                future.set_result(answer)

    def _fail(self, parts: list[Part], error: BaseException) -> None:
        for _, future in parts:
            if not future.done():
                # Each caller gets an error of its own, for each adds its own traceback.
                known = type(error)(*error.args) if isinstance(error, ArgosyError) else None
                future.set_exception(known or Unavailable(f"the call to redis at {self._mux.name} was broken off"))
