"""The shared store in Redis or Valkey: one round trip per flush, two when another instance has written something.

Scripts are called by their hash. When a server does not know it (after a restart or a failover), the scripts are loaded
and the whole batch is sent again: pushes carry numbers, so that a push that was applied is not applied twice. Whole
rows are read by plain HGETALL, which costs the server a third of what the same read costs inside a script.

The shared client is asynchronous, and the exchange runs in a background thread that waits for it (THR-2). So each store
has an event loop of its own, which runs during an exchange and stands still in between.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any

from argosy.base.backends.redis.errors import ReplyError, unreachable
from argosy.base.backends.redis.mux import Script, load_script
from argosy.base.backends.redis.routes import KeyCommand, RedisRoutes
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Conflict, Unavailable
from argosy.base.redact import redact
from argosy.throttle.backends.memory import conflict
from argosy.throttle.backends.redis_keys import BORN, VERSION, WRITER, RowKeys, fields_of
from argosy.throttle.blue import clamp
from argosy.throttle.ports import (
    BucketState,
    RowId,
    RowPull,
    RowPush,
    RowRestore,
    RowState,
    RowVersion,
    RowWrite,
    SyncBatch,
    SyncReply,
)
from argosy.throttle.rows import SKEW_MS_MAX, RowRules, is_moved

# NOSCRIPT can only come back after another restart within one exchange, which the next exchange handles.
SENDS_MAX = 2  # of one batch: the second follows the loading of scripts
EXCHANGE_ROUND_TRIPS = 4  # of one exchange: connecting, loading scripts, the batch, the rows that were changed
RESTORE_NUMBER = 0  # a restore belongs to no instance's numbered batches
SEEDS_READ_MAX = 4  # windows whose rows are remembered as they were read
CLIENT_NAME = "argosy-throttle"  # in CLIENT LIST
PERMISSIONS = "evalsha, script|load, hmget, hset, hgetall, pttl, pexpire and time on the throttle's keys"


class RedisRowStore:
    """One instance's client of the rows. Not safe for threads: only its background worker calls it."""

    def __init__(
        self, url: str, rules: RowRules, *, instance: str, namespace: str = "", timeout_s: float = 0.5
    ) -> None:
        self._url = parse_redis_url(url)
        self._timeout_s = timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._routes: RedisRoutes | None = None
        self._rules = rules
        self._instance = instance
        self._namespace = namespace
        self._keys = RowKeys(namespace)
        # Field names are computed once: a row has a thousand columns, and is decoded every second.
        self._fields = [(col, *fields_of(col)) for col in range(rules.buckets)]
        self._read: dict[RowId, tuple[RowVersion, dict[bytes, bytes]]] = {}

    def exchange(self, batch: SyncBatch) -> SyncReply:
        # Created in the worker's thread at the first exchange, because a loop belongs to the thread that runs it.
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self._exchange_with_timeout(batch))

    def close(self) -> None:
        if self._loop is None:
            return
        if self._routes is not None:
            self._loop.run_until_complete(self._routes.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())  # of name lookups
        self._loop.close()
        self._loop = self._routes = None

    async def _exchange_with_timeout(self, batch: SyncBatch) -> SyncReply:
        try:
            async with asyncio.timeout(EXCHANGE_ROUND_TRIPS * self._timeout_s):
                return await self._exchange(batch)
        except TimeoutError as error:
            raise unreachable(self._url.name, "the exchange takes too long", may_have_happened=True) from error
        except ReplyError as error:
            if error.code == "FINGERPRINT":
                cell = (batch.restores or batch.pushes)[0].cell
                raise Conflict(conflict(cell, self._namespace)) from error
            assert self._routes is not None
            raise self._routes.unavailable(error) from error
        # A number that cannot be parsed: the keys are used by something else, and no retry would help.
        except ValueError as error:
            cause = redact(str(error))
            raise Unavailable(f"redis at {self._url.name} has rows that another program wrote ({cause})") from error

    async def _exchange(self, batch: SyncBatch) -> SyncReply:
        changes: list[tuple[str, RowRestore | RowPush]] = [("restore", each) for each in batch.restores]
        changes += [("push", each) for each in batch.pushes]
        # The clock is read where the first row of any window is: one of the servers that are called anyway.
        commands = [KeyCommand(self._keys.row(RowId(0, 0)), ("TIME",)), *(self._change(*change) for change in changes)]
        for pull in batch.pulls:
            key = self._keys.row(pull.cell)
            commands.append(KeyCommand(key, ("HMGET", key, BORN, VERSION)))
        await self._notice_closed()
        # The server's clock is compared with ours at the middle of the round trip, the best estimate of when it was
        # read.
        started, wall = time.monotonic(), time.time()
        (clock, *answers) = await self._send(commands)
        round_trip_s = time.monotonic() - started
        written = [_decode_write(part, answer) for (_, part), answer in zip(changes, answers, strict=False)]
        for each in written:
            self._forget_written(each)
        pulled = await self._pull(batch.pulls, answers[len(changes) :], written)
        restores = len(batch.restores)
        return SyncReply(
            tuple(written[:restores]),
            tuple(written[restores:]),
            tuple(pulled),
            server_ms=_time_ms(clock),
            round_trip_s=round_trip_s,
            at_ms=(wall + round_trip_s / 2) * 1000,
        )

    def _change(self, script: str, part: RowRestore | RowPush) -> KeyCommand:
        rules, triples = self._rules, part.states if isinstance(part, RowRestore) else part.deltas
        # `repr` gives the shortest text that is read back as the same double.
        words: list[Any] = [repr(rules.decay_per_ms), rules.ttl_ms, SKEW_MS_MAX, rules.fingerprint, self._instance]
        words.append(part.number if isinstance(part, RowPush) else RESTORE_NUMBER)
        for col, value, at_ms in triples:
            words += (col, repr(value), at_ms)
        key = self._keys.row(part.cell)
        return KeyCommand(key, ("EVALSHA", row_script(script).digest, 1, key, *words))

    async def _pull(self, pulls: Sequence[RowPull], answers: Iterable[Any], written: list[RowWrite]) -> list[RowState]:
        """Reads the rows that other instances have written to; the rest is known already."""
        marks = [RowVersion(int(born or 0), int(version or 0)) for born, version in answers]
        moved = [pull for pull, mark in zip(pulls, marks, strict=True) if is_moved(pull, mark, written)]
        keys = [self._keys.row(pull.cell) for pull in moved]
        contents = await self._send([KeyCommand(key, ("HGETALL", key)) for key in keys]) if moved else []
        rows = {pull.cell: self._row(pull, content) for pull, content in zip(moved, contents, strict=True)}
        return [rows.get(pull.cell) or RowState(pull.cell, mark) for pull, mark in zip(pulls, marks, strict=True)]

    def _row(self, pull: RowPull, pairs: Any) -> RowState:
        """Decodes a row. Fields that have not changed since the caller last read the row are left out: comparing is
        much cheaper than decoding, and this thread competes with requests for the interpreter."""
        raw: dict[bytes, bytes] = dict(zip(pairs[::2], pairs[1::2], strict=True))
        mark = RowVersion(int(raw.get(BORN.encode(), 0)), int(raw.get(VERSION.encode(), 0)))
        before = self._before(pull)
        states = {}
        for col, prob_field, time_field in self._fields:
            prob, at_ms = raw.get(prob_field), raw.get(time_field)
            if prob is None or at_ms is None:
                continue
            if prob != before.get(prob_field) or at_ms != before.get(time_field):
                states[col] = BucketState(clamp(float(prob)), int(at_ms))
        writer = WRITER.encode()
        writers = {name[len(writer) :].decode(): int(raw[name]) for name in raw if name.startswith(writer)}
        # Inserted again, so that the dictionary's first entry is the one that was read longest ago.
        self._read.pop(pull.cell, None)
        self._read[pull.cell] = mark, raw
        if len(self._read) > SEEDS_READ_MAX * self._rules.levels:
            del self._read[next(iter(self._read))]
        return RowState(pull.cell, mark, states, writers)

    def _before(self, pull: RowPull) -> dict[bytes, bytes]:
        """The row as last read, if the caller has at least that version; else nothing."""
        mark, raw = self._read.get(pull.cell, (RowVersion(), {}))
        is_had = pull.seen.born_us == mark.born_us and pull.seen.version >= mark.version
        return raw if is_had else {}

    def _forget_written(self, written: RowWrite) -> None:
        """Forgets the columns that we have written: if others change them back to what was read, that is a change."""
        _, raw = self._read.get(written.cell, (None, {}))
        for col in written.states:
            for field in fields_of(col):
                raw.pop(field, None)

    # -- the client -------------------------------------------------------------------------------------------------

    async def _notice_closed(self) -> None:
        """Lets the loop read what has arrived since the last exchange: a connection that the server has closed in the
        meantime must be replaced before anything is sent on it. One turn reads the sockets, the next one handles it."""
        for _ in range(2):
            await asyncio.sleep(0)

    async def _send(self, commands: Sequence[KeyCommand]) -> list[Any]:
        """The replies, in order; ReplyError for the first error among them."""
        if self._routes is None:
            self._routes = RedisRoutes(
                self._url,
                clock=SystemClock(),
                random=system_random(),
                client_name=CLIENT_NAME,
                permissions=PERMISSIONS,
                connect_timeout_s=self._timeout_s,
                call_timeout_s=self._timeout_s,
            )
        for sends_left in reversed(range(SENDS_MAX)):
            replies = await self._routes.run(commands)
            errors = [reply for reply in replies if isinstance(reply, ReplyError)]
            if not errors:
                break
            if sends_left and any(error.code == "NOSCRIPT" for error in errors):
                await self._routes.load([command.key for command in commands], *map(row_script, SCRIPTS))
                continue
            raise errors[0]
        return replies


def _decode_write(part: RowRestore | RowPush, answer: Sequence[bytes]) -> RowWrite:
    triples = part.states if isinstance(part, RowRestore) else part.deltas
    states = {
        col: BucketState(float(prob), int(at_ms))
        for (col, _, _), prob, at_ms in zip(triples, answer[3::2], answer[4::2], strict=True)
    }
    return RowWrite(part.cell, RowVersion(int(answer[0]), int(answer[1])), answer[2] == b"1", states)


def _time_ms(answer: Any) -> float:
    """Of the reply to TIME: seconds and microseconds."""
    seconds, micros = answer
    return int(seconds) * 1000 + int(micros) / 1000


SCRIPTS = ("push", "restore")


def row_script(name: str) -> Script:
    """A whole script: what both begin with, and the body of this one."""
    return load_script("argosy.throttle.backends", name, prelude=("row",))
