"""A test table, small programs over it, and a store whose clock moves only when a test moves it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from argosy.base.clock import SystemClock
from argosy.registry.backends.sqlite import SqliteStore
from argosy.registry.table import Table, TableIndex, TableLayout
from argosy.registry.transaction import Read, TransactionBody, Write, commit, read_many, transaction

START_S = 1_700_000_000.0


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Ball:
    name: str
    colour: Colour = Colour.RED
    rank: int = 0
    owner: str | None = None
    badge: str | None = None
    is_flat: bool = False
    print: bytes = b""
    marks: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    won_at: int | None = None
    version: int = 0


@dataclass(frozen=True)
class Ticket:
    row: str
    seat: str
    expires_at: int
    holder: str = ""
    version: int = 0


BALLS = Table(
    "balls",
    Ball,
    ("name",),
    TableLayout.ROW,
    "to try things on",
    (
        TableIndex("all", order="rank"),
        TableIndex("colour", ("colour",), "rank"),
        TableIndex("owner", ("owner",), "won_at"),
        TableIndex("badge", ("badge",), is_unique=True),
    ),
)
TICKETS = Table(
    "ticket:office",
    Ticket,
    ("row", "seat"),
    TableLayout.ROW,
    "that expire",
    (TableIndex("row", ("row",)),),
    "expires_at",
)
TABLES = (BALLS, TICKETS)


class StillClock(SystemClock):
    """Stands still. Threads of the store read it too."""

    def __init__(self) -> None:
        self.wall_s = START_S
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.wall_s

    def pass_ms(self, milliseconds: int) -> None:
        self.wall_s += milliseconds / 1000
        self.now_s += milliseconds / 1000


START_MS = int(START_S * 1000)


@transaction
def reads_of(*questions: Read) -> TransactionBody[Any]:
    answers = yield from read_many(*questions)
    return answers[0] if len(answers) == 1 else answers


@transaction
def commit_of(*writes: Write) -> TransactionBody[Any]:
    return (yield from commit(*writes))


@asynccontextmanager
async def opened(url: str | Path = "memory://", **how: Any) -> AsyncIterator[SqliteStore]:
    """A store over the tables above that is closed at the end."""
    store = await SqliteStore.open(url, **{"clock": StillClock(), "tables": TABLES} | how)
    try:
        yield store
    finally:
        await store.close()
