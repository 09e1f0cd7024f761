"""One real broker process on a directory: authentication, durability across a restart, and exclusive use."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import grpc
import pytest

from argosy.jobs.api import argosy_jobs_pb2 as api
from argosy.jobs.silo import silo_pb2 as silo
from argosy.jobs.web.http import TENANT_HEADER
from tests.journeys.fleet import eventually
from tests.journeys.jobs_node import Node

TOKEN, ACME_KEY = "token-of-the-broker", "key-of-acme-only"
START_S, STOP_S = 60, 30


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Node]]:
    settings = {
        "jobs_url": f"file://{tmp_path}/jobs",
        "jobs_shards": "2",
        "jobs_grpc_port": "0",
        "jobs_with_tenants": "true",
        "jobs_tokens": TOKEN,
        "jobs_tenant_keys": f"acme={ACME_KEY}",
        "node_port": "0",
        "log_format": "json",
    }
    started: list[Node] = []

    def start_node(name: str) -> Node:
        started.append(Node(name, tmp_path, settings))
        return started[-1]

    yield start_node
    for node in started:
        node.kill()


async def call(node: Node, method: str, request: object, response: object, token: str | None) -> object:
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    async with grpc.aio.insecure_channel(node.address() or "") as channel:
        stub = channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )
        return await stub(request, timeout=5.0, metadata=metadata)


async def enqueue(node: Node, tenant: str, token: str | None) -> api.EnqueueResult:
    job = api.NewJob(tenant=tenant, id="kept", task_group="g")
    request = api.EnqueueBatchRequest(jobs=[job])
    answer = await call(node, "/argosy.jobs.v1.Jobs/EnqueueBatch", request, api.EnqueueBatchResponse, token)
    return answer.results[0]


def is_served(node: Node) -> bool:
    async def shard_count() -> int:
        info = await call(node, "/silo.v1.Silo/GetNodeInfo", silo.GetNodeInfoRequest(), silo.GetNodeInfoResponse, TOKEN)
        return len(info.owned_shards)

    return node.address() is not None and asyncio.run(shard_count()) == 2


def rejection_code(node: Node, tenant: str, token: str | None) -> str:
    """The status code of a rejected enqueue, of the call or of its item."""
    try:
        return asyncio.run(enqueue(node, tenant, token)).error.code
    except grpc.aio.AioRpcError as answer:
        return answer.code().name


def get_over_http(node: Node, headers: dict[str, str]) -> tuple[int, bytes]:
    lines = [json.loads(line) for line in node.log.read_text().splitlines() if line.startswith("{")]
    connection = HTTPConnection(next(line["address"] for line in lines if line["event"] == "node up"), timeout=10)
    try:
        connection.request("GET", "/v1/jobs/kept", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.timeout(180)
def test_a_process_serves_authenticated_clients_and_its_jobs_survive_a_restart(start: Callable[[str], Node]) -> None:
    first = start("first")
    eventually(lambda: is_served(first), within_s=START_S, what="two shards are served")
    assert rejection_code(first, "acme", None) == "UNAUTHENTICATED"
    assert rejection_code(first, "acme", "a-wrong-token") == "UNAUTHENTICATED"
    assert rejection_code(first, "other", ACME_KEY) == "PERMISSION_DENIED"
    assert asyncio.run(enqueue(first, "acme", ACME_KEY)).id == "kept"

    headers = {"authorization": f"Bearer {ACME_KEY}", TENANT_HEADER: "acme"}
    assert get_over_http(first, headers)[0] == 200
    assert get_over_http(first, {})[0] == 401

    rival = start("rival")
    assert rival.process.wait(START_S) != 0
    assert "in use by another process" in rival.log.read_text()

    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(STOP_S) == 0
    second = start("second")
    eventually(lambda: is_served(second), within_s=START_S, what="two shards are served again")
    request = api.GetJobRequest(tenant="acme", id="kept")
    job = asyncio.run(call(second, "/argosy.jobs.v1.Jobs/GetJob", request, api.Job, TOKEN))
    assert job.job.status == silo.JOB_STATUS_SCHEDULED


def test_an_invalid_storage_url_is_reported_at_startup(tmp_path: Path) -> None:
    environ = {**os.environ, "ARGOSY_JOBS_URL": "ftp://nowhere", "ARGOSY_NODE_PORT": "0"}
    command = [sys.executable, "-m", "tests.journeys.jobs_process"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode != 0
    assert "for shards: use memory" in done.stderr
