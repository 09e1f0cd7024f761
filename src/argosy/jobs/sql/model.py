"""What goes into a statement and what comes out, and what bounds it."""

from dataclasses import dataclass
from typing import TypeAlias

from argosy.base.errors import Invalid

Value: TypeAlias = str | int | float | bytes | None
Cell: TypeAlias = "Value | dict[str, str]"


class StatementTimeout(Invalid):
    """The statement took too long: ask for less."""


class StatementTooLarge(Invalid):
    """The statement reads or answers too much: ask for less."""


@dataclass(frozen=True)
class SqlLimits:
    """No statement is unbounded; the numbers are those of the original where it has them."""

    statement_s: float = 5.0
    statement_chars: int = 100_000
    parameters: int = 1_000
    scanned_rows: int = 1_000_000  # of the store
    result_rows: int = 100_000
    result_bytes: int = 64 << 20
    concurrent: int = 8  # statements on one shard


@dataclass(frozen=True)
class SqlResult:
    """Columns with the names of their Arrow types, and rows in their order."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
