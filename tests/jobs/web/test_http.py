"""Jobs over HTTP and JSON, on a node with real shards, called in process."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from argosy.base.errors import NotOwner, Unavailable
from argosy.jobs import JobsClient
from argosy.jobs.rpc.call_context import Access
from argosy.jobs.sdk.links import GrpcLinks
from argosy.jobs.sdk.local_links import LocalLink, LocalLinks
from argosy.jobs.sdk.router import ShardRouter
from argosy.jobs.web import http
from argosy.jobs.web.http import jobs_routes
from tests.jobs.rpc.stage import HERE, Node, open_stage

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@asynccontextmanager
async def web(**options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Node]]:
    node = Node()
    await node.start()
    node.address = "here:1"
    client = JobsClient.over(LocalLinks(LocalLink(node, **options), node.address, GrpcLinks()), (node.address,))
    application = Starlette(routes=jobs_routes(client))
    try:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as session:
            yield session, node
    finally:
        await client.close()
        await node.close()


@pytest.fixture
async def session() -> AsyncIterator[httpx.AsyncClient]:
    async with web() as (new_client, _):
        yield new_client


async def test_a_job_is_enqueued_leased_and_its_result_read(session: httpx.AsyncClient) -> None:
    put = await session.post(
        "/v1/jobs", json={"task_group": "mail", "payload": {"to": "ada"}, "id": "a/b 1"}, headers={"traceparent": TRACE}
    )
    assert (put.status_code, put.json()) == (201, {"id": "a/b 1"})
    early = await session.get("/v1/jobs/a%2Fb 1/result")
    assert (early.status_code, early.json()) == (202, {"id": "a/b 1", "status": "scheduled"})
    leased = await session.post("/v1/tasks/lease", json={"task_group": "mail", "worker": "w", "max_tasks": 5})
    [task] = leased.json()["tasks"]
    assert (task["job"], task["payload"], task["attempt"], task["trace"]) == ("a/b 1", {"to": "ada"}, 1, TRACE)
    beat = {"worker": "w", "tasks": [{"task": task["task"], "progress": 50}, {"task": "other"}]}
    beats = (await session.post("/v1/tasks/heartbeat", json=beat)).json()["results"]
    assert beats[0] == {"id": task["task"], "cancelled_at_ms": None}
    assert beats[1]["error"]["status"] == 404
    assert (await session.get("/v1/jobs/a%2Fb 1")).json()["progress"] == 50
    report = {"worker": "w", "outcomes": [{"task": task["task"], "success": {"sent": True}}]}
    assert (await session.post("/v1/tasks/report", json=report)).json() == {"results": [{"id": task["task"]}]}
    done = await session.get("/v1/jobs/a%2Fb 1/result")
    assert (done.status_code, done.json()) == (200, {"id": "a/b 1", "status": "succeeded", "result": {"sent": True}})


async def test_many_jobs_have_results_in_order(session: httpx.AsyncClient) -> None:
    jobs = [{"task_group": "mail", "id": "one"}, {"task_group": "mail", "id": "one"}, {"task_group": ""}]
    results = (await session.post("/v1/jobs", json=jobs)).json()["results"]
    assert results[0] == {"id": "one"}
    assert [result["error"]["status"] for result in results[1:]] == [409, 400]
    again = await session.post("/v1/jobs", json=jobs[0])
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "Conflict")


async def test_every_option_of_a_job_is_accepted(session: httpx.AsyncClient) -> None:
    job_fields = {
        "task_group": "mail",
        "id": "all",
        "priority": 3,
        "metadata": {"k": "v"},
        "unique_key": "u",
        "retention_ms": 5,
        "retry": {"retry_count": 2, "initial_interval_ms": 10},
        "limits": [
            {"kind": "concurrency", "key": "c", "max_concurrency": 1},
            {"kind": "rate", "name": "r", "unique_key": "u", "limit": 5, "duration_ms": 1000},
            {"kind": "floating", "key": "f", "default_max_concurrency": 2, "refresh_interval_ms": 1000},
        ],
    }
    assert (await session.post("/v1/jobs", json=job_fields)).status_code == 201
    shown = (await session.get("/v1/jobs/all?attempts=1")).json()
    assert (shown["priority"], shown["metadata"], shown["attempts"]) == (3, {"k": "v"}, [])


async def test_bytes_are_returned_in_base64(session: httpx.AsyncClient) -> None:
    raw = base64.b64encode(b"\xc1\xff").decode()
    await session.post("/v1/jobs", json={"task_group": "mail", "id": "raw", "payload_base64": raw})
    shown = (await session.get("/v1/jobs/raw")).json()
    assert shown["payload_base64"] == raw
    assert "payload" not in shown


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "task_group"),
        (b"{", "invalid request body"),
        (b'{"task_group": "mail", "colour": 1}', "colour"),
        (b'{"task_group": "mail", "payload": 1, "payload_base64": "AAAA"}', "not both"),
        (b'{"task_group": "mail", "limits": [{"kind": "none"}]}', "none"),
        (b'{"task_group": "mail", "priority": 100}', "priority must lie between 0 and 99; got 100"),
        (b'{"task_group": "mail", "priority": -1}', "priority must lie between 0 and 99; got -1"),
        (b'{"task_group": "mail", "retry": {"retry_count": -1}}', "retry_count must lie between 0 and 4294967295"),
        (b'{"task_group": "mail", "retry": {"max_interval_ms": -1}}', "max_interval_ms must lie between 0 and"),
        (b'{"task_group": "mail", "retention_ms": -1}', "retention_ms must lie between 0 and"),
        (
            b'{"task_group": "mail", "limits": [{"kind": "concurrency", "key": "a", "max_concurrency": -1}]}',
            "max_concurrency must lie between 1 and 4294967295; got -1",
        ),
        (b"[" + b",".join([b'{"task_group":"m"}'] * 1001) + b"]", "1000"),
    ],
)
async def test_an_invalid_job_body_is_reported(session: httpx.AsyncClient, body: bytes, message: str) -> None:
    answer = await session.post("/v1/jobs", content=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


async def test_a_body_is_bounded(session: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_BYTES_MAX", 100)
    answer = await session.post("/v1/jobs", json={"task_group": "mail", "payload": "x" * 100})
    assert answer.status_code == 400
    assert "100 bytes" in answer.json()["error"]["message"]


async def test_jobs_are_controlled_and_found(session: httpx.AsyncClient) -> None:
    for at in range(3):
        await session.post("/v1/jobs", json={"task_group": "mail", "id": f"j-{at}", "metadata": {"p": str(at % 2)}})
    assert (await session.post("/v1/jobs/j-0/cancel")).status_code == 200
    again = await session.post("/v1/jobs/j-0/cancel")
    assert (again.status_code, again.json()["error"]["message"]) == (409, "j-0: job is already cancelled")
    matches = (await session.get("/v1/jobs?status=cancelled")).json()["jobs"]
    assert [each["id"] for each in matches] == ["j-0"]
    matches = (await session.get("/v1/jobs?metadata=p:0&limit=10")).json()["jobs"]
    assert {each["id"] for each in matches} == {"j-0", "j-2"}
    assert (await session.get("/v1/jobs/j-0/result")).json()["status"] == "cancelled"
    assert (await session.post("/v1/jobs/j-0/restart")).status_code == 200
    assert (await session.post("/v1/jobs/j-0/expedite")).status_code == 409
    assert (await session.delete("/v1/jobs/j-0")).status_code == 409
    await session.post("/v1/jobs/j-0/cancel")
    assert (await session.delete("/v1/jobs/j-0")).status_code == 204
    missing = await session.get("/v1/jobs/j-0")
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "j-0: job not found")


@pytest.mark.parametrize("query", ["status=odd", "metadata=p"])
async def test_an_invalid_query_is_rejected(session: httpx.AsyncClient, query: str) -> None:
    assert (await session.get(f"/v1/jobs?{query}")).status_code == 400


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "1.5", "many", ""])
async def test_a_page_has_one_to_a_thousand_jobs(session: httpx.AsyncClient, limit: str) -> None:
    await session.post("/v1/jobs", json={"task_group": "mail"})
    answer = await session.get(f"/v1/jobs?limit={limit}")
    assert answer.status_code == 400
    assert "between 1 and 1000" in answer.json()["error"]["message"]


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_one_to_a_thousand_dead_letters_are_requeued_at_once(session: httpx.AsyncClient, limit: int) -> None:
    answer = await session.post("/v1/jobs/requeue", json={"limit": limit})
    assert answer.status_code == 400
    assert "limit must lie between 1 and 1000" in answer.json()["error"]["message"]


async def test_an_invalid_job_of_many_has_its_error_in_order(session: httpx.AsyncClient) -> None:
    jobs = [{"task_group": "mail", **each} for each in ({"id": "a"}, {"priority": -1}, {"id": "c"})]
    first, second, third = (await session.post("/v1/jobs", json=jobs)).json()["results"]
    assert (first, third) == ({"id": "a"}, {"id": "c"})
    assert (second["error"]["status"], "priority" in second["error"]["message"]) == (400, True)


async def test_a_failed_job_has_its_error_and_can_be_requeued(session: httpx.AsyncClient) -> None:
    await session.post("/v1/jobs", json={"task_group": "mail", "id": "dead"})
    leased = await session.post("/v1/tasks/lease", json={"task_group": "mail", "worker": "w"})
    [task] = leased.json()["tasks"]
    outcomes = [{"task": task["task"], "failure": {"code": "BAD", "data": "why"}}]
    await session.post("/v1/tasks/report", json={"worker": "w", "outcomes": outcomes})
    result = await session.get("/v1/jobs/dead/result?wait_s=1")
    assert result.json() == {"id": "dead", "status": "failed", "error": {"code": "BAD", "data": "why"}}
    assert [each["id"] for each in (await session.get("/v1/jobs?dead=1")).json()["jobs"]] == ["dead"]
    assert (await session.post("/v1/jobs/dead/requeue")).status_code == 200
    assert (await session.post("/v1/jobs/dead/requeue")).status_code == 409
    assert (await session.post("/v1/jobs/requeue")).json() == {"results": []}


@pytest.mark.parametrize(
    "outcome", [{}, {"success": 1, "cancelled": True}, {"failure": {"code": "x"}, "success": None}]
)
async def test_an_outcome_has_exactly_one_kind(session: httpx.AsyncClient, outcome: dict[str, object]) -> None:
    answer = await session.post("/v1/tasks/report", json={"worker": "w", "outcomes": [{"task": "t", **outcome}]})
    assert answer.status_code == 400
    assert "one of success, failure, cancelled" in answer.json()["error"]["message"]


async def test_a_poll_waits_for_a_job_and_skips_an_unreachable_node(session: httpx.AsyncClient) -> None:
    """The map names a second node, which is unreachable."""
    lease = {"task_group": "mail", "worker": "w", "wait_s": 20}
    waiting = asyncio.ensure_future(session.post("/v1/tasks/lease", json=lease))
    await session.post("/v1/jobs", json={"task_group": "mail", "id": "j"})
    assert [task["job"] for task in (await waiting).json()["tasks"]] == ["j"]
    empty = await session.post("/v1/tasks/lease", json={**lease, "wait_s": 0})
    assert (empty.status_code, empty.json()) == (200, {"tasks": []})


async def test_a_poll_over_the_bounds_is_rejected(session: httpx.AsyncClient) -> None:
    for job_fields in ({"max_tasks": 101}, {"wait_s": 61}, {"max_tasks": 0}):
        answer = await session.post("/v1/tasks/lease", json={"task_group": "mail", "worker": "w", **job_fields})
        assert answer.status_code == 400


async def test_schedules_are_created_listed_and_deleted_over_http(session: httpx.AsyncClient) -> None:
    job_fields = {"cron": "*/5 * * * *", "job": {"task_group": "mail", "payload": [1]}}
    assert (await session.put("/v1/schedules/often", json=job_fields)).status_code == 200
    [shown] = (await session.get("/v1/schedules")).json()["schedules"]
    assert (shown["name"], shown["cron"], shown["payload"]) == ("often", "*/5 * * * *", [1])
    assert (await session.put("/v1/schedules/bad", json={**job_fields, "cron": "whenever"})).status_code == 400
    low = await session.put("/v1/schedules/bad", json={**job_fields, "job": {"task_group": "mail", "priority": -1}})
    assert (low.status_code, "priority" in low.json()["error"]["message"]) == (400, True)
    assert (await session.delete("/v1/schedules/often")).status_code == 204
    assert (await session.get("/v1/schedules")).json() == {"schedules": []}


async def test_shards_are_listed(session: httpx.AsyncClient) -> None:
    shards = (await session.get("/v1/shards")).json()["shards"]
    assert [each["address"] for each in shards] == ["here:1", "here:1", "127.0.0.1:9"]


async def test_tokens_and_tenants_are_those_of_the_caller() -> None:
    access = Access(["whole-broker"], {"key-of-tenant-0": "tenant-0"})
    async with web(with_tenants=True, access=access) as (session, _):
        job = {"task_group": "mail", "id": "j"}
        key, tenant = {"authorization": "Bearer key-of-tenant-0"}, {"x-argosy-tenant": "tenant-0"}
        assert (await session.post("/v1/jobs", json=job)).status_code == 401
        assert (await session.post("/v1/jobs", json=job, headers=key)).status_code == 400
        assert (await session.post("/v1/jobs?tenant=customer-123", json=job, headers=key)).status_code == 403
        assert (await session.post("/v1/jobs", json=job, headers=key | tenant)).status_code == 201
        lease = {"task_group": "mail", "worker": "w"}
        assert (await session.post("/v1/tasks/lease", json=lease, headers=key)).status_code == 403
        whole = {"authorization": "Bearer whole-broker"}
        [task] = (await session.post("/v1/tasks/lease", json=lease, headers=whole)).json()["tasks"]
        outcomes = [{"task": task["task"], "tenant": task["tenant"], "success": None}]
        reported = await session.post("/v1/tasks/report", json={"worker": "w", "outcomes": outcomes}, headers=whole)
        assert reported.json() == {"results": [{"id": task["task"]}]}
        done = await session.get("/v1/jobs/j?tenant=tenant-0", headers=key)
        assert done.json()["status"] == "succeeded"


async def test_calls_for_another_nodes_shard_are_routed_there() -> None:
    async with web() as (session, node), open_stage() as other:
        node.failures[HERE] = NotOwner("it left", hint=other.address)
        assert (await session.post("/v1/jobs", json={"task_group": "mail", "id": "there"})).status_code == 201
        assert [view.job.id for view in await other.node.shards[HERE].find("-")] == ["there"]
        assert (await session.get("/v1/jobs/there")).json()["status"] == "scheduled"


async def test_an_unavailable_shard_is_503_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    async with web() as (session, node):
        node.failures[HERE] = Unavailable("shard not ready: acquisition in progress")
        monkeypatch.setattr(ShardRouter, "_pause", _no_pause)
        answer = await session.get("/v1/jobs/x")
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1


async def _no_pause(*_: object) -> None:
    """Retry at once."""
