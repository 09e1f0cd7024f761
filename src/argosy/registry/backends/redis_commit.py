"""Writes in Redis: the arguments of the script `commit`, and the errors that its replies stand for.

Everything else that could be wrong with a write is checked here, before anything is sent: Redis does not undo the
writes of a script that fails. The script itself checks versions and unique values first; after that nothing can fail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from argosy.base.backends.redis.connection import Arg
from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import RegistryKeys
from argosy.registry.table import Table, TableLayout, check_payload
from argosy.registry.transaction import (
    Append,
    CountUp,
    Delete,
    DropCounter,
    DropLog,
    Notify,
    Put,
    TakeOldest,
    Upsert,
    Write,
)

# Small, because the stream counts against the server's memory; SQLite stores ten times as many on disk.
EVENTS_MAX = 1000  # changes in the stream; a watcher that is further behind must list again
ARGS_MAX = 1_000_000  # a server accepts 2^20 arguments in one call

Cell = tuple[str, tuple[str, ...]]  # a table's name and a row's key


@dataclass(frozen=True)
class LoadRow:
    """Of an import: stores a new row at the version that it has there."""

    table: Table[Any]
    row: Any


@dataclass(frozen=True)
class BeginLog:
    """Of an import: creates a log that has already dropped entries."""

    log: str
    dropped: int


@dataclass(frozen=True)
class SetCounter:
    """Of an import: stores a counter as it was."""

    counter: str
    value: int
    expires_at: int | None


# Writes that a server executes even when it is out of memory.
REMOVING = (Delete, TakeOldest, DropLog, DropCounter, Notify)

RowWrite: TypeAlias = Put | Upsert | Delete | LoadRow
AnyWrite: TypeAlias = Write | LoadRow | BeginLog | SetCounter


class CommitEncoder:
    """Encodes commits as arguments of the script."""

    def __init__(self, keys: RegistryKeys, codecs: Mapping[str, TableCodec]) -> None:
        self._keys = keys
        self._codecs = codecs

    def encode(self, writes: Sequence[AnyWrite], read: Mapping[Cell, int]) -> list[Arg]:
        """A whole commit. `read`: versions of the rows that the transaction has read by key; they must be unchanged."""
        ops: list[Arg] = []
        # Rows that were read and are not written are checked as well: a decision may depend on a row that another
        # transaction changes (write skew).
        unchanged = dict(read)
        for write in writes:
            if not isinstance(write, RowWrite):
                ops += self._encode_other(write)
                continue
            try:
                ops += self._encode_row(write)
            # What the checks of a row or its encoding raise. All of it means a value that cannot be stored, so the
            # caller must fix it; nothing has been sent yet.
            except (TypeError, ValueError, AttributeError) as error:
                raise Invalid(f"a row of {write.table.name} cannot be stored: {error}") from error
            # An upsert accepts every version, so a version that was read still needs its own check.
            if unchanged and not isinstance(write, Upsert):
                cell = (write.table.name, write.table.key_of(write.row))
                if unchanged.get(cell) == write.row.version:
                    del unchanged[cell]  # the write itself requires that version
        checks: list[Arg] = []
        for (name, key), version in unchanged.items():
            checks += ["check", *self._place(self._codecs[name].table, key), str(version)]
        # The number of checks comes first: the script numbers all operations, and subtracts the checks to name the
        # failed write.
        args = [len(unchanged), len(unchanged) + len(writes), *checks, *ops]
        if len(args) > ARGS_MAX:
            raise Invalid(f"commit too large: {len(writes)} writes; write less at once")
        return args

    @staticmethod
    def encode_calls(commits: Sequence[list[Arg]]) -> list[Arg]:
        """The commits of several callers in one call, each with its length before it."""
        args: list[Arg] = [EVENTS_MAX, len(commits)]
        for each in commits:
            args.append(len(each))
            args += each
        return args

    @staticmethod
    def decode_replies(_: Sequence[list[Arg]], reply: Any) -> Sequence[Any]:
        outcomes: Sequence[Any] = reply
        return outcomes

    def _encode_row(self, write: RowWrite) -> list[Arg]:
        table, codec = write.table, self._codecs[write.table.name]
        row = write.row
        codec.table.check(row)
        place = self._place(table, table.key_of(row))
        if isinstance(write, Delete):
            return ["delete", *place, str(row.version)]
        expires = getattr(row, table.expires) if table.expires else None
        # An empty text means any version; "0" means that there must be no row.
        expected, version = str(row.version) if isinstance(write, Put) else "", ""
        if isinstance(write, LoadRow):
            expected, version = "0", str(row.version)
        expiry = "" if expires is None else str(expires)
        args: list[Arg] = ["put", *place, expected, version, expiry, *codec.index_values(row)]
        if table.layout is not TableLayout.ROW:
            args.append(codec.encode_packed(row))
            return args
        fields, long = codec.row_fields(row)
        return [*args, str(len(fields)), *fields, long]

    def _place(self, table: Table[Any], key: tuple[str, ...]) -> list[Arg]:
        """Table, key, member, field and family."""
        member = self._codecs[table.name].member_of(key)
        if table.layout is TableLayout.FAMILY:
            # The family's name is sent in addition, because the first row of a family adds it to the listing of
            # families.
            return [table.name, self._keys.row(table, key), member, key[1], key[0]]
        return [table.name, self._keys.row(table, key), member, member, ""]

    def _encode_other(self, write: AnyWrite) -> list[Arg]:
        match write:
            case Append():
                check_payload(write.payload)
                limits = [_limit(write.keep), _limit(write.keep_bytes)]
                return ["append", self._keys.log(write.log), write.log, write.payload, *limits]
            case TakeOldest():
                if write.count < 0:
                    raise Invalid(f"0 entries or more can be taken from a log, not {write.count}")
                return ["take", self._keys.log(write.log), write.log, str(write.count)]
            case DropLog():
                return ["drop_log", self._keys.log(write.log), write.log]
            case CountUp():
                if write.ttl_ms is not None and write.ttl_ms <= 0:
                    raise Invalid(f"a counter lives for 1 millisecond or more, not {write.ttl_ms}")
                ttl_ms = "" if write.ttl_ms is None else str(write.ttl_ms)
                return ["count", self._keys.counter(write.counter), write.counter, ttl_ms]
            case DropCounter():
                return ["drop_counter", self._keys.counter(write.counter), write.counter]
            case Notify():
                return ["notify", self._keys.channel(write.channel), write.channel, write.message]
            case BeginLog():
                return ["begin_log", self._keys.log(write.log), write.log, str(write.dropped)]
            case SetCounter():
                expiry = "" if write.expires_at is None else str(write.expires_at)
                return ["set_counter", self._keys.counter(write.counter), write.counter, str(write.value), expiry]
        raise Invalid(f"unknown kind of write: {type(write).__name__}")


def commit_error(write: AnyWrite, reason: str, detail: Any) -> Conflict | Invalid:
    """The error of a rejected commit, where running the transaction again would not help."""
    if not isinstance(write, RowWrite):
        name = getattr(write, "log", None) or getattr(write, "counter", "")
        return Invalid(f"{name!r} is already used for something else (a {detail.decode()}): choose another name")
    table, row = write.table, write.row
    name = f"{table.name} {':'.join(table.key_of(row))!r:.200}"
    if reason == "taken":
        index = table.index(detail.decode())
        values = ", ".join(repr(getattr(row, column)) for column in index.by)
        return Conflict(f"{table.name} already has a row with {values} in its unique index {index.name!r}")
    # The script reports a missing row as version 0.
    if detail == 0:
        return Conflict(f"{name} no longer exists, and was at version {row.version}: read it again")
    if row.version == 0 or isinstance(write, LoadRow):
        return Conflict(f"{name} already exists, at version {detail}")
    return Conflict(f"{name} is at version {detail}, not {row.version}: read it again")


def _limit(number: int | None) -> str:
    # A negative bound means 0, as in SQLite (REG-1).
    return "" if number is None else str(max(number, 0))
