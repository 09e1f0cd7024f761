"""All tables of the registry. Backends, reference pages, export and the memory report work from this list."""

from typing import Any

from argosy.registry.rows import (
    AdminSession,
    BeaconSeen,
    Canary,
    CdcCursor,
    ClientSession,
    ControlJob,
    ControlOperation,
    ControlTask,
    IdempotencyEntry,
    IndexAlias,
    LeaderLease,
    LivePod,
    LoginBackoff,
    NodeSettingsVersion,
    RepositoryRow,
    RolloverPolicy,
    ScopedKey,
    ScopedKeyObserved,
    SearchUiConfig,
    Tenant,
    TtlPolicy,
)
from argosy.registry.table import Table, TableIndex, TableLayout, check_key_part

TASKS = Table(
    "tasks",
    ControlTask,
    ("task_id",),
    TableLayout.ROW,
    "tasks of a fan-out: one public id for the tasks that it started on many nodes",
    (
        TableIndex("all", order="task_uid"),
        TableIndex("status", ("status",), "task_uid"),
        TableIndex("index", ("index_uid",), "task_uid"),
    ),
)
NODE_SETTINGS_VERSION = Table(
    "node_settings_version",
    NodeSettingsVersion,
    ("index_uid", "node_id"),
    TableLayout.FAMILY,
    "version of the settings that each node has applied",
    (TableIndex("family", ("index_uid",)),),
)
ALIASES = Table(
    "aliases",
    IndexAlias,
    ("name",),
    TableLayout.ROW,
    "alias names and the indexes that they point to",
    (TableIndex("all", order="created_at"),),
)
SESSIONS = Table(
    "sessions",
    ClientSession,
    ("session_id",),
    TableLayout.ROW,
    "sessions of clients that read their own writes",
    (TableIndex("all", order="expires_at"),),
    "expires_at",
)
IDEMPOTENCY_CACHE = Table(
    "idempotency_cache",
    IdempotencyEntry,
    ("key",),
    TableLayout.VALUE,
    "results of idempotent requests",
    (),
    "expires_at",
)
JOBS = Table(
    "jobs",
    ControlJob,
    ("job_id",),
    TableLayout.ROW,
    "background jobs of the control plane",
    (
        TableIndex("all", order="created_at"),
        TableIndex("state", ("state",), "due"),
        TableIndex("claims", ("state",), "claim_expires_at"),
        TableIndex("finished", ("state",), "finished_at"),
        TableIndex("parent", ("parent_job_id",), "chunk_index"),
        TableIndex("dedupe", ("dedupe_key",), is_unique=True),
    ),
)
LEADER_LEASE = Table(
    "leader_lease",
    LeaderLease,
    ("scope",),
    TableLayout.PACKED,
    "leader of each scope",
    (TableIndex("all", order="acquired_at"),),
)
CANARIES = Table(
    "canaries",
    Canary,
    ("canary_id",),
    TableLayout.PACKED,
    "canaries: searches with expected results",
    (TableIndex("all", order="created_at"), TableIndex("name", ("name",), is_unique=True)),
)
CDC_CURSORS = Table(
    "cdc_cursors",
    CdcCursor,
    ("sink_name", "index_uid"),
    TableLayout.FAMILY,
    "position of each change-data-capture sink",
    (TableIndex("family", ("sink_name",)),),
)
TENANT_MAP = Table(
    "tenant_map",
    Tenant,
    ("api_key_hash",),
    TableLayout.PACKED,
    "group that serves each API key",
    (TableIndex("all", order="added_at"),),
)
ROLLOVER_POLICIES = Table(
    "rollover_policies",
    RolloverPolicy,
    ("name",),
    TableLayout.PACKED,
    "policies that roll an index over to a new one",
    (TableIndex("all"),),
)
SEARCH_UI_CONFIG = Table(
    "search_ui_config",
    SearchUiConfig,
    ("index_uid",),
    TableLayout.PACKED,
    "configuration of the search page",
    (TableIndex("all"),),
)
ADMIN_SESSIONS = Table(
    "admin_sessions",
    AdminSession,
    ("session_id",),
    TableLayout.ROW,
    "admin login sessions",
    (TableIndex("all", order="expires_at"), TableIndex("key", ("admin_key_hash",), "expires_at")),
    "expires_at",
)
REPOSITORIES = Table(
    "repositories",
    RepositoryRow,
    ("repo_id",),
    TableLayout.PACKED,
    "the catalog: repositories to serve",
    (TableIndex("all", order="added_at"), TableIndex("url", ("url",), is_unique=True)),
)
OPERATIONS = Table(
    "operations",
    ControlOperation,
    ("operation_id",),
    TableLayout.ROW,
    "long operations and their progress",
    (
        TableIndex("all", order="created_at"),
        TableIndex("scope", ("scope",), "created_at"),
        TableIndex("status", ("status",), "updated_at"),
        TableIndex("busy", ("busy_scope",), is_unique=True),
    ),
)
TTL_POLICIES = Table(
    "ttl_policies", TtlPolicy, ("index_uid",), TableLayout.PACKED, "TTL policies of documents", (TableIndex("all"),)
)
BEACONS = Table(
    "beacons",
    BeaconSeen,
    ("index_uid", "event_id"),
    TableLayout.VALUE,
    "page events that are counted already",
    (),
    "expires_at",
)
LOGIN_BACKOFF = Table(
    "ratelimit:adminlogin:backoff",
    LoginBackoff,
    ("source_ip",),
    TableLayout.ROW,
    "addresses with failed logins, and their back-off",
    (),
    "expires_at",
)
SCOPED_KEYS = Table(
    "search_ui_scoped_key", ScopedKey, ("index_uid",), TableLayout.PACKED, "current search keys", (TableIndex("all"),)
)
SCOPED_KEYS_OBSERVED = Table(
    "search_ui_scoped_key_observed",
    ScopedKeyObserved,
    ("pod_id", "index_uid"),
    TableLayout.ROW,
    "key that each pod used last",
    (TableIndex("all", order="observed_at"), TableIndex("index", ("index_uid",), "observed_at")),
    "expires_at",
)
LIVE_PODS = Table(
    "live_pods",
    LivePod,
    ("pod_id",),
    TableLayout.PACKED,
    "live gateways",
    (TableIndex("all", order="seen_at"),),
)

TABLES: tuple[Table[Any], ...] = (
    TASKS,
    NODE_SETTINGS_VERSION,
    ALIASES,
    SESSIONS,
    IDEMPOTENCY_CACHE,
    JOBS,
    LEADER_LEASE,
    CANARIES,
    CDC_CURSORS,
    TENANT_MAP,
    ROLLOVER_POLICIES,
    SEARCH_UI_CONFIG,
    ADMIN_SESSIONS,
    REPOSITORIES,
    OPERATIONS,
    TTL_POLICIES,
    BEACONS,
    LOGIN_BACKOFF,
    SCOPED_KEYS,
    SCOPED_KEYS_OBSERVED,
    LIVE_PODS,
)

# Logs and counters, which are not rows; see `transaction`. Each value of the part in <> is one log or counter.
CANARY_RUNS_LOG = "canary_runs:<canary_id>"
CDC_OVERFLOW_LOG = "cdc:overflow:<sink>"
CDC_SEQUENCE = "cdc_seq:<index_uid>"
TASK_SEQUENCE = "task_uid"
SEARCH_UI_RATE = "ratelimit:searchui:<ip>"
ADMIN_LOGIN_RATE = "ratelimit:adminlogin:<ip>"
REVOKED_CHANNEL = "admin_session:revoked"


def log_name(template: str, part: str) -> str:
    """The name of one log or counter. A colon inside the part is escaped, so that two parts never give one name."""
    check_key_part(template, part)
    head, _, _ = template.partition("<")
    return head + part.replace("%", "%25").replace(":", "%3A")
