"""Reads in Redis: the arguments of the script `queries`, and decoding of its replies.

One call answers all reads that a transaction yields together, as of one instant. Tables in one hash are read as a whole
and filtered here: they have this layout because they have few rows, which are listed together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from argosy.base.backends.redis.connection import Arg
from argosy.base.errors import Invalid
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import RegistryKeys, encode_values, member_of
from argosy.registry.table import Table, TableIndex, TableLayout, check_key_part
from argosy.registry.transaction import FIND_MAX, CountRows, Find, Get, LogState, Now, Read, ReadCounter, ReadLog

Decoder: TypeAlias = Callable[[Any, int], Any]  # of the script's reply, with the server's time in milliseconds
EncodedRead: TypeAlias = tuple[list[Arg], Decoder]

_HASHES = (TableLayout.PACKED, TableLayout.FAMILY)


class ReadEncoder:
    """Encodes reads as arguments of the script."""

    def __init__(self, keys: RegistryKeys, codecs: Mapping[str, TableCodec]) -> None:
        self._keys = keys
        self._codecs = codecs

    def encode(self, read: Read) -> EncodedRead:
        match read:
            case Now():
                return ["n"], lambda reply, _: int(reply)
            case Get():
                return self._get(read)
            case Find():
                return self._find(read)
            case CountRows():
                return self._count(read)
            case ReadLog():
                return self._log(read)
            case ReadCounter():
                return ["k", self._keys.counter(read.counter)], _decode_counter

    @staticmethod
    # The count comes first and is added up, so that several callers' reads look to the script like those of one.
    def encode_calls(calls: Sequence[list[Arg]]) -> list[Arg]:
        """The reads of several callers in one call; each list begins with the number of its reads."""
        args: list[Arg] = [sum(cast(int, each[0]) for each in calls)]
        for each in calls:
            args += each[1:]
        return args

    @staticmethod
    def decode_replies(calls: Sequence[list[Arg]], reply: Any) -> Sequence[tuple[int, Sequence[Any]]]:
        """For each caller, the server's time and the replies to its reads."""
        now, at, replies = int(reply[0]), 1, []
        for each in calls:
            count = cast(int, each[0])
            replies.append((now, reply[at : at + count]))
            at += count
        return replies

    # -- rows -------------------------------------------------------------------------------------------------

    def _get(self, read: Get) -> EncodedRead:
        table, key = read.table, read.key
        assert len(key) == len(table.key), f"the key of {table.name} is {table.key}, not {key}"
        for part in key:
            check_key_part(table.name, part)
        codec = self._codecs[table.name]
        place, member = self._keys.row(table, key), codec.member_of(key)
        if table.layout is TableLayout.ROW:
            # `r and ...`: the script answers false for a missing row, which the client turns into None.
            return ["r", place], lambda r, now: _live(table, r and codec.from_fields(member, r[0], r[1]), now)
        if table.layout is TableLayout.VALUE:
            return ["v", place], lambda r, now: _live(table, r and codec.from_packed(member, *r), now)
        # A family is a hash of its own, so only the second part of the key names the row inside it.
        field = key[1] if table.layout is TableLayout.FAMILY else member
        return ["h", place, field], lambda r, _: r and codec.from_packed(member, r)

    def _find(self, read: Find) -> EncodedRead:
        table, index = read.table, read.table.index(read.index)
        codec = self._codecs[table.name]
        if not 0 <= read.limit <= FIND_MAX:
            raise Invalid(f"a find returns 0 to {FIND_MAX} rows of {table.name}, not {read.limit}")
        is_bounded = read.after is not None or read.until is not None
        assert index.order is not None or not is_bounded, f"{table.name}.{index.name} has no order to bound"
        texts = codec.equal_texts(index, read.equals)
        # Nothing can match. A read of the time keeps the reply aligned with the request, and is the cheapest one there
        # is.
        if texts is None or not read.limit:
            return ["n"], lambda *_: []
        if index.is_unique:
            return self._find_unique(read, index, texts)
        if table.layout in _HASHES:
            return self._scan_hash(read.table, read.equals, lambda rows: _select(rows, read, index))
        low, high = _bounds(read)
        # Reverse order, bounds and limit are applied by the server: an index may have millions of entries.
        args: list[Arg] = [
            "f",
            self._keys.table(table),
            self._keys.index(table, index).encode() + encode_values(texts),
            *(low, high, "1" if read.is_newest_first else "0", str(read.limit)),
            *self._listing(table, index, texts),
        ]

        def decode(reply: Any, now: int) -> list[Any]:
            rows = [codec.from_fields(member, flat, long) for member, flat, long in reply]
            return rows if table.expires is None else [row for row in rows if getattr(row, table.expires) > now]

        return args, decode

    def _listing(self, table: Table[Any], index: TableIndex, texts: list[bytes]) -> list[Arg]:
        """How rows of the table expire, and the values that a row must have for its entry in this index to be valid."""
        if table.expires is None:
            return ["-", "0", "0", ""]
        fields = self._codecs[table.name].fields
        order = fields[index.order] if index.order else ""
        by = [(fields[name], text) for name, text in zip(index.by, texts, strict=True) if name in fields]
        # In the order of expiry the entries of expired rows lie below the present time, so a bound leaves them out. In
        # any other order every row has to be read.
        expiry = "o" if index.order == table.expires else "x"
        return [expiry, str(len(by)), *(f for f, _ in by), str(len(by)), *(text for _, text in by), order]

    def _find_unique(self, read: Find, index: TableIndex, texts: list[bytes]) -> EncodedRead:
        table, codec = read.table, self._codecs[read.table.name]
        # A unique index refers to a row by its member, and the script would not know which family's hash contains it.
        assert table.layout is not TableLayout.FAMILY, f"{table.name}: a family has no unique index"
        is_packed = table.layout is TableLayout.PACKED
        stem = self._keys.table(table)
        args: list[Arg] = ["u", self._keys.index(table, index), encode_values(texts), stem, "1" if is_packed else "0"]

        def decode(reply: Any, _: int) -> list[Any]:
            if not reply:
                return []
            row = codec.from_packed(*reply) if is_packed else codec.from_fields(*reply)
            # The row of a unique index can still be outside the bounds of the read.
            return _select([row], read, index)

        return args, decode

    def _scan_hash(self, table: Table[Any], equals: tuple[Any, ...], answer: Callable[[list[Any]], Any]) -> EncodedRead:
        """Reads all rows of the one hash that can contain the answer."""
        codec = self._codecs[table.name]
        if table.layout is TableLayout.PACKED:
            return ["a", self._keys.table(table)], lambda r, _: answer(
                [codec.from_packed(r[n], r[n + 1]) for n in range(0, len(r), 2)]
            )
        family = str(equals[0])
        # The first column of `equals` is the family: the hash is found without an index.
        return ["a", self._keys.row(table, (family, ""))], lambda r, _: answer(
            [codec.from_packed(member_of((family, r[n].decode())), r[n + 1]) for n in range(0, len(r), 2)]
        )

    def _count(self, read: CountRows) -> EncodedRead:
        table, index = read.table, read.table.index(read.index)
        texts = self._codecs[table.name].equal_texts(index, read.equals)
        if texts is None:
            return ["n"], lambda *_: 0
        if index.is_unique:
            # A unique index has at most one row for a value, so counting is a find.
            one = Find(table, index.name, read.equals, limit=1)
            args, decode = self._find_unique(one, index, texts)
            return args, lambda reply, now: len(decode(reply, now))
        if table.layout in _HASHES:
            unbounded = Find(table, index.name, read.equals)
            return self._scan_hash(table, read.equals, lambda rows: len(_filter(rows, unbounded, index)))
        place = self._keys.index(table, index).encode() + encode_values(texts)
        listing = self._listing(table, index, texts)
        return ["c", self._keys.table(table), place, *listing], lambda reply, _: int(reply or 0)

    # -- logs -------------------------------------------------------------------------------------------------

    def _log(self, read: ReadLog) -> EncodedRead:
        # LRANGE gives a negative limit another meaning, and SQLite rejects it (REG-1).
        if read.limit < 0:
            raise Invalid(f"a log is read for 0 entries or more, not {read.limit}")
        log = self._keys.log(read.log)
        return ["l", log, read.log, self._keys.logs, str(read.limit)], _decode_log


def _live(table: Table[Any], row: Any, now: int) -> Any:
    """None if the row has expired, even in the millisecond before the server removes it."""
    if row and table.expires is not None and getattr(row, table.expires) <= now:
        return None
    return row or None


def _bounds(read: Find) -> tuple[str, str]:
    """Low and high, as arguments of ZRANGEBYSCORE."""
    # `(` excludes the bound. `after` is exclusive so that a page begins where the one before it ended.
    after = None if read.after is None else f"({read.after}"
    until = None if read.until is None else str(read.until)
    if read.is_newest_first:
        return until or "-inf", after or "+inf"
    return after or "-inf", until or "+inf"


def _filter(rows: list[Any], read: Find, index: TableIndex) -> list[Any]:
    """The rows that are in the index with these values and within these bounds."""
    wanted = dict(zip(index.by, read.equals, strict=True))
    low, high = read.after, read.until
    # Newest first, `after` is an upper bound: the comparison is mirrored rather than written twice.
    sign = -1 if read.is_newest_first else 1
    matching = []
    for row in rows:
        order = 0 if index.order is None else getattr(row, index.order)
        is_equal = order is not None and all(getattr(row, name) == value for name, value in wanted.items())
        if is_equal and (low is None or order * sign > low * sign) and (high is None or order * sign <= high * sign):
            matching.append(row)
    return matching


def _select(rows: list[Any], read: Find, index: TableIndex) -> list[Any]:
    # The member breaks ties as the server does between entries of equal score (REG-1).
    def rank(row: Any) -> tuple[Any, ...]:
        return (0 if index.order is None else getattr(row, index.order), member_of(read.table.key_of(row)))

    ordered = sorted(_filter(rows, read, index), key=rank, reverse=read.is_newest_first)
    return ordered[: read.limit]


def _decode_counter(reply: Any, _: int) -> tuple[int, int]:
    value, left = _check_type(reply)
    # PTTL is -1 for a key without expiry.
    return (0, 0) if value is None else (int(value), max(left, 0))


def _check_type(reply: Any) -> Any:
    """Several callers share one call, so one that reads a counter as a log must not make the whole call fail."""
    if reply == b"type":
        raise Invalid("wrong kind: a log was read as a counter, or a counter as a log")
    return reply


def _decode_log(reply: Any, _: int) -> LogState:
    entries, length, sizes = _check_type(reply)
    size_bytes, dropped = map(int, (sizes or b"0:0").split(b":"))
    # LRANGE lists the oldest first; a log is read newest first on every store (REG-1).
    return LogState(tuple(reversed(entries)), length, size_bytes, dropped)
