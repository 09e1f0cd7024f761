"""The node's routes, called as by a client, in one process."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from starlette.applications import Starlette

from argosy.app.roles.hold import NoWorkload, StaticCatalog
from argosy.base.clock import SystemClock, seeded_random
from argosy.base.http import EXCEPTION_HANDLERS
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.http import ownership_routes
from argosy.ownership.model import Space, Unit
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings

SETTINGS = OwnershipSettings(claim_jitter_s=0.0, window_s=0.5)


@dataclass(frozen=True)
class Plenty:
    def free_bytes(self) -> int:
        return 1 << 40


@dataclass(frozen=True)
class Reply:
    status: int
    body: dict
    headers: dict[str, str]


async def request(web: Starlette, method: str, path: str, **headers: str) -> Reply:
    """One request, straight into the application: no socket, no thread."""
    sent: list[dict] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive() -> dict:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict) -> None:
        sent.append(message)

    await web(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], json.loads(body), found)


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.fixture
async def node() -> AsyncIterator[OwnershipNode]:
    store = MemoryOwnershipStore(Space("repos", is_auctioned=True), clock=SystemClock(), random=seeded_random(1))
    catalog = StaticCatalog(["a/b", "c"])
    node = OwnershipNode(
        store, catalog, NoWorkload(), Plenty(), node_id="n1", address="10.0.0.1:6070", settings=SETTINGS
    )
    running = asyncio.ensure_future(node.run())
    await until(lambda: node.holds(Unit("a/b")) and node.holds(Unit("c")))
    yield node
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def web(node: OwnershipNode, admin_token: str | None = None) -> Starlette:
    return Starlette(routes=ownership_routes(node, admin_token=admin_token), exception_handlers=EXCEPTION_HANDLERS)


async def test_scale_reports_to_an_autoscaler_how_many_nodes_to_have(node: OwnershipNode) -> None:
    reply = await request(web(node), "GET", "/scale")
    assert reply.status == 200
    assert (reply.body["desired_nodes"], reply.body["current_nodes"]) == (1, 1)


async def test_a_held_unit_with_slashes_in_its_name_is_answered(node: OwnershipNode) -> None:
    reply = await request(web(node), "GET", "/v1/units/a/b")
    assert (reply.status, reply.body["unit"], reply.body["node"]) == (200, "a/b", "n1")
    assert "token" not in reply.body


async def test_a_unit_held_by_no_node_is_not_owned(node: OwnershipNode) -> None:
    reply = await request(web(node), "GET", "/v1/units/elsewhere")
    assert (reply.status, reply.body["error"]["kind"]) == (421, "NotOwner")


async def test_a_name_that_cannot_be_is_rejected_as_the_callers_mistake(node: OwnershipNode) -> None:
    reply = await request(web(node), "GET", "/v1/units/a\x00b")
    assert (reply.status, reply.body["error"]["kind"]) == (400, "Invalid")


async def test_leases_and_members_are_listed(node: OwnershipNode) -> None:
    leases = (await request(web(node), "GET", "/v1/leases")).body
    members = (await request(web(node), "GET", "/v1/members")).body
    assert [row["unit"] for row in leases["leases"]] == ["a/b", "c"]
    assert [row["node"] for row in members["members"]] == ["n1"]
    assert leases["has_synced"]


async def test_drain_is_closed_without_a_token_and_needs_the_right_one(node: OwnershipNode) -> None:
    assert (await request(web(node), "POST", "/v1/drain", authorization="Bearer ")).status == 403
    assert (await request(web(node, "s3cret"), "POST", "/v1/drain")).status == 401
    assert (await request(web(node, "s3cret"), "POST", "/v1/drain", authorization="Bearer other")).status == 401
    assert node.holds(Unit("c"))
    assert (await request(web(node, "s3cret"), "POST", "/v1/drain", authorization="Bearer s3cret")).status == 202
    await until(lambda: not node.own_leases())
    assert not node.holds(Unit("c"))
