"""The SDK against two real processes on a real etcd, one of which is killed: every job still completes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy.jobs import JobsClient, RetryPolicy, Worker
from tests.journeys.jobs_node import Node
from tests.servers.etcd import Etcd

JOBS = 120
SHARDS = "16"  # ids are random: with fewer shards, one of two nodes may get none
TENANTS = [f"tenant-{number}" for number in range(10)]
RECONCILE_S = 0.05
PATIENCE_S = 60.0


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    with Etcd() as etcd:
        settings = {
            "ownership_store": etcd.url,
            "jobs_url": (tmp_path / "jobs").as_uri(),
            "jobs_shards": SHARDS,
            "jobs_with_tenants": "true",
            "jobs_grpc_port": "0",
            "jobs_ttl_s": "2",
            "jobs_renew_s": "0.5",
            "jobs_lease_ms": "3000",
            "node_port": "0",
            "log_format": "json",
        }
        started = [Node(name, tmp_path, settings) for name in ("a", "b")]
        try:
            yield started
        finally:
            for node in started:
                node.kill()


async def addresses(nodes: list[Node]) -> list[str]:
    while True:
        known = [address for node in nodes if (address := node.address())]
        if len(known) == len(nodes):
            return known
        await asyncio.sleep(RECONCILE_S)


async def owners(client: JobsClient, wanted: set[str]) -> None:
    while True:
        if {place.node for place in await client.shards()} == wanted:
            return
        await asyncio.sleep(RECONCILE_S)


async def test_a_killed_node_loses_no_job(nodes: list[Node]) -> None:
    async with asyncio.timeout(PATIENCE_S), JobsClient.connect(*await addresses(nodes)) as client:
        await owners(client, {"a", "b"})
        worker = Worker(client, concurrency=16, poll_s=0.5)
        done: list[int] = []

        @worker.handler("number")
        async def number(payload: int) -> int:
            done.append(payload)
            if len(done) == JOBS // 3:
                nodes[0].kill()
            return payload

        working = asyncio.ensure_future(worker.run())
        bound = asyncio.Semaphore(8)

        async def put(at: int) -> int:
            async with bound:
                handle = await client.enqueue("number", at, tenant=TENANTS[at % 10], retry=RetryPolicy(5))
                result: int = await handle.result()
                return result

        results = await asyncio.gather(*(put(at) for at in range(JOBS)))
        assert results == list(range(JOBS))
        assert nodes[0].process.poll() is not None
        await owners(client, {"b"})
        worker.stop()
        await working
        assert set(done) == set(range(JOBS))
