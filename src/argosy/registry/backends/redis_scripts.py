"""The Lua scripts in `lua/`: assembling them, and calling one of them for many callers at once.

A script is executed from its first line with every call, so the declared tables are not passed as arguments but written
into the script that commits (`describe_tables`).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

from argosy.base.backends.redis.connection import Arg
from argosy.base.backends.redis.errors import ReplyError
from argosy.base.backends.redis.mux import RedisMux, Script
from argosy.base.errors import ArgosyError, Unavailable
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import RegistryKeys
from argosy.registry.table import TableIndex

# Lua has no imports on the server, so shared parts are concatenated. A script has only the parts that it calls, because
# all of its text is executed with each call.
_PARTS = {
    "queries": ("index", "walk", "queries"),
    "commit": ("index", "change", "counters", "logs", "described", "commit"),
    "hello": ("index", "hello"),
    "page": ("index", "walk", "counters", "page"),
    "watch": ("index", "watch"),
}

# A script blocks the server for all clients while it runs.
CALLERS_MAX = 16  # callers that share one call: more would save little, and the server would start later
ARGS_MAX = 10_000  # arguments of a shared call; one caller alone may have more


def script(name: str, *, described: str = "") -> Script:
    """A script by name; `described` is the description of the tables, for the script that commits."""
    folder = files(__package__) / "lua"
    text = "".join(
        described if part == "described" else (folder / f"{part}.lua").read_text(encoding="utf-8")
        for part in _PARTS[name]
    )
    return Script(name, text)


def describe_tables(keys: RegistryKeys, codecs: Iterable[TableCodec]) -> str:
    """A Lua function that returns a table's description: layout, key prefix, where a stored row has the columns that
    indexes use (fields, positions in a packed row, or parts of the key), and the indexes, which refer to those columns
    by number."""
    descriptions = {_text(codec.table.name): _describe_table(keys, codec) for codec in codecs}
    # Branches instead of one table: a table would be built in full with every call, and a commit needs one or two
    # entries.
    branches = "".join(f"  if name == {name} then return {text} end\n" for name, text in descriptions.items())
    return f"local function describe(name)\n{branches}end\n"


def _describe_table(keys: RegistryKeys, codec: TableCodec) -> str:
    places = codec.index_places()
    parts = [f"[{n}] = {place[1:]}" for n, place in enumerate(places, start=1) if place.startswith("#")]
    indexes = [_describe_index(keys, codec, index) for index in codec.indexes if not index.is_unique]
    uniques = [_describe_index(keys, codec, index) for index in codec.indexes if index.is_unique]
    return (
        f"{{layout = {_text(codec.table.layout.value)}, stem = {_text(keys.table(codec.table))}, "
        f"is_expiring = {'true' if codec.table.expires else 'false'}, "
        f"places = {_list(map(_text, places))}, parts = {_list(parts)}, "
        f"indexes = {_list(indexes)}, uniques = {_list(uniques)}}}"
    )


def _describe_index(keys: RegistryKeys, codec: TableCodec, index: TableIndex) -> str:
    names = codec.indexed_names
    by = _list(str(names.index(name) + 1) for name in index.by)
    order = names.index(index.order) + 1 if index.order else 0
    return f"{{name = {_text(index.name)}, stem = {_text(keys.index(codec.table, index))}, by = {by}, order = {order}}}"


def _list(items: Iterable[str]) -> str:
    return "{" + ", ".join(items) + "}"


def _text(text: str) -> str:
    # The text goes into a Lua literal without escapes. Names are declared in code, so anything else is a programming
    # error.
    assert text.isascii(), f"{text!r} would not be the same in Lua"
    assert not {"'", "\\", "\n"} & set(text), f"{text!r} would not be the same in Lua"
    return f"'{text}'"


# -- calling ----------------------------------------------------------------------------------------------------------

_Part = tuple[list[Arg], "asyncio.Future[Any]"]


class CallBatcher:
    """Sends the calls of one script that are made in the same turn of the event loop as one call.

    Preparing a script costs the server as much as a small commit, and a message costs the client as much again; callers
    that arrive together pay for it once. Each caller's part is still independent: it succeeds or fails by itself.

    `encode_calls` merges the arguments of several callers into one list, `decode_replies` splits the reply.
    """

    def __init__(
        self,
        mux: RedisMux,
        script: Script,
        keys: Sequence[str],
        encode_calls: Callable[[Sequence[list[Arg]]], list[Arg]],
        decode_replies: Callable[[Sequence[list[Arg]], Any], Sequence[Any]],
    ) -> None:
        self._mux = mux
        self._script = script
        self._keys = keys
        self._encode_calls = encode_calls
        self._decode_replies = decode_replies
        self._parts: list[_Part] = []
        self._size = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, args: list[Arg], *, is_alone: bool = False) -> "asyncio.Future[Any]":
        """The future reply. With `is_alone` this call is not shared with others."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        # Bypasses the batch that is collected at this moment. Their order does not matter: callers are independent.
        if is_alone:
            self._send([(args, future)])
            return future
        if self._parts and (len(self._parts) == CALLERS_MAX or self._size + len(args) > ARGS_MAX):
            self._flush()
        if not self._parts:
            # At the end of this turn: callers that became ready together are in one batch, and no one waits for a
            # timer.
            loop.call_soon(self._flush)
        self._parts.append((args, future))
        self._size += len(args)
        return future

    def _flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._send(parts)

    def _send(self, parts: list[_Part]) -> None:
        args = self._encode_calls([each for each, _ in parts])
        # The fast path creates no task: it writes to the open connection, and the reply arrives as a callback.
        sent = self._mux.post(self._script, self._keys, args)
        if sent is None:
            self._send_with_retries(parts, args)
        else:
            sent.add_done_callback(partial(self._on_reply, parts, args))

    def _on_reply(self, parts: list[_Part], args: list[Arg], reply: "asyncio.Future[Any]") -> None:
        error = asyncio.CancelledError() if reply.cancelled() else reply.exception()
        if error is None:
            self._resolve(parts, reply.result())
        # Only an error that the server gives before it executes anything may be retried: a commit must not happen
        # twice.
        elif isinstance(error, ReplyError) and error.has_done_nothing:
            self._send_with_retries(parts, args)
        else:
            self._fail(parts, self._mux.to_error(error) if isinstance(error, ReplyError) else error)

    def _send_with_retries(self, parts: list[_Part], args: list[Arg]) -> None:
        """The slow path: the server is unreachable, has moved, or does not know the script yet."""
        task = asyncio.get_running_loop().create_task(self._run_script(parts, args))
        # The event loop refers to tasks weakly; without this one could be collected while it waits for the server.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_script(self, parts: list[_Part], args: list[Arg]) -> None:
        try:
            self._resolve(parts, await self._mux.script(self._script, self._keys, args))
        # Callers wait on futures of their own, so whatever ends this task has to reach them, cancellation included.
        except BaseException as error:
            self._fail(parts, error)
            if not isinstance(error, ArgosyError):
                raise

    def _resolve(self, parts: list[_Part], reply: Any) -> None:
        replies = self._decode_replies([each for each, _ in parts], reply)
        for (_, future), answer in zip(parts, replies, strict=True):
            # A caller that was cancelled has a finished future, and the others still want their replies.
            if not future.done():
                future.set_result(answer)

    def _fail(self, parts: list[_Part], error: BaseException) -> None:
        for _, future in parts:
            if not future.done():
                # A copy for each caller: one exception raised by several would collect all their tracebacks.
                copy = type(error)(*error.args) if isinstance(error, ArgosyError) else None
                future.set_exception(copy or Unavailable(f"the call to redis at {self._mux.name} was cancelled"))
