"""Memory use of a registry in Redis: the report of a measurement, the budgets, and the sample data set it is made on.

The design document (004) counted the bytes of the values, and 50 for an entry of an index. A server also needs memory
for keys, expiry times and the structures that contain them, so the document's figures are shown for comparison only,
and budgets are set by measurement. Measured with the document's own layout, its sample took 3.9 times its estimate.
"""

from base64 import b32encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from argosy.registry.canaries import CanaryRun, encode_run
from argosy.registry.jobs import due
from argosy.registry.rows import (
    AdminSession,
    AliasKind,
    Canary,
    CdcCursor,
    ClientSession,
    ControlJob,
    ControlJobState,
    ControlTask,
    IdempotencyEntry,
    IdempotencyState,
    IndexAlias,
    LeaderLease,
    NodeSettingsVersion,
    RolloverPolicy,
    RunStatus,
    ScopedKey,
    ScopedKeyObserved,
    SearchUiConfig,
    TaskStatus,
    Tenant,
)
from argosy.registry.tables import (
    ADMIN_SESSIONS,
    ALIASES,
    CANARIES,
    CANARY_RUNS_LOG,
    CDC_CURSORS,
    IDEMPOTENCY_CACHE,
    JOBS,
    LEADER_LEASE,
    NODE_SETTINGS_VERSION,
    ROLLOVER_POLICIES,
    SCOPED_KEYS,
    SCOPED_KEYS_OBSERVED,
    SEARCH_UI_CONFIG,
    SEARCH_UI_RATE,
    SESSIONS,
    TASKS,
    TENANT_MAP,
    log_name,
)
from argosy.registry.transaction import Append, CountUp, Upsert, Write

ALERT_PART = 0.8  # of maxmemory: the document's advice for an alert
MAXMEMORY_MIN_BYTES = 100_000_000  # for a small fleet; canaries, sinks and retention only grow
INDEX_ENTRY = 50  # bytes that the document adds for a listed row


@dataclass(frozen=True)
class Estimate:
    """The document's estimate of one row, and the most that a row may take here."""

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
TOTAL_MAX_BYTES = {100: 1_000_000, 1000: 1_200_000}  # by the number of runs retained per canary


@dataclass(frozen=True, order=True)
class TableMemory:
    """Memory of one table on the server, with its indexes."""

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
    """One measurement. `total_bytes` is the growth of the server's `used_memory`; the tables are a part of it."""

    server: str
    runs: int
    tables: tuple[TableMemory, ...]
    total_bytes: int
    maxmemory_bytes: int  # 0: no limit is set

    @property
    def overhead_bytes(self) -> int:
        """Memory of no table: the change feed, the lists of logs and counters, and the server's own structures."""
        return self.total_bytes - sum(table.bytes for table in self.tables)

    @property
    def estimated_bytes(self) -> int:
        return sum(table.estimated_bytes or 0 for table in self.tables)

    @property
    def is_within_budget(self) -> bool:
        budget = TOTAL_MAX_BYTES.get(self.runs)
        return (budget is None or self.total_bytes <= budget) and all(each.is_within_ceiling for each in self.tables)


def advice(report: MemoryReport) -> str:
    """What to configure and when to alert, in one or two sentences."""
    limit = report.maxmemory_bytes
    if not limit:
        return (
            f"no maxmemory is set: set one of {megabytes(MAXMEMORY_MIN_BYTES)} or more with the policy noeviction, "
            f"and alert when used_memory passes {ALERT_PART:.0%} of it"
        )
    alert = int(limit * ALERT_PART)
    share = f"the sample data set takes {report.total_bytes / limit:.1%}"
    return f"alert when used_memory passes {megabytes(alert)}, {ALERT_PART:.0%} of maxmemory; {share}"


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f}".removesuffix(".00") + " MB"


COLUMNS = ("table", "rows", "bytes/row", "bytes", "document", "ceiling/row", "ok")


def to_rows(report: MemoryReport) -> list[tuple[object, ...]]:
    """The report as rows under `COLUMNS`."""
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
        for each in report.tables
    ]
    rows.append(("overhead", None, None, report.overhead_bytes, None, None, True))
    budget = TOTAL_MAX_BYTES.get(report.runs)
    is_ok = budget is None or report.total_bytes <= budget
    rows.append(("all", None, None, report.total_bytes, report.estimated_bytes, None, is_ok))
    return rows


def to_json(report: MemoryReport) -> dict[str, object]:
    return {
        "server": report.server,
        "runs_per_canary": report.runs,
        "total_bytes": report.total_bytes,
        "budget_bytes": TOTAL_MAX_BYTES.get(report.runs),
        "document_bytes": report.estimated_bytes,
        "overhead_bytes": report.overhead_bytes,
        "maxmemory_bytes": report.maxmemory_bytes,
        "ok": report.is_within_budget,
        "advice": advice(report),
        "tables": [
            {
                "table": table.name,
                "rows": table.rows,
                "bytes": table.bytes,
                "bytes_per_row": round(table.bytes_per_row, 1),
                "document_bytes": table.estimated_bytes,
                "ok": table.is_within_ceiling,
            }
            for table in report.tables
        ],
    }


# -- the sample data set ----------------------------------------------------------------------------------------------


INDEXES, NODES, PODS = 10, 5, 5
TASKS_COUNT, JOBS_COUNT, ALIASES_COUNT = 1000, 100, 50
SESSIONS_COUNT, ADMIN_SESSIONS_COUNT, IDEMPOTENCY_COUNT, RATES_COUNT = 100, 50, 500, 1000
CANARIES_COUNT, TENANTS_COUNT, POLICIES_COUNT = 10, 100, 20
RUNS_PER_CANARY = 100  # the default; the document's 1000 is the stress case

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def sample_writes(now: int, *, runs_per_canary: int = RUNS_PER_CANARY) -> Iterator[Write]:
    """The writes of the sample data set, to be committed in any grouping; `now` in milliseconds since 1970.

    It is the load of the design document: 1000 tasks, 100 sessions, 10 canaries with their runs, 1000 rate-limited
    addresses. The contents are natural: ids as long as real ones, errors on the few rows that have them. It is the same
    every time, so that two measurements differ only in what was measured.
    """
    yield from _tasks(now)
    yield from _of_indexes(now)
    yield from _of_clients(now)
    yield from _jobs(now)
    yield from _canaries(now, runs_per_canary)
    yield from _configuration(now)


def _tasks(now: int) -> Iterator[Write]:
    for n in range(TASKS_COUNT):
        status = TaskStatus.SUCCEEDED if n % 20 else TaskStatus.FAILED
        if n >= TASKS_COUNT - 30:
            status = TaskStatus.PROCESSING if n % 2 else TaskStatus.ENQUEUED
        created_at = now - (TASKS_COUNT - n) * MINUTE_MS
        has_started = status is not TaskStatus.ENQUEUED
        row = ControlTask(
            _task_id(n),
            n + 1,
            created_at,
            status,
            {_node(node): str(40_000 + 3 * n + node) for node in range(3)},
            {_node(n % 3): "index_not_found"} if status is TaskStatus.FAILED else {},
            _index(n % INDEXES),
            "index_update",
            error="1 of 3 nodes failed" if status is TaskStatus.FAILED else None,
            started_at=created_at + 120 if has_started else None,
            finished_at=created_at + 1950 if status.is_terminal else None,
        )
        yield Upsert(TASKS, row)


def _of_indexes(now: int) -> Iterator[Write]:
    for n in range(INDEXES):
        index = _index(n)
        for node in range(NODES):
            yield Upsert(NODE_SETTINGS_VERSION, NodeSettingsVersion(index, _node(node), 17 + n, now - n * HOUR_MS))
        yield Upsert(CDC_CURSORS, CdcCursor("warehouse", index, 120_000 + n, now))
        config = {"title": f"Search {index}", "placeholder": "Type to search", "facets": ["lang", "repo"]}
        yield Upsert(SEARCH_UI_CONFIG, SearchUiConfig(index, config, now))
        yield Upsert(SCOPED_KEYS, ScopedKey(index, _id("key", n), _id("key", n + 100), now, 4))
        for pod in range(PODS):
            yield Upsert(SCOPED_KEYS_OBSERVED, ScopedKeyObserved(_pod(pod), index, 4, now, now + MINUTE_MS))


def _of_clients(now: int) -> Iterator[Write]:
    for n in range(SESSIONS_COUNT):
        ends = now + 15 * MINUTE_MS + n
        pinned = {_index(n % INDEXES): 1}
        yield Upsert(SESSIONS, ClientSession(_uuid("session", n), _task_id(n), now - 900, pinned, 17, ends))
    for n in range(ADMIN_SESSIONS_COUNT):
        session = AdminSession(
            _id("admin", n),
            _hash("csrf", n).hex()[:32],
            _hash("admin key", n % 3).hex(),
            now,
            now + HOUR_MS + n,
            user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Firefox/128.0",
            source_ip=_address(n),
        )
        yield Upsert(ADMIN_SESSIONS, session)
    for n in range(IDEMPOTENCY_COUNT):
        entry = IdempotencyEntry(
            _uuid("request", n), _hash("body", n), IdempotencyState.DONE, _task_id(n), now + DAY_MS + n
        )
        yield Upsert(IDEMPOTENCY_CACHE, entry)
    for n in range(RATES_COUNT):
        yield CountUp(log_name(SEARCH_UI_RATE, _address(n)), MINUTE_MS)


def _jobs(now: int) -> Iterator[Write]:
    for n in range(JOBS_COUNT):
        is_running = n % 2 == 0
        row = ControlJob(
            _id("job", n),
            "dump_import",
            {"index": _index(n % INDEXES), "source": f"s3://dumps/{n:04}.ndjson", "offset": n << 28},
            ControlJobState.IN_PROGRESS if is_running else ControlJobState.QUEUED,
            due(0, now - n),
            now - n,
            claimed_by=_pod(n % PODS) if is_running else None,
            claim_expires_at=now + 30_000 if is_running else None,
            fence=int(is_running),
            attempts=int(is_running),
            progress={"bytes_processed": n << 20, "docs_routed": n * 1000} if is_running else {},
        )
        yield Upsert(JOBS, row)


def _canaries(now: int, runs: int) -> Iterator[Write]:
    for n in range(CANARIES_COUNT):
        canary_id = _id("canary", n)
        assertions = ('{"type":"min_hits","value":3}', '{"type":"max_p95_ms","value":250}')
        query = {"q": "needle in a haystack", "limit": 20}
        yield Upsert(CANARIES, Canary(canary_id, f"canary-{n}", _index(n), 60, query, assertions, True, now))
        for run in range(runs):
            is_good = run % 50
            canary_run = CanaryRun(
                now - run * MINUTE_MS,
                RunStatus.PASS if is_good else RunStatus.FAIL,
                12 + run % 40,
                None if is_good else {"min_hits": 2},
            )
            yield Append(log_name(CANARY_RUNS_LOG, canary_id), encode_run(canary_run), keep=runs)


def _configuration(now: int) -> Iterator[Write]:
    for n in range(ALIASES_COUNT):
        uid = f"{_index(n % INDEXES)}-v{n}"
        before = f'{{"current_uid":"{uid}-old","target_uids":[],"version":1,"timestamp":{now}}}'
        yield Upsert(ALIASES, IndexAlias(f"alias-{n:03}", AliasKind.SINGLE, uid, (), now - n, (before,)))
    for n in range(TENANTS_COUNT):
        yield Upsert(TENANT_MAP, Tenant(_hash("api key", n).hex(), f"tenant-{n:04}", n % 3, now - n))
    for n in range(POLICIES_COUNT):
        policy = RolloverPolicy(
            f"policy-{n:02}",
            f"logs-{n:02}-write",
            f"logs-{n:02}",
            f"logs-{n:02}-{{YYYY-MM-DD}}",
            {"max_docs": 10_000_000, "max_age": "7d", "max_size_gb": 50},
            {"keep_indexes": 30},
            {"primary_key": "id", "settings_ref": f"logs-{n:02}"},
            True,
        )
        yield Upsert(ROLLOVER_POLICIES, policy)
    yield Upsert(LEADER_LEASE, LeaderLease("pruner:task_ttl", _pod(0), now + 10_000, 12, now))


def _hash(kind: str, n: int) -> bytes:
    return sha256(f"{kind} {n}".encode()).digest()


def _task_id(n: int) -> str:
    """Tasks are named by their numbers."""
    return f"task-{n + 1}"


def _id(kind: str, n: int) -> str:
    """An id of the control plane: 26 characters, like a ULID."""
    return b32encode(_hash(kind, n)).decode()[:26]


def _uuid(kind: str, n: int) -> str:
    """An id that a client has generated."""
    text = _hash(kind, n).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"


def _index(n: int) -> str:
    return f"products-{n:02}"


def _node(n: int) -> str:
    return f"node-{n}"


def _pod(n: int) -> str:
    return f"argosy-7c9d5b6f4-{_hash('pod', n).hex()[:5]}"


def _address(n: int) -> str:
    return f"203.0.{n // 250}.{n % 250}"
