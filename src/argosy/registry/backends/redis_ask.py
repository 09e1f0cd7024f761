"""Questions in Redis: what the script `ask` is told, and how its answers become rows.

One call answers all questions that a program asks together, as of one instant. Tables that lie in one hash are read
whole and looked through here: they are declared so because they are few rows that are listed together.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from argosy.base.backends.redis.connection import Arg
from argosy.base.errors import Invalid
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import Keys, joined, member_of
from argosy.registry.column_checks import check_key_part
from argosy.registry.table import Table, TableIndex, TableLayout
from argosy.registry.transaction import FIND_MAX, CountRows, Find, Get, LogState, Now, Read, ReadCounter, ReadLog

Answer: TypeAlias = Callable[[Any, int], Any]  # from the script's reply and the server's time in milliseconds
Asked: TypeAlias = tuple[list[Arg], Answer]

_HASHES = (TableLayout.PACKED, TableLayout.FAMILY)


class Questions:
    """Says each question in the script's words."""

    def __init__(self, keys: Keys, codecs: Mapping[str, TableCodec]) -> None:
        self._keys = keys
        self._codecs = codecs

    def asked(self, question: Read) -> Asked:
        match question:
            case Now():
                return ["n"], lambda reply, _: int(reply)
            case Get():
                return self._get(question)
            case Find():
                return self._find(question)
            case CountRows():
                return self._count(question)
            case ReadLog():
                return self._log(question)
            case ReadCounter():
                return ["k", self._keys.counter(question.counter)], _counter

    @staticmethod
    def joined(calls: Sequence[list[Arg]]) -> list[Arg]:
        """Questions of several programs for one call; each list begins with how many it has."""
        args: list[Arg] = [sum(cast(int, each[0]) for each in calls)]
        for each in calls:
            args += each[1:]
        return args

    @staticmethod
    def parted(calls: Sequence[list[Arg]], reply: Any) -> Sequence[tuple[int, Sequence[Any]]]:
        """The server's time with the answers to each."""
        now, at, answers = int(reply[0]), 1, []
        for each in calls:
            count = cast(int, each[0])
            answers.append((now, reply[at : at + count]))
            at += count
        return answers

    # -- rows -------------------------------------------------------------------------------------------------

    def _get(self, question: Get) -> Asked:
        table, key = question.table, question.key
        assert len(key) == len(table.key), f"a row of {table.name} is got by {table.key}, not {key}"
        for part in key:
            check_key_part(table.name, part)
        codec = self._codecs[table.name]
        place, member = self._keys.row(table, key), codec.member_of(key)
        if table.layout is TableLayout.ROW:
            return ["r", place], lambda r, now: _live(table, r and codec.from_fields(member, r[0], r[1]), now)
        if table.layout is TableLayout.VALUE:
            return ["v", place], lambda r, now: _live(table, r and codec.from_packed(member, *r), now)
        field = key[1] if table.layout is TableLayout.FAMILY else member
        return ["h", place, field], lambda r, _: r and codec.from_packed(member, r)

    def _find(self, question: Find) -> Asked:
        table, index = question.table, question.table.index(question.index)
        codec = self._codecs[table.name]
        if not 0 <= question.limit <= FIND_MAX:
            raise Invalid(f"one question returns 0 to {FIND_MAX} rows of {table.name}, not {question.limit}")
        is_bounded = question.after is not None or question.until is not None
        assert index.order is not None or not is_bounded, f"{table.name}.{index.name} has no order to bound"
        texts = codec.equal_texts(index, question.equals)
        if texts is None or not question.limit:
            return ["n"], lambda *_: []
        if index.is_unique:
            return self._find_unique(question, index, texts)
        if table.layout in _HASHES:
            return self._look_through(question.table, question.equals, lambda rows: _selected(rows, question, index))
        low, high = _bounds(question)
        asked: list[Arg] = [
            "f",
            self._keys.table(table),
            self._keys.index(table, index).encode() + joined(texts),
            *(low, high, "1" if question.is_newest_first else "0", str(question.limit)),
            *self._listing(table, index, texts),
        ]

        def answer(reply: Any, now: int) -> list[Any]:
            rows = [codec.from_fields(member, flat, long) for member, flat, long in reply]
            return rows if table.expires is None else [row for row in rows if getattr(row, table.expires) > now]

        return asked, answer

    def _listing(self, table: Table[Any], index: TableIndex, texts: list[bytes]) -> list[Arg]:
        """How rows of the table end, and what must be true of a row for its entry to be in this index."""
        if table.expires is None:
            return ["-", "0", "0", ""]
        fields = self._codecs[table.name].fields
        order = fields[index.order] if index.order else ""
        by = [(fields[name], text) for name, text in zip(index.by, texts, strict=True) if name in fields]
        ending = "o" if index.order == table.expires else "x"
        return [ending, str(len(by)), *(f for f, _ in by), str(len(by)), *(text for _, text in by), order]

    def _find_unique(self, question: Find, index: TableIndex, texts: list[bytes]) -> Asked:
        table, codec = question.table, self._codecs[question.table.name]
        assert table.layout is not TableLayout.FAMILY, f"{table.name}: a family has no unique index"
        is_packed = table.layout is TableLayout.PACKED
        stem = self._keys.table(table)
        asked: list[Arg] = ["u", self._keys.index(table, index), joined(texts), stem, "1" if is_packed else "0"]

        def answer(reply: Any, _: int) -> list[Any]:
            if not reply:
                return []
            row = codec.from_packed(*reply) if is_packed else codec.from_fields(*reply)
            return _selected([row], question, index)

        return asked, answer

    def _look_through(self, table: Table[Any], equals: tuple[Any, ...], answer: Callable[[list[Any]], Any]) -> Asked:
        """All rows of the one hash that can hold the answer."""
        codec = self._codecs[table.name]
        if table.layout is TableLayout.PACKED:
            return ["a", self._keys.table(table)], lambda r, _: answer(
                [codec.from_packed(r[n], r[n + 1]) for n in range(0, len(r), 2)]
            )
        family = str(equals[0])
        return ["a", self._keys.row(table, (family, ""))], lambda r, _: answer(
            [codec.from_packed(member_of((family, r[n].decode())), r[n + 1]) for n in range(0, len(r), 2)]
        )

    def _count(self, question: CountRows) -> Asked:
        table, index = question.table, question.table.index(question.index)
        texts = self._codecs[table.name].equal_texts(index, question.equals)
        if texts is None:
            return ["n"], lambda *_: 0
        if index.is_unique:
            found = Find(table, index.name, question.equals, limit=1)
            asked, answer = self._find_unique(found, index, texts)
            return asked, lambda reply, now: len(answer(reply, now))
        if table.layout in _HASHES:
            everything = Find(table, index.name, question.equals)
            return self._look_through(table, question.equals, lambda rows: len(_matching(rows, everything, index)))
        place = self._keys.index(table, index).encode() + joined(texts)
        listing = self._listing(table, index, texts)
        return ["c", self._keys.table(table), place, *listing], lambda reply, _: int(reply or 0)

    # -- logs -------------------------------------------------------------------------------------------------

    def _log(self, question: ReadLog) -> Asked:
        if question.limit < 0:
            raise Invalid(f"a log is read for 0 entries or more, not {question.limit}")
        log = self._keys.log(question.log)
        return ["l", log, question.log, self._keys.logs, str(question.limit)], _log_state


def _live(table: Table[Any], row: Any, now: int) -> Any:
    """A row past its expiry is none, even in the millisecond before the server notices."""
    if row and table.expires is not None and getattr(row, table.expires) <= now:
        return None
    return row or None


def _bounds(question: Find) -> tuple[str, str]:
    """Low and high, as ZRANGEBYSCORE takes them."""
    after = None if question.after is None else f"({question.after}"
    until = None if question.until is None else str(question.until)
    if question.is_newest_first:
        return until or "-inf", after or "+inf"
    return after or "-inf", until or "+inf"


def _matching(rows: list[Any], question: Find, index: TableIndex) -> list[Any]:
    """The rows that are in the index with these values and within these bounds."""
    wanted = dict(zip(index.by, question.equals, strict=True))
    low, high = question.after, question.until
    turn = -1 if question.is_newest_first else 1
    found = []
    for row in rows:
        order = 0 if index.order is None else getattr(row, index.order)
        is_equal = order is not None and all(getattr(row, name) == value for name, value in wanted.items())
        if is_equal and (low is None or order * turn > low * turn) and (high is None or order * turn <= high * turn):
            found.append(row)
    return found


def _selected(rows: list[Any], question: Find, index: TableIndex) -> list[Any]:
    def rank(row: Any) -> tuple[Any, ...]:
        return (0 if index.order is None else getattr(row, index.order), member_of(question.table.key_of(row)))

    found = sorted(_matching(rows, question, index), key=rank, reverse=question.is_newest_first)
    return found[: question.limit]


def _counter(reply: Any, _: int) -> tuple[int, int]:
    value, left = _readable(reply)
    return (0, 0) if value is None else (int(value), max(left, 0))


def _readable(reply: Any) -> Any:
    """Several programs share one call, so that one which takes a counter for a log must not make it fail."""
    if reply == b"type":
        raise Invalid("a log was asked for its number, or a counter for its entries: it is the other")
    return reply


def _log_state(reply: Any, _: int) -> LogState:
    entries, length, sizes = _readable(reply)
    size_bytes, dropped = map(int, (sizes or b"0:0").split(b":"))
    return LogState(tuple(reversed(entries)), length, size_bytes, dropped)
