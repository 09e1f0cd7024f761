"""Settings of the job broker (`jobs.*`), and of the store of its shards (`jobs_store.*`)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from argosy.base.settings import setting
from argosy.jobs.cluster.shard_map import SHARDS_MAX
from argosy.jobs.model import LEASE_MS
from argosy.ownership.settings import OwnershipSettings

if TYPE_CHECKING:
    from argosy.jobs.model import ShardOptions

SPACE = "shards"  # ownership's space: its units are shards
EMBEDDED = "embedded"
DAY_MS = 86_400_000


@dataclass(frozen=True)
class JobsSettings:
    """The job broker: where jobs are stored and for how long, who has access, and how its nodes share the work."""

    SECTION: ClassVar[str] = "jobs"

    url: str = setting(
        "file://{data}/jobs",
        doc="where jobs are stored: file:///DIRECTORY, s3://BUCKET/PREFIX or memory:// (lost with the process); the "
        "same for all nodes of a cluster",
    )
    # silo's number. More shards spread a small cluster's load better; each costs idle CPU and memory.
    shards: int = setting(8, min=1, max=SHARDS_MAX, doc="shards of a new cluster; afterwards shards are only split")
    with_tenants: bool = setting(False, doc="require a tenant in every request; otherwise requests must not name one")
    lease_ms: int = setting(
        LEASE_MS, min=100, max=DAY_MS, doc="a worker without heartbeats for this long is considered crashed"
    )
    retention_ms: int = setting(
        7 * DAY_MS, min=0, doc="how long finished jobs are kept, unless the job sets it; 0: without end"
    )
    limits: str = setting(
        EMBEDDED,
        doc="where rate limits are counted: embedded (per node), redis[s]:// (shared by all nodes), grpc[s]:// or "
        "http[s]:// (a Gubernator)",
    )
    dev_mode: bool = setting(False, doc="allow ResetShards, which deletes all jobs; for tests of clients")

    grpc_host: str = setting("127.0.0.1", doc="address to listen on for gRPC")
    # silo's port, so that its clients' default address works.
    grpc_port: int = setting(7450, min=0, max=65535, doc="port for gRPC; 0 selects a free port")
    grpc_address: str | None = setting(None, doc="address announced to other nodes and clients; default: host:port")
    tokens: tuple[str, ...] = setting((), secret=True, doc="accepted bearer tokens; without any, calls need none")
    tenant_keys: tuple[str, ...] = setting(
        (), secret=True, doc="bearer tokens limited to one tenant, each written TENANT=TOKEN"
    )
    tls_cert: str | None = setting(None, doc="file with the server's certificate chain; enables TLS")
    tls_key: str | None = setting(None, doc="file with the server's private key")
    tls_client_ca: str | None = setting(None, doc="file with the authority of required client certificates")

    # The design asks for leases of about 10 s, renewed every 2 s.
    ttl_s: float = setting(10.0, min=0.5, max=3600, doc="leases of a crashed node expire after this long")
    renew_s: float = setting(2.0, min=0.05, doc="interval of lease renewals")
    handoff_wait_s: float = setting(
        0.5,
        min=0,
        max=60,
        doc="wait after a membership change before releasing shards: new owners already try",
    )
    quiesce_s: float = setting(1.0, min=0, max=60, doc="time for calls in progress before a draining node releases")
    reopen_s: float = setting(1.0, min=0.05, max=60, doc="delay before a shard whose storage failed is reopened")
    map_s: float = setting(2.0, min=0.1, max=60, doc="interval between reads of the shard map")

    def check(self) -> Iterable[str]:
        if self.renew_s * 3 > self.ttl_s:  # one lost renewal must not end every shard of a node
            yield f"renew_s ({self.renew_s}) must leave three tries within ttl_s ({self.ttl_s})"
        if bool(self.tls_cert) != bool(self.tls_key):
            yield "tls_cert and tls_key must be set together"
        if self.tls_client_ca and not self.tls_cert:
            yield "tls_client_ca requires tls_cert and tls_key"
        if any("=" not in key.strip("=") for key in self.tenant_keys):
            yield "tenant_keys must be written TENANT=TOKEN"

    def ownership(self, shared: OwnershipSettings) -> OwnershipSettings:
        """Ownership of shards: in the fleet's store, placed by the ring, with this role's own timing."""
        return replace(
            shared,
            space=SPACE,
            placement="ring",
            ttl_s=self.ttl_s,
            renew_s=self.renew_s,
            handoff_wait_s=self.handoff_wait_s,
            quiesce_s=self.quiesce_s,
            window_s=self.reopen_s,
            catalog_s=self.map_s,
        )

    def options(self) -> "ShardOptions":
        from argosy.jobs.model import ShardOptions

        return ShardOptions(lease_ms=self.lease_ms, retention_ms=self.retention_ms)


@dataclass(frozen=True)
class ShardStoreSettings:
    """Storage of the shards: durability, memory and S3."""

    SECTION: ClassVar[str] = "jobs_store"

    fsync: str = setting(
        "always",
        choices=("always", "never"),
        doc="file:// only: always acknowledges a write after fsync; never acknowledges it before, which is faster and "
        "loses up to 30 s of writes on power loss",
    )
    durable_s_max: float = setting(
        10.0, min=0.1, doc="a shard whose writes are not durable after this long is closed and reopened"
    )
    read_s_max: float = setting(10.0, min=0.1, doc="timeout of reading a row")
    open_s_max: float = setting(60.0, min=0.1, doc="timeout of opening a shard, which replays its last writes")
    # One cache for the process: SlateDB's own default is one per database, and a node has many.
    cache_bytes: int = setting(64 << 20, min=0, doc="memory of cached blocks, shared by all shards of the process")
    # Half of SlateDB's default: a node has several shards, each with such a buffer.
    l0_bytes: int = setting(
        32 << 20,
        min=1 << 20,
        doc="rows buffered in memory before they are written as a table; a larger buffer makes writes faster, and "
        "reopening after a crash slower",
    )
    unflushed_bytes_max: int = setting(
        256 << 20, min=8 << 20, doc="unflushed bytes of one shard above which writes wait"
    )
    wal_retention_s: float = setting(60.0, min=1, doc="retention of a WAL file after its rows are in a table")
    s3_endpoint: str = setting(
        "",
        doc="endpoint of an S3-compatible store, http[s]://HOST:PORT; by default AWS_ENDPOINT_URL_S3 or "
        "AWS_ENDPOINT_URL",
    )
    s3_region: str = setting("", doc="by default AWS_REGION, else us-east-1")
    s3_access_key_id: str = setting("", doc="by default AWS_ACCESS_KEY_ID, else the role of the machine")
    s3_secret_access_key: str = setting("", doc="by default AWS_SECRET_ACCESS_KEY", secret=True)
    s3_session_token: str = setting("", doc="by default AWS_SESSION_TOKEN", secret=True)
    s3_probe: str = setting(
        "always",
        choices=("always", "never"),
        doc="always rejects an S3 store that ignores If-None-Match, where two writers would overwrite each other; "
        "never skips the check",
    )

    def check(self) -> Iterable[str]:
        if self.unflushed_bytes_max < 2 * self.l0_bytes:
            # While a table is written out, the next one fills: with less room every flush would stop the writes.
            yield f"unflushed_bytes_max must be at least twice l0_bytes ({self.l0_bytes})"
        if bool(self.s3_access_key_id) != bool(self.s3_secret_access_key):
            yield "s3_access_key_id and s3_secret_access_key must be set together"
