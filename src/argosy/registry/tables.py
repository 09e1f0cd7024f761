"""All tables of the registry. Backends, reference pages, export and the memory report are driven by this list."""

from typing import Any

from argosy.registry.column_checks import check_key_part
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
from argosy.registry.table import Table, TableIndex, TableLayout

TASKS = Table(
    "tasks",
    ControlTask,
    ("task_id",),
    TableLayout.ROW,
    "one public id for what a fan-out started on many nodes",
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
    "how fresh each node's settings are",
    (TableIndex("family", ("index_uid",)),),
)
ALIASES = Table(
    "aliases",
    IndexAlias,
    ("name",),
    TableLayout.ROW,
    "names that move between indexes",
    (TableIndex("all", order="created_at"),),
)
SESSIONS = Table(
    "sessions",
    ClientSession,
    ("session_id",),
    TableLayout.ROW,
    "clients that read their own writes",
    (TableIndex("all", order="expires_at"),),
    "expires_at",
)
IDEMPOTENCY_CACHE = Table(
    "idempotency_cache", IdempotencyEntry, ("key",), TableLayout.VALUE, "requests that act once", (), "expires_at"
)
JOBS = Table(
    "jobs",
    ControlJob,
    ("job_id",),
    TableLayout.ROW,
    "background work of the control plane",
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
    "who leads what",
    (TableIndex("all", order="acquired_at"),),
)
CANARIES = Table(
    "canaries",
    Canary,
    ("canary_id",),
    TableLayout.PACKED,
    "searches that must keep their answers",
    (TableIndex("all", order="created_at"), TableIndex("name", ("name",), is_unique=True)),
)
CDC_CURSORS = Table(
    "cdc_cursors",
    CdcCursor,
    ("sink_name", "index_uid"),
    TableLayout.FAMILY,
    "how far each sink has come",
    (TableIndex("family", ("sink_name",)),),
)
TENANT_MAP = Table(
    "tenant_map",
    Tenant,
    ("api_key_hash",),
    TableLayout.PACKED,
    "which group serves a key",
    (TableIndex("all", order="added_at"),),
)
ROLLOVER_POLICIES = Table(
    "rollover_policies", RolloverPolicy, ("name",), TableLayout.PACKED, "when an index makes way", (TableIndex("all"),)
)
SEARCH_UI_CONFIG = Table(
    "search_ui_config",
    SearchUiConfig,
    ("index_uid",),
    TableLayout.PACKED,
    "how the search page looks",
    (TableIndex("all"),),
)
ADMIN_SESSIONS = Table(
    "admin_sessions",
    AdminSession,
    ("session_id",),
    TableLayout.ROW,
    "who is logged in",
    (TableIndex("all", order="expires_at"), TableIndex("key", ("admin_key_hash",), "expires_at")),
    "expires_at",
)
REPOSITORIES = Table(
    "repositories",
    RepositoryRow,
    ("repo_id",),
    TableLayout.PACKED,
    "what should be searchable",
    (TableIndex("all", order="added_at"), TableIndex("url", ("url",), is_unique=True)),
)
OPERATIONS = Table(
    "operations",
    ControlOperation,
    ("operation_id",),
    TableLayout.ROW,
    "long changes and how far they have come",
    (
        TableIndex("all", order="created_at"),
        TableIndex("scope", ("scope",), "created_at"),
        TableIndex("status", ("status",), "updated_at"),
        TableIndex("busy", ("busy_scope",), is_unique=True),
    ),
)
TTL_POLICIES = Table(
    "ttl_policies", TtlPolicy, ("index_uid",), TableLayout.PACKED, "what expires", (TableIndex("all"),)
)
BEACONS = Table(
    "beacons", BeaconSeen, ("index_uid", "event_id"), TableLayout.VALUE, "page events already counted", (), "expires_at"
)
LOGIN_BACKOFF = Table(
    "ratelimit:adminlogin:backoff",
    LoginBackoff,
    ("source_ip",),
    TableLayout.ROW,
    "addresses that failed to log in",
    (),
    "expires_at",
)
SCOPED_KEYS = Table(
    "search_ui_scoped_key", ScopedKey, ("index_uid",), TableLayout.PACKED, "search keys in force", (TableIndex("all"),)
)
SCOPED_KEYS_OBSERVED = Table(
    "search_ui_scoped_key_observed",
    ScopedKeyObserved,
    ("pod_id", "index_uid"),
    TableLayout.ROW,
    "which key each pod last used",
    (TableIndex("all", order="observed_at"), TableIndex("index", ("index_uid",), "observed_at")),
    "expires_at",
)
LIVE_PODS = Table(
    "live_pods",
    LivePod,
    ("pod_id",),
    TableLayout.PACKED,
    "gateways that are alive",
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

# Not rows but logs and counters; see `program`. A part in <> is a key of its own.
CANARY_RUNS_LOG = "canary_runs:<canary_id>"
CDC_OVERFLOW_LOG = "cdc:overflow:<sink>"
CDC_SEQUENCE = "cdc_seq:<index_uid>"
TASK_SEQUENCE = "task_uid"
SEARCH_UI_RATE = "ratelimit:searchui:<ip>"
ADMIN_LOGIN_RATE = "ratelimit:adminlogin:<ip>"
REVOKED_CHANNEL = "admin_session:revoked"


def log_name(template: str, part: str) -> str:
    """The name of one log or counter; a colon inside the part is escaped, so that no two names can be the same."""
    check_key_part(template, part)
    head, _, _ = template.partition("<")
    return head + part.replace("%", "%25").replace(":", "%3A")
