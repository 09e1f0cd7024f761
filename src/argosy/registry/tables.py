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

# A row for each: tasks are updated one by one, from several nodes at once. The order is the number and not the time of
# creation, because numbers are unique and need no clock.
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
# Read per index by every request that needs a minimum version, so the nodes of one index are together.
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
# Expiring rows need keys of their own. The order of expiry is the order of use, by which sessions are evicted.
SESSIONS = Table(
    "sessions",
    ClientSession,
    ("session_id",),
    TableLayout.ROW,
    "sessions of clients that read their own writes",
    (TableIndex("all", order="expires_at"),),
    "expires_at",
)
# Up to a million rows that are only read by key: one small value each, without any index.
IDEMPOTENCY_CACHE = Table(
    "idempotency_cache",
    IdempotencyEntry,
    ("key",),
    TableLayout.VALUE,
    "results of idempotent requests",
    (),
    "expires_at",
)
# `state` is the queue, `claims` finds expired leases, `finished` is for pruning. A finished job gives up its dedupe
# key.
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
# One row per scope, and few scopes.
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
# The cursors of one sink are read together.
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
# Every node lists the whole catalog; a repository is found by URL when one is added.
REPOSITORIES = Table(
    "repositories",
    RepositoryRow,
    ("repo_id",),
    TableLayout.PACKED,
    "the catalog: repositories to serve",
    (TableIndex("all", order="added_at"), TableIndex("url", ("url",), is_unique=True)),
)
# `busy` has only operations that have not ended (see `busy_scope`), so it allows one at a time for each scope.
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
# Only the existence of a row matters, and it expires: the smallest layout is enough.
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
# A row for each gateway and index, because reports expire one by one.
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
