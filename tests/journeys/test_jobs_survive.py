"""Three real nodes on a real etcd and a real S3, under load: one is killed, one is stopped past its TTL, one joins, a
shard is split, etcd is restarted. At the end every acknowledged job is done (JOB-1), none ever ran under two live
leases (JOB-2), and no limit was exceeded (JOB-3)."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from argosy.jobs.silo import silo_pb2 as silo
from tests.journeys.jobs_load import BATCH, LIMIT, Cluster, Load
from tests.journeys.jobs_node import Node
from tests.journeys.serving_log import intervals, overlaps
from tests.servers.etcd import Etcd
from tests.servers.s3 import S3

JOBS = int(os.environ.get("ARGOSY_TEST_JOBS", "2000"))  # more for the long run
TENANTS = [f"tenant-{number}" for number in range(20)]
WORKERS = 3
TTL_S = 3.0
SHARDS = 4
LOOK_S = 0.1
PACE_S = max(0.05, 16 / (JOBS / BATCH))  # about as long as the failures last


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    with Etcd() as server:
        yield server


@pytest.fixture
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


class Fleet:
    def __init__(self, etcd: Etcd, s3: S3, folder: Path) -> None:
        self._folder = folder
        self.nodes: dict[str, Node] = {}
        self.settings = {
            "ownership_store": etcd.url,
            "jobs_url": f"{s3.url}/jobs",
            "jobs_shards": str(SHARDS),
            "jobs_with_tenants": "true",
            "jobs_grpc_port": "0",
            "jobs_ttl_s": str(TTL_S),
            "jobs_renew_s": "0.7",
            "jobs_lease_ms": "6000",
            "jobs_store_s3_endpoint": s3.endpoint,
            "jobs_store_s3_access_key_id": "test-id",
            "jobs_store_s3_secret_access_key": "test-secret",
            "node_port": "0",
            "log_format": "json",
            "log_level": "debug",
        }

    def start(self, *names: str) -> None:
        for name in names:
            self.nodes[name] = Node(name, self._folder, self.settings)

    def owners(self, info: silo.GetClusterInfoResponse | None) -> set[str]:
        """Empty unless every shard has an owner."""
        owners = {owner.node_id for owner in info.shard_owners} if info else set()
        return set() if "" in owners else owners


@pytest.fixture
def fleet(etcd: Etcd, s3: S3, tmp_path: Path) -> Iterator[Fleet]:
    new_fleet = Fleet(etcd, s3, tmp_path)
    try:
        yield new_fleet
    finally:
        for node in new_fleet.nodes.values():
            node.kill()


async def wait_until(is_reached: Callable[[], Awaitable[bool]], what: str, *, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not await is_reached():
        assert time.monotonic() < deadline, f"timed out after {within_s} s: {what}"
        await asyncio.sleep(LOOK_S)


async def wait_owned_by(fleet: Fleet, cluster: Cluster, names: set[str], *, shards: int) -> None:
    async def is_reached() -> bool:
        info = await cluster.info()
        owners = fleet.owners(info)
        return bool(owners) and owners <= names and info is not None and len(info.shard_owners) >= shards

    await wait_until(is_reached, f"{shards} shards are owned by {names}")


async def inject_failures(fleet: Fleet, cluster: Cluster, etcd: Etcd, load: Load, last: asyncio.Event) -> int:
    """Inject every failure; return how many jobs were acknowledged before the last one."""
    nodes = fleet.nodes
    nodes["a"].kill()
    await wait_owned_by(fleet, cluster, {"b", "c"}, shards=SHARDS)

    nodes["b"].process.send_signal(signal.SIGSTOP)
    await wait_owned_by(fleet, cluster, {"c"}, shards=SHARDS)
    nodes["b"].process.send_signal(signal.SIGCONT)

    fleet.start("d")
    await wait_joined(cluster, nodes["d"])

    info = await cluster.info()
    assert info is not None
    await split(cluster, info.shard_owners[0].shard_id)
    await wait_owned_by(fleet, cluster, {"b", "c", "d"}, shards=SHARDS + 1)

    acknowledged = len(load.auditor.acknowledged)
    last.set()
    etcd.kill()
    etcd.start()
    await wait_owned_by(fleet, cluster, {"b", "c", "d"}, shards=SHARDS + 1)
    return acknowledged


async def wait_joined(cluster: Cluster, node: Node) -> None:
    async def is_reached() -> bool:
        if (address := node.address()) is None:
            return False
        cluster.known = list(dict.fromkeys([*cluster.known, address]))
        info = await cluster.info()
        return info is not None and node.name in {member.node_id for member in info.members}

    await wait_until(is_reached, f"{node.name} is a member")


async def split(cluster: Cluster, shard_id: str) -> None:
    """Request the split from the current owner until one accepts: from then on it completes despite failures."""
    is_promised = False

    async def is_done() -> bool:
        nonlocal is_promised
        info = await cluster.info()
        if info is None:
            return False
        owner = next((each for each in info.shard_owners if each.shard_id == shard_id), None)
        if not is_promised and owner is not None and owner.grpc_addr:
            request = silo.RequestSplitRequest(shard_id=shard_id, split_point=_middle(owner))
            with suppress(cluster.Refused):  # the shard has moved
                await cluster.call(owner.grpc_addr, "/silo.v1.Silo/RequestSplit", request, silo.RequestSplitResponse)
                is_promised = True
        return owner is None

    await wait_until(is_done, f"shard {shard_id} is split")


def _middle(owner: silo.ShardOwner) -> str:
    end = int(owner.range_end, 16) if owner.range_end else 1 << 64
    return f"{(int(owner.range_start or '0', 16) + end) // 2:016x}"


@pytest.mark.timeout(240 + JOBS // 50)
async def test_no_job_is_lost_run_twice_or_over_its_limit_during_failures(fleet: Fleet, etcd: Etcd) -> None:
    fleet.start("a", "b", "c")
    cluster = Cluster([])
    for node in list(fleet.nodes.values()):
        await wait_joined(cluster, node)
    await wait_owned_by(fleet, cluster, {"a", "b", "c"}, shards=SHARDS)
    load = Load(cluster, JOBS, TENANTS)
    workers = [asyncio.ensure_future(load.work(f"worker-{number}")) for number in range(WORKERS)]
    try:
        last = asyncio.Event()
        _, before_the_last = await asyncio.gather(
            load.enqueue_all(PACE_S, last), inject_failures(fleet, cluster, etcd, load, last)
        )

        async def is_done() -> bool:
            for worker in workers:
                assert not worker.done(), worker.exception()
            return load.done >= load.auditor.acknowledged.keys()

        await wait_until(is_done, "every job is reported done")
        statuses = await load.statuses()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await cluster.close()
    assert 0 < before_the_last < JOBS  # the trouble did come while jobs came in
    assert len(statuses) == JOBS
    assert set(statuses.values()) == {silo.JOB_STATUS_SUCCEEDED}
    assert load.auditor.overlapping_runs() == []
    assert max(load.auditor.max_concurrent().values()) <= LIMIT
    served = intervals([node.log for node in fleet.nodes.values()])
    assert len(served) == SHARDS + 2  # the parent of the split, too
    assert overlaps(served) == []  # OWN-1
