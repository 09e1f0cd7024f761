"""Rows that are simply kept: read, written if nobody else was first, listed, deleted.

A row that the caller has read carries its version; written back it must still be at that version, and version 0 must
not exist yet. Whoever is late is told so and looks again.
"""

from collections.abc import Sequence
from typing import Any

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry.column_checks import check_key_part
from argosy.registry.table import R, Table, replace_row
from argosy.registry.transaction import (
    FIND_MAX,
    Delete,
    Find,
    Put,
    TransactionBody,
    commit,
    find,
    get,
    read_many,
    transaction,
)

BATCH_MAX = 500  # rows one step writes or deletes


@transaction
def read(table: Table[R], *key: str) -> TransactionBody[R | None]:
    """One row, or None."""
    check_key(table, key)
    return (yield from get(table, *key))


@transaction
def put(table: Table[R], row: R) -> TransactionBody[R]:
    """Stores a row and returns it as it now is; Conflict unless the store has it at the row's version."""
    table.check(row)
    key = table.key_of(row)
    known = yield from get(table, *key)
    if row.version == 0 and known is not None:
        raise Conflict(f"{table.name} already has {spelled(key)}")
    if row.version != 0:
        check_version(table, key, known, row.version)
    yield from check_unique(table, row)
    return (yield from stored(table, row))


@transaction
def delete(table: Table[R], *key: str, expected_version: int | None = None) -> TransactionBody[bool]:
    """Removes a row; False if there is none, Conflict if it is not at the version the caller has seen."""
    check_key(table, key)
    known = yield from get(table, *key)
    if known is None:
        return False
    if expected_version is not None:
        check_version(table, key, known, expected_version)
    yield from commit(Delete(table, known))
    return True


@transaction
def every(table: Table[R], index: str = "all", equals: Sequence[Any] = ()) -> TransactionBody[list[R]]:
    """All rows of an index in its order, page by page.

    A page may end between rows that are equal in order: those are asked for again with the next one.
    """
    rows: list[R] = []
    after: int | None = None
    order = table.index(index).order
    while True:
        page = yield from find(table, index, *equals, after=after, limit=FIND_MAX)
        if len(page) < FIND_MAX:
            return rows + page
        if order is None or getattr(page[0], order) == getattr(page[-1], order):
            raise Invalid(f"{table.name} has more than {FIND_MAX} rows equal in order: they cannot be listed")
        last = getattr(page[-1], order)
        rows += [row for row in page if getattr(row, order) != last]
        after = last - 1


# -- parts of other programs --------------------------------------------------------------------------------


def stored(table: Table[R], row: R) -> TransactionBody[R]:
    """Commits one row; the version it got is in the answer."""
    done = yield from commit(Put(table, row))
    return with_version(row, done.versions[-1])


def known(table: Table[R], *key: str) -> TransactionBody[R]:
    """A row that must be there."""
    check_key(table, key)
    row = yield from get(table, *key)
    if row is None:
        raise NotFound(f"{table.name} has no {spelled(key)}")
    return row


def check_unique(table: Table[R], row: R) -> TransactionBody[None]:
    """Conflict if another row has the values that must be this row's alone."""
    unique = [index for index in table.indexes if index.is_unique]
    wanted = [(index, tuple(getattr(row, name) for name in index.by)) for index in unique]
    wanted = [(index, values) for index, values in wanted if None not in values]
    if not wanted:
        return
    answers = yield from read_many(*(Find(table, index.name, values, limit=1) for index, values in wanted))
    for (index, values), found in zip(wanted, answers, strict=True):
        if any(table.key_of(other) != table.key_of(row) for other in found):
            taken = spelled(table.key_of(found[0]))
            raise Conflict(f"{table.name} {taken} already has {', '.join(index.by)} {spelled(values)}")


def check_version(table: Table[R], key: tuple[str, ...], row: R | None, expected: int) -> None:
    if row is None:
        raise NotFound(f"{table.name} has no {spelled(key)}")
    if row.version != expected:
        raise Conflict(f"{table.name} {spelled(key)} is at version {row.version}, not {expected}: read it again")


def check_key(table: Table[Any], key: tuple[str, ...]) -> None:
    for part in key:
        check_key_part(table.name, part)


def check_span(name: str, milliseconds: int, longest: int) -> int:
    """A span of time that is longer than nothing and no longer than its bound."""
    if not isinstance(milliseconds, int) or not 0 < milliseconds <= longest:
        raise Invalid(f"{name} is 1 to {longest} milliseconds, not {milliseconds}")
    return milliseconds


def check_limit(limit: int, most: int = FIND_MAX) -> int:
    if not 1 <= limit <= most:
        raise Invalid(f"a limit is 1 to {most}, not {limit}")
    return limit


def with_version(row: R, version: int) -> R:
    return replace_row(row, version=version)


def spelled(values: Sequence[Any]) -> str:
    return "/".join(repr(str(value)) for value in values)
