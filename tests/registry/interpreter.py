"""The semantics of programs on dictionaries: the oracle for backends and the store for tests of operations.

Its clock moves only when a test moves it. `meanwhile` slips other programs in just before a commit, as a
race would: rows that the program got, or found and writes, must not have changed, else it runs again, as it does on a
store whose programs race. A row written without a read is the caller's claim, and a Conflict if it fails.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from argosy.base.errors import Conflict, Unavailable
from argosy.registry.ports import Change
from argosy.registry.table import Table, TableIndex
from argosy.registry.transaction import (
    ATTEMPTS_MAX,
    FIND_MAX,
    Append,
    Commit,
    CommitResult,
    CountRows,
    CountUp,
    Delete,
    DropCounter,
    DropLog,
    Find,
    Get,
    LogState,
    Notify,
    Now,
    Put,
    Read,
    ReadCounter,
    ReadLog,
    TakeOldest,
    Transaction,
    Upsert,
    Write,
)

T = TypeVar("T")

START_MS = 1_700_000_000_000


@dataclass
class Log:
    entries: list[bytes] = field(default_factory=list)
    dropped: int = 0


@dataclass
class State:
    """All that is stored."""

    rows: dict[str, dict[tuple[str, ...], Any]] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)
    counters: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # value and expiry
    changes: list[Change] = field(default_factory=list)
    notifications: list[tuple[str, str]] = field(default_factory=list)


Cells = dict[tuple[str, tuple[str, ...]], tuple[Table[Any], int]]


@dataclass
class Seen:
    """The rows that one run of a program has read, with their versions."""

    got: Cells = field(default_factory=dict)
    found: Cells = field(default_factory=dict)


class Interpreter:
    """Runs programs one after the other."""

    def __init__(self, clock_ms: int = START_MS) -> None:
        self.clock_ms = clock_ms
        self.state = State()
        self._meanwhile: list[Transaction[Any]] = []
        self.runs = 0

    @property
    def notifications(self) -> list[tuple[str, str]]:
        return self.state.notifications

    @property
    def revision(self) -> int:
        return len(self.state.changes)

    def pass_time(self, milliseconds: int) -> None:
        self.clock_ms += milliseconds

    def meanwhile(self, *programs: Transaction[Any]) -> None:
        """Each is run just before one commit of the next program, which then finds its reads changed or not."""
        self._meanwhile += programs

    def run(self, transaction: Transaction[T]) -> T:
        for _ in range(ATTEMPTS_MAX):
            self.runs += 1
            is_done, result = self._attempt(transaction)
            if is_done:
                answer: T = result
                return answer
        raise Unavailable(f"the program lost {ATTEMPTS_MAX} races")

    def _attempt(self, transaction: Transaction[Any]) -> tuple[bool, Any]:
        program = transaction.begin()
        seen = Seen()
        answer: Any = None
        try:
            while True:
                step = program.send(answer)
                if isinstance(step, Commit):
                    if self._meanwhile:
                        self.run(self._meanwhile.pop(0))
                    if self._has_moved(seen, step):
                        return False, None
                    answer = self._commit(step)
                else:
                    answer = tuple(self._answer(question, seen) for question in step)
        except StopIteration as end:
            return True, end.value

    def _has_moved(self, seen: "Seen", commit: Commit) -> bool:
        """Whether a race was lost."""
        written = {
            (write.table.name, write.table.key_of(write.row))
            for write in commit.writes
            if isinstance(write, Put | Delete)
        }
        watched = seen.got | {cell: found for cell, found in seen.found.items() if cell in written}
        return any(self._version(table, key) != version for (_, key), (table, version) in watched.items())

    # -- reads ------------------------------------------------------------------------------------------------

    def _answer(self, question: Read, seen: "Seen") -> Any:
        match question:
            case Get(table, key):
                row = self._row(table, key)
                seen.got[table.name, key] = (table, 0 if row is None else row.version)
                return row
            case Find():
                rows = self._find(question)
                for row in rows:
                    seen.found[question.table.name, question.table.key_of(row)] = (question.table, row.version)
                return rows
            case CountRows(table, index, equals):
                return len(self._in_index(table, table.index(index), equals))
            case ReadLog(log, limit):
                kept = self.state.logs.get(log, Log())
                entries = tuple(reversed(kept.entries))[:limit]
                return LogState(entries, len(kept.entries), sum(map(len, kept.entries)), kept.dropped)
            case ReadCounter(counter):
                return self._counter(counter)
            case Now():
                return self.clock_ms

    def _find(self, question: Find) -> list[Any]:
        assert 0 <= question.limit <= FIND_MAX
        table, index = question.table, question.table.index(question.index)
        rows = self._in_index(table, index, question.equals)
        sign = -1 if question.is_newest_first else 1
        order = index.order
        if order is not None:
            if question.after is not None:
                rows = [row for row in rows if sign * getattr(row, order) > sign * question.after]
            if question.until is not None:
                rows = [row for row in rows if sign * getattr(row, order) <= sign * question.until]
        rows.sort(
            key=lambda row: (0 if order is None else getattr(row, order), _raw(table.key_of(row))),
            reverse=question.is_newest_first,
        )
        return rows[: question.limit]

    def _in_index(self, table: Table[Any], index: TableIndex, equals: tuple[Any, ...]) -> list[Any]:
        return [
            row
            for row in self._alive(table)
            if None not in equals
            and tuple(getattr(row, name) for name in index.by) == equals
            and (index.order is None or getattr(row, index.order) is not None)
        ]

    def _alive(self, table: Table[Any]) -> Iterable[Any]:
        return [row for row in self.state.rows.get(table.name, {}).values() if self._is_alive(table, row)]

    def _is_alive(self, table: Table[Any], row: Any) -> bool:
        return table.expires is None or getattr(row, table.expires) > self.clock_ms

    def _row(self, table: Table[Any], key: tuple[str, ...]) -> Any:
        row = self.state.rows.get(table.name, {}).get(key)
        return row if row is not None and self._is_alive(table, row) else None

    def _version(self, table: Table[Any], key: tuple[str, ...]) -> int:
        row = self._row(table, key)
        return 0 if row is None else row.version

    def _counter(self, counter: str) -> tuple[int, int]:
        value, ends_at = self.state.counters.get(counter, (0, None))
        if ends_at is not None and ends_at <= self.clock_ms:
            return 0, 0
        return value, 0 if ends_at is None else ends_at - self.clock_ms

    # -- writes -----------------------------------------------------------------------------------------------

    def _commit(self, commit: Commit) -> CommitResult:
        before = deepcopy(self.state)
        done = CommitResult(0)
        try:
            for write in commit.writes:
                done = self._write(write, done)
        except Exception:
            self.state = before
            raise
        return replace(done, revision=self.revision)

    def _write(self, write: Write, done: CommitResult) -> CommitResult:
        match write:
            case Put(table, row):
                self._check_version(table, row)
                return replace(done, versions=(*done.versions, self._store(table, row)))
            case Upsert(table, row):
                return replace(done, versions=(*done.versions, self._store(table, row)))
            case Delete(table, row):
                self._check_version(table, row)
                del self.state.rows[table.name][table.key_of(row)]
                self._changed(table, row, is_deleted=True)
            case Append():
                self._append(write)
            case TakeOldest(log, count):
                entries = self.state.logs.get(log, Log()).entries
                taken = tuple(entries[:count])
                del entries[:count]
                return replace(done, taken=(*done.taken, taken))
            case DropLog(log):
                self.state.logs.pop(log, None)
            case CountUp(counter, ttl_ms):
                return replace(done, counts=(*done.counts, self._count_up(counter, ttl_ms)))
            case DropCounter(counter):
                self.state.counters.pop(counter, None)
            case Notify(channel, message):
                self.state.notifications.append((channel, message))
        return done

    def _check_version(self, table: Table[Any], row: Any) -> None:
        if (found := self._version(table, table.key_of(row))) != row.version:
            raise Conflict(f"{table.name} {table.key_of(row)} is at version {found}, not {row.version}")

    def _store(self, table: Table[Any], row: Any) -> int:
        table.check(row)
        key = table.key_of(row)
        for index in table.indexes:
            values = tuple(getattr(row, name) for name in index.by)
            if index.is_unique and any(table.key_of(r) != key for r in self._in_index(table, index, values)):
                raise Conflict(f"{table.name} has {values} already")
        version = self._version(table, key) + 1
        self.state.rows.setdefault(table.name, {})[key] = replace(row, version=version)
        self._changed(table, row, is_deleted=False)
        return version

    def _changed(self, table: Table[Any], row: Any, *, is_deleted: bool) -> None:
        self.state.changes.append(Change(self.revision + 1, table.name, table.key_of(row), is_deleted))

    def _append(self, write: Append) -> None:
        log = self.state.logs.setdefault(write.log, Log())
        log.entries.append(write.payload)
        while (write.keep is not None and len(log.entries) > write.keep) or (
            write.keep_bytes is not None and sum(map(len, log.entries)) > write.keep_bytes
        ):
            log.entries.pop(0)
            log.dropped += 1

    def _count_up(self, counter: str, ttl_ms: int | None) -> tuple[int, int]:
        value, left_ms = self._counter(counter)
        ends_at = self.state.counters.get(counter, (0, None))[1] if value else None
        if not value and ttl_ms is not None:
            ends_at, left_ms = self.clock_ms + ttl_ms, ttl_ms
        self.state.counters[counter] = (value + 1, ends_at)
        return value + 1, left_ms


def _raw(key: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(part.encode() for part in key)
