"""The assigner's own API: announcements in both forms, its pages, and what needs the admin token."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp
import pytest

from argosy.ipni.assigner.http import assigner_app
from argosy.ipni.assigner.service import AssignerService
from argosy.ipni.formats.head import encode_announcement, encode_announcement_json
from tests.ipni.assigner.doubles import Double, Stage, announcement, peer, serving, stage

P1 = peer("p1")
ADMIN = {"authorization": "Bearer sesame"}


class AssignerClient:
    """An assigner behind a real server, and a client of it."""

    def __init__(self, url: str, session: aiohttp.ClientSession, service: AssignerService, it: Stage) -> None:
        self.url = url
        self.session = session
        self.service = service
        self.it = it
        self.reloads = 0

    async def put(self, path: str, body: bytes, content_type: str = "application/octet-stream") -> tuple[int, str]:
        headers = {"content-type": content_type}
        async with self.session.put(self.url + path, data=BytesIO(body), headers=headers) as answer:
            text = await answer.text()
        await self.service.wait_idle()
        return answer.status, text

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.url + path) as answer:
            return answer.status, await answer.text()

    async def json(self, path: str) -> dict[str, list[dict[str, object]]]:
        async with self.session.get(self.url + path) as answer:
            found: dict[str, list[dict[str, object]]] = await answer.json()
            return found

    async def post(self, path: str, headers: dict[str, str]) -> int:
        async with self.session.post(self.url + path, headers=headers) as answer:
            await self.service.wait_idle()
            return answer.status

    async def reload(self) -> None:
        self.reloads += 1


@asynccontextmanager
async def assigner_client(*doubles: Double, **rest: object) -> AsyncIterator[AssignerClient]:
    async with stage(*doubles) as it, aiohttp.ClientSession() as session:
        service = await it.assigner(it.configuration(**rest))  # type: ignore[arg-type]
        client = AssignerClient("", session, service, it)
        app = assigner_app(service, admin_token="sesame", reload=client.reload, version="1.2")
        async with serving(app) as url:
            client.url = url
            yield client


@pytest.mark.parametrize("path", ["/announce", "/ingest/announce"])
@pytest.mark.parametrize("form", ["cbor", "json", "json with a charset"])
async def test_announcements_come_as_cbor_and_as_json(path: str, form: str) -> None:
    """A trap: the reference's assigner reads CBOR alone, whatever the content type."""
    only = Double("0")
    async with assigner_client(only) as it:
        if form == "cbor":
            answer = await it.put(path, encode_announcement(announcement("p1")))
        else:
            kind = "application/json" + ("; charset=utf-8" if "charset" in form else "")
            answer = await it.put(path, encode_announcement_json(announcement("p1")), kind)
        assert answer == (204, "")
        assert set(only.allowed) == {P1}
        assert only.announced == [announcement("p1")]


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"{}", b"\x83", bytes((1 << 20) + 1)],
    ids=["nothing", "noise", "json", "cut off", "too long"],
)
async def test_an_invalid_announcement_is_rejected_in_plain_text(body: bytes) -> None:
    async with assigner_client(Double("0")) as it:
        status, text = await it.put("/announce", body)
        assert status == 400
        assert text.endswith("\n")
        assert not text.startswith("{")


async def test_a_publisher_blocked_by_policy_gets_an_error() -> None:
    async with assigner_client(Double("0"), exceptions=frozenset({P1})) as it:
        status, text = await it.put("/announce", encode_announcement(announcement("p1")))
        assert (status, "policy" in text) == (403, True)


async def test_only_put_is_allowed_for_announcements() -> None:
    async with assigner_client() as it, it.session.post(it.url + "/announce") as answer:
        assert (answer.status, answer.headers["allow"]) == (405, "PUT")


async def test_health_is_a_line_that_is_not_cached() -> None:
    async with assigner_client() as it, it.session.get(it.url + "/health") as answer:
        assert await answer.text() == "assigner ready 1.2\n"
        assert answer.headers["cache-control"] == "no-cache"


async def test_pool_assignments_advice_metrics_and_page_show_the_same_pool() -> None:
    frozen = Double("0", is_frozen=True, allowed={P1: ""}, usage_percent=93.0)
    async with assigner_client(frozen, Double("1", refusing={P1})) as it:
        first, second = it.it.urls["0"], it.it.urls["1"]
        rows = (await it.json("/pool"))["indexers"]
        assert [(row["admin_url"], row["state"], row["owed"]) for row in rows] == [
            (first, "frozen", [P1]),
            (second, "active", []),
        ]
        assert (await it.json("/assignments"))["publishers"] == [
            {"publisher": P1, "holders": [], "frozen": [first], "required": 1, "is_short": True}
        ]
        assert [row["kind"] for row in (await it.json("/advice"))["advice"]] == ["no room"]
        _, metrics = await it.get("/metrics")
        assert "argosy_assigner_handoffs_owed 1.0" in metrics
        assert 'argosy_assigner_indexers{state="frozen"} 1.0' in metrics
        status, page = await it.get("/")
        assert (status, first in page, "frozen" in page) == (200, True, True)


async def test_poll_and_reload_need_the_admin_token() -> None:
    only = Double("0")
    async with assigner_client(only) as it:
        requests_before = len(only.requests)
        assert await it.post("/poll", {}) == await it.post("/reload", {"authorization": "Bearer x"}) == 401
        assert (len(only.requests), it.reloads) == (requests_before, 0)
        assert await it.post("/poll", ADMIN) == await it.post("/reload", ADMIN) == 200
        assert (len(only.requests) > requests_before, it.reloads) == (True, 1)
