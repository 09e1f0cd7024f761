"""The numbers of the job broker, declared once, with the reason for each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from argosy.base.settings import setting
from argosy.jobs.cluster.shardmap import SHARDS_MAX
from argosy.jobs.model import LEASE_MS
from argosy.ownership.settings import OwnershipSettings

if TYPE_CHECKING:
    from argosy.jobs.model import ShardOptions

SPACE = "shards"  # of ownership: the units are shards
EMBEDDED = "embedded"
DAY_MS = 86_400_000


@dataclass(frozen=True)
class JobsSettings:
    """The job broker: where jobs are kept, how long, who may ask, and how its nodes share the work."""

    SECTION: ClassVar[str] = "jobs"

    url: str = setting(
        "file://{data}/jobs",
        doc="where jobs are kept: file:///FOLDER, s3://BUCKET/PREFIX, memory:// (gone with the process); "
        "all nodes of a cluster name the same place",
    )
    shards: int = setting(8, min=1, max=SHARDS_MAX, doc="shards of a cluster that begins; later they are only split")
    with_tenants: bool = setting(False, doc="callers name their tenant with every request; otherwise they must not")
    lease_ms: int = setting(
        LEASE_MS, min=100, max=DAY_MS, doc="a worker that is silent for this long is taken for crashed"
    )
    retention_ms: int = setting(
        7 * DAY_MS, min=0, doc="how long a job is kept when it is done, unless it says so itself; 0 keeps it for ever"
    )
    limits: str = setting(
        EMBEDDED,
        doc="who counts rate limits: embedded (each node for itself), redis[s]:// (all nodes together), "
        "grpc[s]:// or http[s]:// (a Gubernator)",
    )
    dev_mode: bool = setting(False, doc="allow that all jobs are forgotten at once, which tests of clients want")

    grpc_host: str = setting("127.0.0.1", doc="address to listen on for gRPC")
    grpc_port: int = setting(7450, min=0, max=65535, doc="port for gRPC; 0 takes a free one")
    grpc_address: str | None = setting(None, doc="what other nodes and clients are told; by default host:port")
    tokens: tuple[str, ...] = setting((), secret=True, doc="bearer tokens of those who may call; none lets everybody")
    tenant_keys: tuple[str, ...] = setting(
        (), secret=True, doc="bearer tokens that may touch one tenant only, each written TENANT=TOKEN"
    )
    tls_cert: str | None = setting(None, doc="file with the server's certificate chain; turns TLS on")
    tls_key: str | None = setting(None, doc="file with its key")
    tls_client_ca: str | None = setting(None, doc="file with the authority whose client certificates are demanded")

    ttl_s: float = setting(10.0, min=0.5, max=3600, doc="a crashed node's shards are free after this long")
    renew_s: float = setting(2.0, min=0.05, doc="how often a node says that it lives")
    handover_wait_s: float = setting(
        0.5, min=0, max=60, doc="after a change of nodes old owners wait this long, so that new ones are already trying"
    )
    quiesce_s: float = setting(1.0, min=0, max=60, doc="time for calls in flight before a leaving node lets go")
    reopen_s: float = setting(1.0, min=0.05, max=60, doc="a shard whose storage failed is opened anew after this long")
    map_s: float = setting(2.0, min=0.1, max=60, doc="how often the map of shards is looked at")

    def check(self) -> Iterable[str]:
        if self.renew_s * 3 > self.ttl_s:
            yield f"renew_s ({self.renew_s}) must leave three tries within ttl_s ({self.ttl_s})"
        if bool(self.tls_cert) != bool(self.tls_key):
            yield "tls_cert and tls_key belong together: set both or neither"
        if self.tls_client_ca and not self.tls_cert:
            yield "tls_client_ca needs tls_cert and tls_key"
        if any("=" not in key.strip("=") for key in self.tenant_keys):
            yield "tenant_keys are written TENANT=TOKEN"

    def ownership(self, shared: OwnershipSettings) -> OwnershipSettings:
        """How shards are owned: in the fleet's store, on the ring, with this role's own timing."""
        return replace(
            shared,
            space=SPACE,
            placement="ring",
            ttl_s=self.ttl_s,
            renew_s=self.renew_s,
            handoff_wait_s=self.handover_wait_s,
            quiesce_s=self.quiesce_s,
            window_s=self.reopen_s,
            catalog_s=self.map_s,
        )

    def options(self) -> "ShardOptions":
        from argosy.jobs.model import ShardOptions  # with the whole shard, which commands need not load

        return ShardOptions(lease_ms=self.lease_ms, retention_ms=self.retention_ms)
