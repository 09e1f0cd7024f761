"""Transactions: operations on tables as generators, written once and run on every backend.

A transaction body is a generator. It yields reads (`Get`, `Find`, …), decides, and may end with one `Commit`, whose
writes take effect together or not at all. The backend answers the reads and performs the commit: SQLite inside one
transaction, Redis with one script that first checks that every row read is still at the version the body saw. If one is
not, the commit does nothing and the body runs again from its start. So every operation has one implementation and one
meaning on all backends (REG-1), and needs no locks. A body may run several times, so it must have no side effects.

    @transaction
    def flip(name: str, uid: str) -> TransactionBody[None]:
        alias = yield from get(ALIASES, name)
        ...
        yield from commit(Put(ALIASES, replace(alias, current_uid=uid)))

    await store.run(flip("docs", "docs-2"))
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

from argosy.registry.table import R, Table

P = ParamSpec("P")
T = TypeVar("T")

# A find is one step of the store, during which other callers wait; longer lists are read in pages.
FIND_MAX = 1000  # rows one read may return
# With pauses that grow to 20 ms this is about a second, after which the caller should decide.
ATTEMPTS_MAX = 64  # runs of a transaction that loses every race, before `Unavailable` is raised


# -- reads --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Get:
    """One row by its key, or None; an expired row is None."""

    table: Table[Any]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Find:
    """Rows in an index with these values, in its order, at most `limit`.

    `after` and `until` bound the order column: greater than `after`, not greater than `until`; with `is_newest_first`
    the order is reversed, `after` means less than, and `until` not less than. Rows equal in order are sorted by key.
    """

    table: Table[Any]
    index: str
    equals: tuple[Any, ...] = ()
    after: int | None = None
    until: int | None = None
    limit: int = FIND_MAX
    is_newest_first: bool = False


@dataclass(frozen=True)
class CountRows:
    """Number of rows in an index with these values."""

    table: Table[Any]
    index: str
    equals: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ReadLog:
    """The newest entries of a log, as a `LogState`."""

    log: str
    limit: int


@dataclass(frozen=True)
class ReadCounter:
    """A counter's value and the milliseconds it has left; (0, 0) if there is none."""

    counter: str


@dataclass(frozen=True)
class Now:
    """The store's clock, in milliseconds."""


Read: TypeAlias = Get | Find | CountRows | ReadLog | ReadCounter | Now


@dataclass(frozen=True)
class LogState:
    """Newest entries and counts of a log, a bounded list of payloads that drops its oldest ones."""

    entries: tuple[bytes, ...]
    length: int
    size_bytes: int
    dropped: int  # entries dropped since the log was created


# -- writes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Put:
    """Stores a row as its next version, if the store has it at the row's version (0: does not have it)."""

    table: Table[Any]
    row: Any


@dataclass(frozen=True)
class Upsert:
    """Stores a row, as the next version of the stored one if there is one."""

    table: Table[Any]
    row: Any


@dataclass(frozen=True)
class Delete:
    """Removes a row if it is still at this version."""

    table: Table[Any]
    row: Any


@dataclass(frozen=True)
class Append:
    """Adds to a log, then drops the oldest entries while there are more than `keep` or more bytes than `keep_bytes`."""

    log: str
    payload: bytes
    keep: int | None = None
    keep_bytes: int | None = None


@dataclass(frozen=True)
class TakeOldest:
    """Removes up to `count` of the oldest entries of a log; `CommitResult.taken` returns them."""

    log: str
    count: int


@dataclass(frozen=True)
class DropLog:
    log: str


@dataclass(frozen=True)
class CountUp:
    """Adds one to a counter, which is created with the TTL `ttl_ms` (None: no expiry)."""

    counter: str
    ttl_ms: int | None = None


@dataclass(frozen=True)
class DropCounter:
    counter: str


@dataclass(frozen=True)
class Notify:
    """Sends a message to the current listeners of a channel; it is not stored."""

    channel: str
    message: str


Write: TypeAlias = Put | Upsert | Delete | Append | TakeOldest | DropLog | CountUp | DropCounter | Notify


@dataclass(frozen=True)
class Commit:
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class CommitResult:
    """Result of a commit: one entry per write of each kind, in order."""

    revision: int  # of the registry after the commit; incremented with every row written
    versions: tuple[int, ...] = ()  # of each Put and Upsert
    taken: tuple[tuple[bytes, ...], ...] = ()  # of each TakeOldest, oldest first
    counts: tuple[tuple[int, int], ...] = ()  # of each CountUp: value, and milliseconds left (0: no expiry)


Step: TypeAlias = tuple[Read, ...] | Commit
TransactionBody: TypeAlias = Generator[Step, Any, T]


# -- helpers for bodies -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transaction(Generic[T]):
    """A body that can be started again. Inside another body, `yield from` runs it as a part."""

    begin: Callable[[], TransactionBody[T]]

    def __iter__(self) -> TransactionBody[T]:
        return self.begin()


def transaction(write: Callable[P, TransactionBody[T]]) -> Callable[P, Transaction[T]]:
    """Decorator: makes a generator function return a transaction that stores can run."""

    # Nothing runs here: a body is started by the store, which may have to start it several times.
    @wraps(write)
    def bind(*args: P.args, **kwargs: P.kwargs) -> Transaction[T]:
        return Transaction(partial(write, *args, **kwargs))

    return bind


def read_many(*reads: Read) -> TransactionBody[tuple[Any, ...]]:
    """Several reads at once, answered as of one instant."""
    results: tuple[Any, ...] = yield reads
    return results


def get(table: Table[R], *key: str) -> TransactionBody[R | None]:
    (row,) = yield (Get(table, key),)
    found: R | None = row
    return found


def find(table: Table[R], index: str, *equals: Any, limit: int = FIND_MAX, **bounds: Any) -> TransactionBody[list[R]]:
    (rows,) = yield (Find(table, index, equals, limit=limit, **bounds),)
    found: list[R] = rows
    return found


def now() -> TransactionBody[int]:
    (milliseconds,) = yield (Now(),)
    clock: int = milliseconds
    return clock


def commit(*writes: Write) -> TransactionBody[CommitResult]:
    done: CommitResult = yield Commit(writes)
    return done
