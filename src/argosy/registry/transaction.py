"""Operations as programs: written once, run on every backend.

A program is a generator. It asks (`Get`, `Find`, …), decides, and may end with one `Commit`, whose writes take effect
together or not at all. A backend answers the questions and performs the commit: SQLite inside one transaction, Redis
with one script that first checks that every row is still at the version the program saw. If one is not, the commit has
done nothing, and the program is run again from its start. So each operation has one text and one meaning (REG-1), and
no backend needs to know it.

    @transaction
    def flip(name: str, uid: str) -> Program[Alias]:
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

FIND_MAX = 1000  # rows one question may return
ATTEMPTS_MAX = 64  # runs of one program that loses every race, before it is Unavailable


# -- questions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Get:
    """One row by its key, or None; an expired row is None."""

    table: Table[Any]
    key: tuple[str, ...]


@dataclass(frozen=True)
class Find:
    """Rows in an index with these values, in its order, at most `limit`.

    `after` and `until` bound the order column: greater than `after`, not greater than `until`; with `is_newest_first`
    the order is turned round, `after` means less than, and `until` not less than. Rows equal in order come by key.
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
    """How many rows an index has with these values."""

    table: Table[Any]
    index: str
    equals: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ReadLog:
    """Entries of a log, newest first, with their numbers; `LogState` comes with them."""

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
    """A log is a bounded list of payloads that forgets its oldest."""

    entries: tuple[bytes, ...]
    length: int
    size_bytes: int
    dropped: int  # entries that had to go since the log began


# -- writes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Put:
    """Stores a row if the store has it at the row's version (0: not at all), as the next version."""

    table: Table[Any]
    row: Any


@dataclass(frozen=True)
class Upsert:
    """Stores a row whatever is there, as the next version of that."""

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
    """Removes up to `count` of the oldest entries of a log; they come back in `Committed.taken`."""

    log: str
    count: int


@dataclass(frozen=True)
class DropLog:
    log: str


@dataclass(frozen=True)
class CountUp:
    """Adds one to a counter; the first time, the counter is given `ttl_ms` to live (None: for ever)."""

    counter: str
    ttl_ms: int | None = None


@dataclass(frozen=True)
class DropCounter:
    counter: str


@dataclass(frozen=True)
class Notify:
    """Sends a message to whoever listens just now; nothing is kept."""

    channel: str
    message: str


Write: TypeAlias = Put | Upsert | Delete | Append | TakeOldest | DropLog | CountUp | DropCounter | Notify


@dataclass(frozen=True)
class Commit:
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class CommitResult:
    """What a commit led to, one entry per write of its kind, in order."""

    revision: int  # of the registry after it: grows with every row written
    versions: tuple[int, ...] = ()  # of each Put and Upsert
    taken: tuple[tuple[bytes, ...], ...] = ()  # of each TakeOldest, oldest first
    counts: tuple[tuple[int, int], ...] = ()  # of each CountUp: value, and milliseconds left (0: for ever)


Step: TypeAlias = tuple[Read, ...] | Commit
TransactionBody: TypeAlias = Generator[Step, Any, T]


# -- how programs are written -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transaction(Generic[T]):
    """A program that can be begun again. Inside another program, `yield from` runs it as a part."""

    begin: Callable[[], TransactionBody[T]]

    def __iter__(self) -> TransactionBody[T]:
        return self.begin()


def transaction(write: Callable[P, TransactionBody[T]]) -> Callable[P, Transaction[T]]:
    """Makes a generator function return a program that stores can run."""

    @wraps(write)
    def made(*args: P.args, **kwargs: P.kwargs) -> Transaction[T]:
        return Transaction(partial(write, *args, **kwargs))

    return made


def read_many(*questions: Read) -> TransactionBody[tuple[Any, ...]]:
    """Several questions at once, answered as of one instant."""
    answers: tuple[Any, ...] = yield questions
    return answers


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
