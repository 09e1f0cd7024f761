"""Writes in Redis: what the script `commit` is told, and what its reply means.

Everything that could be wrong with a write is found here, before anything is sent: the script checks versions and
unique values, and after that nothing can fail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from argosy.base.backends.redis.connection import Arg
from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import Keys
from argosy.registry.column_checks import check_payload
from argosy.registry.table import Table, TableLayout
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

EVENTS_KEPT_MAX = 1000  # changes kept for watchers that lag behind; past that they are told to list again
ARGS_MAX = 1_000_000  # a server takes 2^20 arguments in one call

Cell = tuple[str, tuple[str, ...]]  # a table's name and a row's key


@dataclass(frozen=True)
class Load:
    """Of an import: stores a new row at the version it comes with."""

    table: Table[Any]
    row: Any


@dataclass(frozen=True)
class BeginLog:
    """Of an import: a log that has dropped entries before."""

    log: str
    dropped: int


@dataclass(frozen=True)
class SetCounter:
    """Of an import: a counter as it was."""

    counter: str
    value: int
    expires_at: int | None


# What a server that is out of memory still does.
REMOVING = (Delete, TakeOldest, DropLog, DropCounter, Notify)

RowWrite: TypeAlias = Put | Upsert | Delete | Load
AnyWrite: TypeAlias = Write | Load | BeginLog | SetCounter


class Writes:
    """Says each write in the script's words."""

    def __init__(self, keys: Keys, codecs: Mapping[str, TableCodec]) -> None:
        self._keys = keys
        self._codecs = codecs

    def args(self, writes: Sequence[AnyWrite], seen: Mapping[Cell, int]) -> list[Arg]:
        """A whole commit. `seen`: rows that the program got by key, with their versions; those must not have moved."""
        ops: list[Arg] = []
        unmoved = dict(seen)
        for write in writes:
            if not isinstance(write, RowWrite):
                ops += self._other(write)
                continue
            try:
                ops += self._row(write)
            except (TypeError, ValueError, AttributeError) as error:
                raise Invalid(f"a row of {write.table.name} cannot be stored: {error}") from error
            if unmoved and not isinstance(write, Upsert):
                cell = (write.table.name, write.table.key_of(write.row))
                if unmoved.get(cell) == write.row.version:
                    del unmoved[cell]  # the write itself asks for that version
        checks: list[Arg] = []
        for (name, key), version in unmoved.items():
            checks += ["check", *self._place(self._codecs[name].table, key), str(version)]
        args = [len(unmoved), len(unmoved) + len(writes), *checks, *ops]
        if len(args) > ARGS_MAX:
            raise Invalid(f"a commit of {len(writes)} writes is too large for one step: write less at once")
        return args

    @staticmethod
    def joined(commits: Sequence[list[Arg]]) -> list[Arg]:
        """Several commits for one call, each with its length before it."""
        args: list[Arg] = [EVENTS_KEPT_MAX, len(commits)]
        for each in commits:
            args.append(len(each))
            args += each
        return args

    @staticmethod
    def parted(_: Sequence[list[Arg]], reply: Any) -> Sequence[Any]:
        outcomes: Sequence[Any] = reply
        return outcomes

    def _row(self, write: RowWrite) -> list[Arg]:
        table, codec = write.table, self._codecs[write.table.name]
        row = write.row
        codec.table.check(row)
        place = self._place(table, table.key_of(row))
        if isinstance(write, Delete):
            return ["delete", *place, str(row.version)]
        expires = getattr(row, table.expires) if table.expires else None
        expected, version = str(row.version) if isinstance(write, Put) else "", ""
        if isinstance(write, Load):
            expected, version = "0", str(row.version)
        ends = "" if expires is None else str(expires)
        args: list[Arg] = ["put", *place, expected, version, ends, *codec.indexed_values(row)]
        if table.layout is not TableLayout.ROW:
            args.append(codec.packed(row))
            return args
        fields, long = codec.row_fields(row)
        return [*args, str(len(fields)), *fields, long]

    def _place(self, table: Table[Any], key: tuple[str, ...]) -> list[Arg]:
        """Table, key, member, field and family."""
        member = self._codecs[table.name].member_of(key)
        if table.layout is TableLayout.FAMILY:
            return [table.name, self._keys.row(table, key), member, key[1], key[0]]
        return [table.name, self._keys.row(table, key), member, member, ""]

    def _other(self, write: AnyWrite) -> list[Arg]:
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
                return ["tell", self._keys.channel(write.channel), write.channel, write.message]
            case BeginLog():
                return ["begin_log", self._keys.log(write.log), write.log, str(write.dropped)]
            case SetCounter():
                ends = "" if write.expires_at is None else str(write.expires_at)
                return ["set_counter", self._keys.counter(write.counter), write.counter, str(write.value), ends]
        raise Invalid(f"a commit has no write of the kind {type(write).__name__}")


def refusal(write: AnyWrite, reason: str, detail: Any) -> Conflict | Invalid:
    """Why a commit was refused, when running the program again would not help."""
    if not isinstance(write, RowWrite):
        name = getattr(write, "log", None) or getattr(write, "counter", "")
        return Invalid(f"{name!r} is already used for something else (a {detail.decode()}): choose another name")
    table, row = write.table, write.row
    shown = f"{table.name} {':'.join(table.key_of(row))!r:.200}"
    if reason == "taken":
        index = table.index(detail.decode())
        values = ", ".join(repr(getattr(row, column)) for column in index.by)
        return Conflict(f"{table.name} already has a row with {values} in its unique index {index.name!r}")
    if detail == 0:
        return Conflict(f"{shown} is gone, and was at version {row.version}: read it again")
    if row.version == 0 or isinstance(write, Load):
        return Conflict(f"{shown} is already there, at version {detail}")
    return Conflict(f"{shown} is at version {detail}, not {row.version}: read it again")


def _limit(number: int | None) -> str:
    return "" if number is None else str(max(number, 0))
