"""Watching a space in Redis: a snapshot, then the stream of facts, without a gap.

Facts are numbered. A reader that finds a number missing (the stream was cut, or the server lost its latest writes) or
a server that is another run than before starts again with a snapshot. A server that is away is waited for, within a
bound.
"""

from argosy.base.backends.redis.mux import CALL_TIMEOUT_S
from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.base.retry import Backoff
from argosy.ownership.backends import redis_codec as codec
from argosy.ownership.backends.redis_scripts import SpaceScripts
from argosy.ownership.events import WatchEvent

BLOCK_S = 2.0  # how long one read waits; each empty one is followed by a look whether all is as it was
BATCH_MAX = 500  # facts per read
AWAY_S_MAX = 60.0  # a store that stays away longer is the caller's affair
RECONNECT = Backoff(first_s=0.05, ceiling_s=2.0)


class RedisWatch:
    """One watcher's place in the stream."""

    def __init__(self, scripts: SpaceScripts, *, clock: Clock, random: Random) -> None:
        self._scripts = scripts.sibling(call_timeout_s=BLOCK_S + CALL_TIMEOUT_S)
        self._clock = clock
        self._random = random
        self._run_id = ""
        self._number = 0  # of the last fact told
        self._entry = "0-0"  # the id of its entry
        self._needs_snapshot = True
        self._is_in_doubt = False  # the connection broke, so the server may be another one now

    async def next_facts(self) -> list[WatchEvent]:
        """The next facts, of which there may be none yet; Unavailable after AWAY_S_MAX without the server."""
        away_since = self._clock.now()
        failures = 0
        while True:
            try:
                return await self._read()
            except Unavailable:
                self._is_in_doubt = True
                failures += 1
                if self._clock.now() - away_since > AWAY_S_MAX:
                    raise
                await self._clock.sleep(RECONNECT.delay(failures, self._random))

    async def close(self) -> None:
        await self._scripts.close()

    async def _read(self) -> list[WatchEvent]:
        if self._is_in_doubt:
            await self._check_place()
        if self._needs_snapshot:
            return [await self._snapshot()]
        if entries := await self._entries():
            return self._told(entries)
        await self._check_place()
        return []

    async def _snapshot(self) -> WatchEvent:
        run_id, number, entry, *content = await self._scripts.run("snapshot")
        self._run_id, self._number, self._entry = run_id, int(number), entry
        self._needs_snapshot = False
        return codec.snapshot(*content)

    async def _entries(self) -> list[tuple[str, dict[str, str]]]:
        block, count = str(int(BLOCK_S * 1000)), str(BATCH_MAX)
        events = self._scripts.keys.events
        reply = await self._scripts.call("XREAD", "COUNT", count, "BLOCK", block, "STREAMS", events, self._entry)
        entries = reply[0][1] if reply else []
        return [(entry, dict(zip(pairs[::2], pairs[1::2], strict=True))) for entry, pairs in entries]

    def _told(self, entries: list[tuple[str, dict[str, str]]]) -> list[WatchEvent]:
        facts = []
        for entry, fields in entries:
            if int(fields["number"]) != self._number + 1:
                self._needs_snapshot = True
                break
            facts.append(codec.fact(fields["kind"], fields["data"]))
            self._number, self._entry = self._number + 1, entry
        return facts

    async def _check_place(self) -> None:
        """Notices what the stream cannot tell: that it was forgotten in whole or in part."""
        info: str = await self._scripts.call("INFO", "server")
        run_id = info.partition("run_id:")[2].partition("\r\n")[0]
        number = await self._scripts.call("HGET", self._scripts.keys.meta, "facts")
        if run_id != self._run_id or int(number or 0) < self._number:
            self._needs_snapshot = True
        self._is_in_doubt = False
