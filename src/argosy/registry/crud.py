"""Generic row operations: read, put with compare-and-set, list, delete.

A row carries the version at which it was read. When it is put back, the stored row must still be at that version;
version 0 requires that there is none. Otherwise `Conflict` is raised, and the caller reads again. The operation modules
are made of these parts.
"""

from collections.abc import Sequence
from typing import Any

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.registry.table import R, Table, check_key_part, replace_row
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

# One step of a long deletion: small enough that no other transaction of the store waits long for it.
BATCH_MAX = 500  # rows one transaction writes or deletes


@transaction
def read(table: Table[R], *key: str) -> TransactionBody[R | None]:
    """One row, or None."""
    check_key(table, key)
    return (yield from get(table, *key))


@transaction
def put(table: Table[R], row: R) -> TransactionBody[R]:
    """Stores a row and returns it with its new version. Raises `Conflict` unless the stored version equals the
    row's."""
    table.check(row)
    key = table.key_of(row)
    # The write requires the version, too; these checks tell a missing row from a changed one.
    stored = yield from get(table, *key)
    if row.version == 0 and stored is not None:
        raise Conflict(f"{table.name} already has {format_key(key)}")
    if row.version != 0:
        check_version(table, key, stored, row.version)
    yield from check_unique(table, row)
    return (yield from put_row(table, row))


@transaction
def delete(table: Table[R], *key: str, expected_version: int | None = None) -> TransactionBody[bool]:
    """Deletes a row. Returns False if there is none; raises `Conflict` if it is not at `expected_version`."""
    check_key(table, key)
    stored = yield from get(table, *key)
    if stored is None:
        return False
    if expected_version is not None:
        check_version(table, key, stored, expected_version)
    yield from commit(Delete(table, stored))
    return True


@transaction
def every(table: Table[R], index: str = "all", equals: Sequence[Any] = ()) -> TransactionBody[list[R]]:
    """All rows of an index in its order, read page by page.

    A page may end between rows that are equal in order, so its last such rows are read again with the next page.
    """
    rows: list[R] = []
    after: int | None = None
    order = table.index(index).order
    while True:
        page = yield from find(table, index, *equals, after=after, limit=FIND_MAX)
        if len(page) < FIND_MAX:
            return rows + page
        # A full page of equal rows has no order value to continue after.
        if order is None or getattr(page[0], order) == getattr(page[-1], order):
            raise Invalid(f"cannot list {table.name}: more than {FIND_MAX} rows are equal in order")
        last = getattr(page[-1], order)
        rows += [row for row in page if getattr(row, order) != last]
        # `after` is exclusive, so the rows equal to the last one are read again, and were left out above.
        after = last - 1


# -- parts of other bodies ----------------------------------------------------------------------------------


def put_row(table: Table[R], row: R) -> TransactionBody[R]:
    """Commits one row and returns it with its new version."""
    done = yield from commit(Put(table, row))
    return with_version(row, done.versions[-1])


def require(table: Table[R], *key: str) -> TransactionBody[R]:
    """A row; raises `NotFound` if there is none."""
    check_key(table, key)
    row = yield from get(table, *key)
    if row is None:
        raise NotFound(f"{format_key(key)} not found in {table.name}")
    return row


def check_unique(table: Table[R], row: R) -> TransactionBody[None]:
    """Raises `Conflict` if another row has the same values in a unique index."""
    unique = [index for index in table.indexes if index.is_unique]
    wanted = [(index, tuple(getattr(row, name) for name in index.by)) for index in unique]
    # A row with None among these values is not in the index, so it cannot violate it.
    wanted = [(index, values) for index, values in wanted if None not in values]
    if not wanted:
        return
    # One round trip for all unique indexes. The store checks them again at the commit; this check gives the better
    # error.
    answers = yield from read_many(*(Find(table, index.name, values, limit=1) for index, values in wanted))
    for (index, values), found in zip(wanted, answers, strict=True):
        if any(table.key_of(other) != table.key_of(row) for other in found):
            existing = format_key(table.key_of(found[0]))
            raise Conflict(f"{table.name} {existing} already has {', '.join(index.by)} {format_key(values)}")


def check_version(table: Table[R], key: tuple[str, ...], row: R | None, expected: int) -> None:
    if row is None:
        raise NotFound(f"{format_key(key)} not found in {table.name}")
    if row.version != expected:
        raise Conflict(f"{table.name} {format_key(key)} is at version {row.version}, not {expected}; read it again")


def check_key(table: Table[Any], key: tuple[str, ...]) -> None:
    for part in key:
        check_key_part(table.name, part)


def check_span(name: str, milliseconds: int, longest: int) -> int:
    """Raises `Invalid` unless the time span is positive and within its bound."""
    if not isinstance(milliseconds, int) or not 0 < milliseconds <= longest:
        raise Invalid(f"{name} must be 1 to {longest} milliseconds, not {milliseconds}")
    return milliseconds


def check_limit(limit: int, most: int = FIND_MAX) -> int:
    if not 1 <= limit <= most:
        raise Invalid(f"limit must be 1 to {most}, not {limit}")
    return limit


def with_version(row: R, version: int) -> R:
    return replace_row(row, version=version)


def format_key(values: Sequence[Any]) -> str:
    return "/".join(repr(str(value)) for value in values)
