"""How much memory a registry takes in Redis: what was measured, beside what the design document estimated.

The document counted the bytes of the values, and 50 for an entry of an index; a server also keeps keys, times to live
and the structures that hold them. So its figures stand here for comparison only, and budgets are set by measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass

ALERT_PART = 0.8  # of maxmemory: what the document advises to be woken at
MAXMEMORY_MIN_BYTES = 100_000_000  # for a small fleet; canaries, sinks and retention only grow
INDEX_ENTRY = 50  # what the document adds for a row that is listed


@dataclass(frozen=True)
class Estimate:
    """What the document says of one row, and the most that one may take here."""

    row_bytes: int
    is_listed: bool = False
    ceiling_bytes: int | None = None

    @property
    def total_bytes(self) -> int:
        return self.row_bytes + (INDEX_ENTRY if self.is_listed else 0)


ESTIMATES: Mapping[str, Estimate] = {
    "tasks": Estimate(500, True, ceiling_bytes=350),
    "node_settings_version": Estimate(50),
    "aliases": Estimate(200, True),
    "sessions": Estimate(150, ceiling_bytes=350),
    "idempotency_cache": Estimate(300, ceiling_bytes=200),
    "jobs": Estimate(400, True),
    "leader_lease": Estimate(200),
    "canaries": Estimate(300, True),
    "canary_runs": Estimate(200, True, ceiling_bytes=40),
    "cdc_cursors": Estimate(150),
    "tenant_map": Estimate(250, True),
    "rollover_policies": Estimate(200, True),
    "search_ui_config": Estimate(500, True),
    "admin_sessions": Estimate(150),
    "ratelimit": Estimate(20, ceiling_bytes=140),
    "search_ui_scoped_key": Estimate(50),
    "search_ui_scoped_key_observed": Estimate(100),
}
TOTAL_MAX_BYTES = {100: 1_000_000, 1000: 1_200_000}  # by runs kept of each canary


@dataclass(frozen=True, order=True)
class TableMemory:
    """One table as the server holds it, indexes and all."""

    name: str
    rows: int
    bytes: int

    @property
    def bytes_per_row(self) -> float:
        return self.bytes / self.rows

    @property
    def estimated_bytes(self) -> int | None:
        estimate = ESTIMATES.get(self.name)
        return None if estimate is None else estimate.total_bytes * self.rows

    @property
    def is_within_ceiling(self) -> bool:
        estimate = ESTIMATES.get(self.name)
        ceiling = None if estimate is None else estimate.ceiling_bytes
        return ceiling is None or self.bytes_per_row <= ceiling


@dataclass(frozen=True)
class MemoryReport:
    """One measurement. `total_bytes` is what the server's `used_memory` grew by; the tables are a part of it."""

    server: str
    runs: int
    tables: tuple[TableMemory, ...]
    total_bytes: int
    maxmemory_bytes: int  # 0: no limit is set

    @property
    def around_bytes(self) -> int:
        """What belongs to no table: the change feed, the log and counter lists, and the server's own directories."""
        return self.total_bytes - sum(table.bytes for table in self.tables)

    @property
    def estimated_bytes(self) -> int:
        return sum(table.estimated_bytes or 0 for table in self.tables)

    @property
    def is_within_budget(self) -> bool:
        budget = TOTAL_MAX_BYTES.get(self.runs)
        return (budget is None or self.total_bytes <= budget) and all(each.is_within_ceiling for each in self.tables)


def advice(accounting: MemoryReport) -> str:
    """When to be woken, in one sentence or two."""
    limit = accounting.maxmemory_bytes
    if not limit:
        return (
            f"no maxmemory is set: set one of {megabytes(MAXMEMORY_MIN_BYTES)} or more with the policy noeviction, "
            f"and alert when used_memory passes {ALERT_PART:.0%} of it"
        )
    alert = int(limit * ALERT_PART)
    room = f"the representative registry takes {accounting.total_bytes / limit:.1%}"
    return f"alert when used_memory passes {megabytes(alert)}, {ALERT_PART:.0%} of maxmemory; {room}"


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f}".removesuffix(".00") + " MB"


COLUMNS = ("table", "rows", "bytes/row", "bytes", "document", "ceiling/row", "ok")


def as_rows(accounting: MemoryReport) -> list[tuple[object, ...]]:
    """The table for people."""
    rows: list[tuple[object, ...]] = [
        (
            each.name,
            each.rows,
            round(each.bytes_per_row),
            each.bytes,
            each.estimated_bytes,
            None if each.name not in ESTIMATES else ESTIMATES[each.name].ceiling_bytes,
            each.is_within_ceiling,
        )
        for each in accounting.tables
    ]
    rows.append(("around them", None, None, accounting.around_bytes, None, None, True))
    budget = TOTAL_MAX_BYTES.get(accounting.runs)
    is_ok = budget is None or accounting.total_bytes <= budget
    rows.append(("all", None, None, accounting.total_bytes, accounting.estimated_bytes, None, is_ok))
    return rows


def as_json(accounting: MemoryReport) -> dict[str, object]:
    """The same for machines."""
    return {
        "server": accounting.server,
        "runs_per_canary": accounting.runs,
        "total_bytes": accounting.total_bytes,
        "budget_bytes": TOTAL_MAX_BYTES.get(accounting.runs),
        "document_bytes": accounting.estimated_bytes,
        "around_bytes": accounting.around_bytes,
        "maxmemory_bytes": accounting.maxmemory_bytes,
        "ok": accounting.is_within_budget,
        "advice": advice(accounting),
        "tables": [
            {
                "table": table.name,
                "rows": table.rows,
                "bytes": table.bytes,
                "bytes_per_row": round(table.bytes_per_row, 1),
                "document_bytes": table.estimated_bytes,
                "ok": table.is_within_ceiling,
            }
            for table in accounting.tables
        ],
    }
