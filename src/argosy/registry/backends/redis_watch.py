"""Watching the registry in Redis: the stream of changes, and messages.

The id of an entry in the stream is its revision, so a watcher's place is a number and a missing change is a gap. A
server that is away is waited for, within a bound; when it is back, the watcher asks whether its place still stands.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from argosy.base.backends.redis.connection import MESSAGES_MAX
from argosy.base.backends.redis.mux import CALL_TIMEOUT_S, RedisMux
from argosy.base.clock import Clock, Random
from argosy.base.errors import Gone, Unavailable
from argosy.base.retry import Backoff
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import Keys, key_of
from argosy.registry.backends.redis_scripts import script
from argosy.registry.ports import Change

BLOCK_S = 2.0  # how long one read waits; each empty one is followed by a look whether all is as it was
BATCH_MAX = 500  # changes per read
AWAY_S_MAX = 60.0  # a store that stays away longer is the caller's affair
_WATCH = script("watch")
RETURN = Backoff(first_s=0.05, ceiling_s=2.0)


class _Patience:
    """Bears with a server that is away, within AWAY_S_MAX."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._failures = 0
        self._since = 0.0

    def reset(self) -> None:
        self._failures = 0

    async def bear(self, trouble: Unavailable, mux: RedisMux) -> None:
        """Waits before the next attempt, or raises the trouble."""
        if mux.is_closed:
            raise trouble
        if not self._failures:
            self._since = self._clock.now()
        self._failures += 1
        if self._clock.now() - self._since > AWAY_S_MAX:
            raise trouble
        await self._clock.sleep(RETURN.delay(self._failures, self._random))


AddRows = Callable[[list[Change]], Awaitable[list[Change]]]


async def watched(
    mux: RedisMux,
    keys: Keys,
    codecs: Mapping[str, TableCodec],
    after: int,
    *,
    add_rows: AddRows | None = None,
    clock: Clock,
    random: Random,
) -> AsyncIterator[Change]:
    """All changes after a revision; Gone when some may be missing."""
    reading = mux.sibling(call_timeout_s=BLOCK_S + CALL_TIMEOUT_S)
    patience = _Patience(clock, random)
    try:
        is_in_doubt = True
        while True:
            try:
                if is_in_doubt:
                    await _check_place(mux, keys, after)
                changes = [_change(entry, codecs) for entry in await _read(reading, keys, after)]
                if add_rows is not None:
                    changes = await add_rows(changes)
            except Unavailable as trouble:
                is_in_doubt = True
                await patience.bear(trouble, reading)
                continue
            patience.reset()
            is_in_doubt = not changes
            for change in changes:
                if change.revision != after + 1:
                    raise _gone(after)
                after = change.revision
                yield change
    finally:
        await reading.close()


async def _check_place(mux: RedisMux, keys: Keys, after: int) -> None:
    place, _ = await mux.script(_WATCH, (keys.meta, keys.events), (str(after),))
    if place != b"ok":
        raise _gone(after)


def _gone(after: int) -> Gone:
    return Gone(f"changes after revision {after} are no longer known, or it is none of this registry: list again")


async def _read(reading: RedisMux, keys: Keys, after: int) -> list[Any]:
    block, count = str(int(BLOCK_S * 1000)), str(BATCH_MAX)
    reply = await reading.call("XREAD", "COUNT", count, "BLOCK", block, "STREAMS", keys.events, f"{after}-0")
    return reply[0][1] if reply else []


def _change(entry: Any, codecs: Mapping[str, TableCodec]) -> Change:
    number, (_, text) = entry
    name, _, member = text[1:].partition(b" ")
    table = name.decode()
    key = codecs[table].key_of(member) if table in codecs else key_of(member)
    return Change(int(number.partition(b"-")[0]), table, key, text.startswith(b"-"))


async def heard(mux: RedisMux, channel: str, *, clock: Clock, random: Random) -> AsyncIterator[str]:
    """Messages from the moment this is first awaited; those told while the server was away are lost, as they are kept
    nowhere."""
    listening = mux.sibling(call_timeout_s=CALL_TIMEOUT_S)
    patience = _Patience(clock, random)
    try:
        while True:
            try:
                connection = await listening.subscribe(channel)
            except Unavailable as trouble:
                await patience.bear(trouble, listening)
                continue
            patience.reset()
            assert connection.messages is not None
            while (message := await connection.messages.get()) is not None:
                yield message[2].decode()
            if connection.is_behind:
                raise Gone(f"a listener of {channel!r} fell {MESSAGES_MAX} messages behind: look at the tables")
    finally:
        await listening.close()
