"""All tables of the registry, declared once: backends, docs, export and the memory page read nothing else."""

from typing import Any

from argosy.registry.column_checks import check_key_part
from argosy.registry.rows import (
    AdminSession,
    Alias,
    BeaconSeen,
    Canary,
    CdcCursor,
    ControlJob,
    ControlTask,
    IdempotencyEntry,
    LeaderLease,
    LivePod,
    LoginBackoff,
    NodeSettingsVersion,
    Operation,
    Repository,
    RolloverPolicy,
    ScopedKey,
    ScopedKeyObserved,
    SearchUiConfig,
    Session,
    Tenant,
    TtlPolicy,
)
from argosy.registry.table import Index, Layout, Table

TASKS = Table(
    "tasks",
    ControlTask,
    ("task_id",),
    Layout.ROW,
    "one public id for what a fan-out started on many nodes",
    (
        Index("all", order="task_uid"),
        Index("status", ("status",), "task_uid"),
        Index("index", ("index_uid",), "task_uid"),
    ),
)
NODE_SETTINGS_VERSION = Table(
    "node_settings_version",
    NodeSettingsVersion,
    ("index_uid", "node_id"),
    Layout.FAMILY,
    "how fresh each node's settings are",
    (Index("family", ("index_uid",)),),
)
ALIASES = Table(
    "aliases", Alias, ("name",), Layout.ROW, "names that move between indexes", (Index("all", order="created_at"),)
)
SESSIONS = Table(
    "sessions",
    Session,
    ("session_id",),
    Layout.ROW,
    "clients that read their own writes",
    (Index("all", order="expires_at"),),
    "expires_at",
)
IDEMPOTENCY_CACHE = Table(
    "idempotency_cache", IdempotencyEntry, ("key",), Layout.VALUE, "requests that act once", (), "expires_at"
)
JOBS = Table(
    "jobs",
    ControlJob,
    ("job_id",),
    Layout.ROW,
    "background work of the control plane",
    (
        Index("all", order="created_at"),
        Index("state", ("state",), "due"),
        Index("claims", ("state",), "claim_expires_at"),
        Index("finished", ("state",), "finished_at"),
        Index("parent", ("parent_job_id",), "chunk_index"),
        Index("dedupe", ("dedupe_key",), is_unique=True),
    ),
)
LEADER_LEASE = Table(
    "leader_lease", LeaderLease, ("scope",), Layout.PACKED, "who leads what", (Index("all", order="acquired_at"),)
)
CANARIES = Table(
    "canaries",
    Canary,
    ("canary_id",),
    Layout.PACKED,
    "searches that must keep their answers",
    (Index("all", order="created_at"), Index("name", ("name",), is_unique=True)),
)
CDC_CURSORS = Table(
    "cdc_cursors",
    CdcCursor,
    ("sink_name", "index_uid"),
    Layout.FAMILY,
    "how far each sink has come",
    (Index("family", ("sink_name",)),),
)
TENANT_MAP = Table(
    "tenant_map",
    Tenant,
    ("api_key_hash",),
    Layout.PACKED,
    "which group serves a key",
    (Index("all", order="added_at"),),
)
ROLLOVER_POLICIES = Table(
    "rollover_policies", RolloverPolicy, ("name",), Layout.PACKED, "when an index makes way", (Index("all"),)
)
SEARCH_UI_CONFIG = Table(
    "search_ui_config", SearchUiConfig, ("index_uid",), Layout.PACKED, "how the search page looks", (Index("all"),)
)
ADMIN_SESSIONS = Table(
    "admin_sessions",
    AdminSession,
    ("session_id",),
    Layout.ROW,
    "who is logged in",
    (Index("all", order="expires_at"), Index("key", ("admin_key_hash",), "expires_at")),
    "expires_at",
)
REPOSITORIES = Table(
    "repositories",
    Repository,
    ("repo_id",),
    Layout.PACKED,
    "what should be searchable",
    (Index("all", order="added_at"), Index("url", ("url",), is_unique=True)),
)
OPERATIONS = Table(
    "operations",
    Operation,
    ("operation_id",),
    Layout.ROW,
    "long changes and how far they have come",
    (
        Index("all", order="created_at"),
        Index("scope", ("scope",), "created_at"),
        Index("status", ("status",), "updated_at"),
        Index("busy", ("busy_scope",), is_unique=True),
    ),
)
TTL_POLICIES = Table("ttl_policies", TtlPolicy, ("index_uid",), Layout.PACKED, "what expires", (Index("all"),))
BEACONS = Table(
    "beacons", BeaconSeen, ("index_uid", "event_id"), Layout.VALUE, "page events already counted", (), "expires_at"
)
LOGIN_BACKOFF = Table(
    "ratelimit:adminlogin:backoff",
    LoginBackoff,
    ("source_ip",),
    Layout.ROW,
    "addresses that failed to log in",
    (),
    "expires_at",
)
SCOPED_KEYS = Table(
    "search_ui_scoped_key", ScopedKey, ("index_uid",), Layout.PACKED, "search keys in force", (Index("all"),)
)
SCOPED_KEYS_OBSERVED = Table(
    "search_ui_scoped_key_observed",
    ScopedKeyObserved,
    ("pod_id", "index_uid"),
    Layout.ROW,
    "which key each pod last used",
    (Index("all", order="observed_at"), Index("index", ("index_uid",), "observed_at")),
    "expires_at",
)
LIVE_PODS = Table(
    "live_pods", LivePod, ("pod_id",), Layout.PACKED, "gateways that are alive", (Index("all", order="seen_at"),)
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


def named(template: str, part: str) -> str:
    """The name of one log or counter; a colon inside the part is escaped, so that no two names can be the same."""
    check_key_part(template, part)
    head, _, _ = template.partition("<")
    return head + part.replace("%", "%25").replace(":", "%3A")
