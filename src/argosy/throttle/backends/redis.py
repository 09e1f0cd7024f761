"""The shared store in Redis or Valkey: one round trip per flush, two when another instance has written something.

Scripts are called by their hash. A server that does not know it (restarted, failed over) is told the script, and all is
sent again: batches carry numbers, so what was done already is not done twice. Whole rows are read by plain HGETALL,
which costs the server a third of what the same would inside a script.
"""

import time
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis import Redis
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    NoScriptError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from argosy.base.errors import Conflict, Unavailable
from argosy.base.redact import redact
from argosy.throttle.backends.memory import conflict
from argosy.throttle.backends.redis_keys import BORN, VERSION, WRITER, RowKeys, fields_of
from argosy.throttle.backends.redis_routes import Routes, routes, shown
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

SENDS_MAX = 2  # of one pipeline: the second is after a server was told the scripts
RESTORE_NUMBER = 0  # a restore is nobody's batch
SEEDS_READ_MAX = 4  # windows whose rows are remembered as they were read

_Command = tuple[Any, ...]
_ADVICE: tuple[tuple[type[RedisError], str], ...] = (
    (AuthenticationError, "refused the login: check the user and the password in the URL"),
    (
        NoPermissionError,
        "does not allow this user to do that: allow it evalsha, script|load, hmget, hset, hgetall, "
        "pttl, pexpire and time on the throttle's keys",
    ),
    (ReadOnlyError, "is a replica: point the URL at the primary"),
    (ResponseError, "answered with an error: see the server's log"),
    (RedisError, "cannot be reached: check that it runs and that the URL is right"),
)


class RedisRowStore:
    """One instance's way to the rows. Not safe for threads: its one worker calls it."""

    def __init__(
        self, url: str, rules: RowRules, *, instance: str, namespace: str = "", timeout_s: float = 0.5
    ) -> None:
        self._routes: Routes = routes(url, timeout_s=timeout_s)
        self._name = shown(url)
        self._rules = rules
        self._instance = instance
        self._namespace = namespace
        self._keys = RowKeys(namespace)
        self._fields = [(col, *fields_of(col)) for col in range(rules.buckets)]
        self._read: dict[RowId, tuple[RowVersion, dict[bytes, bytes]]] = {}

    def exchange(self, order: SyncBatch) -> SyncReply:
        try:
            return self._exchange(order)
        except ValueError as error:
            raise Unavailable(f"redis at {self._name} has rows that are none of ours ({redact(str(error))})") from error
        except (RedisError, RedisClusterException, OSError) as error:  # the second is none of the first
            self._routes.forget()
            if "FINGERPRINT" in str(error):
                cell = (order.restores or order.pushes)[0].cell
                raise Conflict(conflict(cell, self._namespace)) from error
            advice = next((text for kind, text in _ADVICE if isinstance(error, kind)), _ADVICE[-1][1])
            cause = redact(str(error)) or type(error).__name__
            raise Unavailable(f"redis at {self._name} {advice} ({cause})") from error

    def _exchange(self, order: SyncBatch) -> SyncReply:
        changes: list[tuple[str, RowRestore | RowPush]] = [("restore", each) for each in order.restores]
        changes += [("push", each) for each in order.pushes]
        marks = [("HMGET", self._keys.row(pull.cell), BORN, VERSION) for pull in order.pulls]
        started, wall = time.monotonic(), time.time()
        (clock, *answers) = self._send([("TIME",), *(self._change(*change) for change in changes), *marks])
        round_trip_s = time.monotonic() - started
        written = [_written(part, answer) for (_, part), answer in zip(changes, answers, strict=False)]
        for each in written:
            self._forget_written(each)
        pulled = self._pull(order.pulls, answers[len(changes) :], written)
        restores = len(order.restores)
        return SyncReply(
            tuple(written[:restores]),
            tuple(written[restores:]),
            tuple(pulled),
            server_ms=_time_ms(clock),
            round_trip_s=round_trip_s,
            at_ms=(wall + round_trip_s / 2) * 1000,
        )

    def _change(self, script: str, part: RowRestore | RowPush) -> _Command:
        rules, triples = self._rules, part.states if isinstance(part, RowRestore) else part.deltas
        words: list[Any] = [repr(rules.decay_per_ms), rules.ttl_ms, SKEW_MS_MAX, rules.fingerprint, self._instance]
        words.append(part.number if isinstance(part, RowPush) else RESTORE_NUMBER)
        for col, value, at_ms in triples:
            words += (col, repr(value), at_ms)
        return "EVALSHA", script_sha(script), 1, self._keys.row(part.cell), *words

    def _pull(self, pulls: Sequence[RowPull], answers: Iterable[Any], written: list[RowWrite]) -> list[RowState]:
        """Reads the rows that others have written to since; the others are known already."""
        marks = [RowVersion(int(born or 0), int(version or 0)) for born, version in answers]
        moved = [pull for pull, mark in zip(pulls, marks, strict=True) if is_moved(pull, mark, written)]
        contents = self._send([("HGETALL", self._keys.row(pull.cell)) for pull in moved]) if moved else []
        rows = {pull.cell: self._row(pull, content) for pull, content in zip(moved, contents, strict=True)}
        return [rows.get(pull.cell) or RowState(pull.cell, mark) for pull, mark in zip(pulls, marks, strict=True)]

    def _row(self, pull: RowPull, pairs: Any) -> RowState:
        """Decodes a row. Fields that are as they were when the caller last had the row are left out: comparing is
        much cheaper than decoding, and this happens beside requests that want the same interpreter."""
        raw: dict[bytes, bytes] = pairs if isinstance(pairs, dict) else dict(zip(pairs[::2], pairs[1::2], strict=True))
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
        self._read.pop(pull.cell, None)
        self._read[pull.cell] = mark, raw
        if len(self._read) > SEEDS_READ_MAX * self._rules.levels:
            del self._read[next(iter(self._read))]
        return RowState(pull.cell, mark, states, writers)

    def _before(self, pull: RowPull) -> dict[bytes, bytes]:
        """The row as the caller has it, if that is known: it must have had at least what was read here last."""
        mark, raw = self._read.get(pull.cell, (RowVersion(), {}))
        is_had = pull.seen.born_us == mark.born_us and pull.seen.version >= mark.version
        return raw if is_had else {}

    def _forget_written(self, written: RowWrite) -> None:
        """What we have written, the caller was told anew: if others change it back to what was read, that is news."""
        _, raw = self._read.get(written.cell, (None, {}))
        for col in written.states:
            for field in fields_of(col):
                raw.pop(field, None)

    # -- the wire ---------------------------------------------------------------------------------------------------

    def _send(self, commands: Sequence[_Command]) -> list[Any]:
        """Sends commands in one pipeline per server, in order, and returns their answers in the same order."""
        answers: list[Any] = [None] * len(commands)
        by_server: dict[int, tuple[Redis, list[int]]] = {}
        for place, command in enumerate(commands):
            server = self._routes.server_of(_key_of(command, self._keys))
            by_server.setdefault(id(server), (server, []))[1].append(place)
        for server, places in by_server.values():
            for place, answer in zip(places, _piped(server, [commands[place] for place in places]), strict=True):
                answers[place] = answer
        return answers

    def close(self) -> None:
        self._routes.close()


def _piped(server: Redis, commands: Sequence[_Command]) -> list[Any]:
    """The answers of one server. A script that it does not know is told to it, and all is sent once more."""
    for _ in range(SENDS_MAX - 1):
        answers = _executed(server, commands)
        if not any(isinstance(answer, NoScriptError) for answer in answers):
            break
        for name in SCRIPTS:
            server.script_load(script_text(name))
    else:
        answers = _executed(server, commands)
    for answer in answers:
        if isinstance(answer, RedisError):
            raise answer
    return answers


def _executed(server: Redis, commands: Sequence[_Command]) -> list[Any]:
    pipeline = server.pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command)  # type: ignore[no-untyped-call]
    return pipeline.execute(raise_on_error=False)


def _key_of(command: _Command, keys: RowKeys) -> str:
    """The key that says where a command belongs; the time is asked where the first row of any window is."""
    name, *words = command
    if name == "TIME":
        return keys.row(RowId(0, 0))
    return str(words[2] if name == "EVALSHA" else words[0])


def _written(part: RowRestore | RowPush, answer: Sequence[bytes]) -> RowWrite:
    triples = part.states if isinstance(part, RowRestore) else part.deltas
    states = {
        col: BucketState(float(prob), int(at_ms))
        for (col, _, _), prob, at_ms in zip(triples, answer[3::2], answer[4::2], strict=True)
    }
    return RowWrite(part.cell, RowVersion(int(answer[0]), int(answer[1])), answer[2] == b"1", states)


def _time_ms(answer: Any) -> float:
    """TIME as redis-py gives it: seconds and microseconds."""
    seconds, micros = answer
    return int(seconds) * 1000 + int(micros) / 1000


SCRIPTS = ("push", "restore")


@cache
def script_text(name: str) -> str:
    """A whole script: what both begin with, and the body of this one."""
    folder = files(__package__) / "lua"
    return "".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("row", name))


@cache
def script_sha(name: str) -> str:
    return sha1(script_text(name).encode(), usedforsecurity=False).hexdigest()
