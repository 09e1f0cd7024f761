"""The admin surface: every route of the original's clients, and the token that guards it."""

import logging
from base64 import b64encode
from collections.abc import Iterator

import httpx
import pytest

from argosy.base import logs
from argosy.base.metrics import Metrics
from argosy.ipni.model import Provider
from argosy.ipni.web.admin import admin_app
from tests.ipni.web.builders import AD, A, B, C
from tests.ipni.web.double import IndexerDouble

ROUTES = [
    ("PUT", "/freeze"),
    ("GET", "/status"),
    ("GET", "/healthcheck"),
    ("DELETE", f"/removeprovider/{A}"),
    ("POST", "/importproviders"),
    ("POST", "/reloadconfig"),
    ("PUT", f"/markadprocessed/{A}"),
    ("PUT", f"/ingest/allow/{A}"),
    ("PUT", f"/ingest/block/{A}"),
    ("POST", f"/ingest/sync/{A}"),
    ("GET", "/ingest/sync/"),
    ("GET", "/ingest/assigned"),
    ("GET", "/ingest/preferred"),
    ("POST", f"/ingest/assign/{A}"),
    ("PUT", f"/ingest/unassign/{A}"),
    ("POST", f"/ingest/handoff/{A}"),
    ("GET", "/telemetry/providers"),
    ("GET", f"/telemetry/providers/{A}"),
    ("POST", "/config/log/level"),
    ("GET", "/config/log/subsystems"),
    ("GET", "/metrics/"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_requests_without_the_token_are_rejected(client: httpx.AsyncClient, method: str, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}):
        answer = await client.request(method, path, headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_wrong_method_gets_the_allowed_one(operator: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await operator.request("PATCH", path)
    assert (answer.status_code, answer.headers["allow"]) == (405, f"{method}, OPTIONS")


async def test_without_a_configured_token_the_surface_is_closed(indexer: IndexerDouble, metrics: Metrics) -> None:
    transport = httpx.ASGITransport(admin_app(indexer, metrics=metrics))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/status")).status_code == 403


async def test_in_a_private_network_the_clients_of_the_original_need_no_token(
    indexer: IndexerDouble, metrics: Metrics
) -> None:
    transport = httpx.ASGITransport(admin_app(indexer, metrics=metrics, is_private_network=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/status")).json() == {"Frozen": False, "ID": A, "Usage": 12.5}


async def test_freezing(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    for _ in range(2):
        answer = await operator.put("/freeze")
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await operator.get("/status")).json() == {"Frozen": True, "ID": A, "Usage": 12.5}
    indexer.can_freeze = False
    refused = await operator.put("/freeze")
    assert (refused.status_code, refused.text) == (400, "freezing disabled\n")


async def test_the_health_check_tries_the_store(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    assert (await operator.get("/healthcheck")).json() == "OK"
    indexer.is_reachable = False
    answer = await operator.get("/healthcheck")
    assert (answer.status_code, answer.text) == (503, "the store does not answer\n")


async def test_a_provider_is_removed_and_may_be_blocked_besides(
    operator: httpx.AsyncClient, indexer: IndexerDouble
) -> None:
    indexer.known = {A: Provider(A), B: Provider(B)}
    assert (await operator.delete(f"/removeprovider/{A}")).status_code == 200
    assert (await operator.delete(f"/removeprovider/{B}?block=t")).status_code == 200
    assert (indexer.known, indexer.forbidden) == ({}, {B})
    assert (await operator.delete(f"/removeprovider/{A}")).status_code == 404
    assert (await operator.delete(f"/removeprovider/{A}?block=perhaps")).status_code == 400
    assert (await operator.delete("/removeprovider/nobody")).status_code == 400


async def test_providers_are_imported_from_another_indexer(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    url = "http://other.example:3000"
    body = {"Indexer": b64encode(url.encode()).decode()}
    assert (await operator.post("/importproviders", json=body)).status_code == 200
    assert indexer.calls == [("import", url)]
    indexer.is_reachable = False
    answer = await operator.post("/importproviders", json=body)
    assert answer.status_code == 502
    assert answer.text.startswith("Cannot get providers from other indexer")
    for wrong in ({}, {"indexer": "?"}, {"indexer": b64encode(b"file:///etc").decode()}, []):
        assert (await operator.post("/importproviders", json=wrong)).status_code == 400


async def test_settings_are_read_again(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    assert (await operator.post("/reloadconfig")).status_code == 200
    assert indexer.calls == [("reload",)]


async def test_an_advertisement_is_marked_processed(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.known = {A: Provider(A)}
    assert (await operator.put(f"/markadprocessed/{A}?cid={AD}")).status_code == 200
    assert indexer.indexed == {AD}
    assert (await operator.put(f"/markadprocessed/{B}?cid={AD}")).status_code == 404
    assert (await operator.put(f"/markadprocessed/{A}")).status_code == 400


async def test_peers_are_blocked_and_allowed(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    assert (await operator.put(f"/ingest/block/{B}")).status_code == 200
    assert indexer.forbidden == {B}
    assert (await operator.put(f"/ingest/allow/{B}")).status_code == 200
    assert indexer.forbidden == set()


async def test_a_sync_is_started_once_at_a_time(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    place = "/ip4/192.0.2.7/tcp/3104/http"
    assert (await operator.get("/ingest/sync/")).json() == []
    started = await operator.post(f"/ingest/sync/{A}?depth=-1&resync=true", json=place)
    assert (started.status_code, started.content) == (202, b"")
    assert (await operator.post(f"/ingest/sync/{B}")).status_code == 202
    assert indexer.calls == [("sync", A, place, -1, True), ("sync", B, None, 0, False)]
    assert (await operator.post(f"/ingest/sync/{A}")).status_code == 409
    assert (await operator.get("/ingest/sync/")).json() == [A, B]
    for wrong in ("?depth=many", "?depth=-2", "?resync=perhaps"):
        assert (await operator.post(f"/ingest/sync/{C}{wrong}")).status_code == 400
    assert (await operator.post(f"/ingest/sync/{C}", json={"not": "an address"})).status_code == 400


async def test_publishers_are_assigned_listed_and_unassigned(
    operator: httpx.AsyncClient, indexer: IndexerDouble
) -> None:
    assert (await operator.get("/ingest/assigned")).status_code == 204
    assert (await operator.post(f"/ingest/assign/{A}")).status_code == 200
    assert (await operator.post(f"/ingest/assign/{A}")).status_code == 400
    frozen = {"frozenid": C, "FROZENURL": "http://frozen.example:3000"}
    assert (await operator.post(f"/ingest/handoff/{B}", json=frozen)).status_code == 200
    assert indexer.calls == [("handoff", B, C, "http://frozen.example:3000")]
    assert (await operator.get("/ingest/assigned")).json() == [{"Publisher": A}, {"Publisher": B, "Continued": C}]
    assert (await operator.put(f"/ingest/unassign/{A}")).status_code == 200
    gone = await operator.put(f"/ingest/unassign/{A}")
    assert (gone.status_code, gone.text) == (404, "peer was not assigned\n")
    indexer.block(A)
    assert (await operator.post(f"/ingest/assign/{A}")).status_code == 403


async def test_a_frozen_indexer_refuses_in_words(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.is_frozen = True
    body = {"FrozenID": C, "FrozenURL": "http://frozen.example:3000"}
    for answer in (
        await operator.post(f"/ingest/assign/{A}"),
        await operator.post(f"/ingest/handoff/{A}", json=body),
    ):
        assert answer.status_code == 409
        assert "frozen" in answer.text


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"FrozenID":3}', b'{"FrozenID":"nobody","FrozenURL":"http://x"}', b" " * 100_000]
)
async def test_a_handoff_without_a_source_is_rejected(operator: httpx.AsyncClient, body: bytes) -> None:
    assert (await operator.post(f"/ingest/handoff/{A}", content=body)).status_code == 400


async def test_a_handoff_is_from_a_url(operator: httpx.AsyncClient) -> None:
    answer = await operator.post(f"/ingest/handoff/{A}", json={"FrozenID": C, "FrozenURL": "frozen.example"})
    assert (answer.status_code, "http://" in answer.text) == (400, True)


async def test_publishers_that_are_preferred_are_listed(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    assert (await operator.get("/ingest/preferred")).status_code == 204
    indexer.preferred = [B]
    assert (await operator.get("/ingest/preferred")).json() == [B]


async def test_without_an_assigner_nothing_is_assigned(operator: httpx.AsyncClient, indexer: IndexerDouble) -> None:
    indexer.allow_list = None
    for answer in (
        await operator.get("/ingest/assigned"),
        await operator.get("/ingest/preferred"),
        await operator.post(f"/ingest/assign/{A}"),
        await operator.put(f"/ingest/unassign/{A}"),
    ):
        assert (answer.status_code, answer.text) == (503, "not configured to work with assigner service\n")


async def test_telemetry_is_returned_once_under_readable_names(
    operator: httpx.AsyncClient, indexer: IndexerDouble
) -> None:
    assert (await operator.get("/telemetry/providers")).status_code == 204
    indexer.counted = {A: (10, 0.5, 1), B: (20, 1.5, 2)}
    one = await operator.get(f"/telemetry/providers/{A}")
    assert one.json() == {"Count": 10, "Elapsed": 500_000_000, "Samples": 1}
    assert (await operator.get(f"/telemetry/providers/{A}")).status_code == 204
    indexer.counted = {B: (1, 0.5, 1)}
    telemetry = (await operator.get("/telemetry/providers")).json()
    assert telemetry == {B: {"Count": 21, "Elapsed": 2_000_000_000, "Samples": 3}}, (
        "uncollected telemetry is still returned"
    )
    assert (await operator.get("/telemetry/providers")).status_code == 204


@pytest.fixture
def log_names() -> Iterator[list[str]]:
    names = ["ipni.web.test.one", "ipni.web.test.two"]
    for name in names:
        logs.get(name)
    yield names
    for name in names:
        logging.getLogger(f"argosy.{name}").setLevel(logging.NOTSET)


async def test_logs_are_listed_and_their_levels_set_by_pattern(
    operator: httpx.AsyncClient, log_names: list[str]
) -> None:
    assert set(log_names) <= set((await operator.get("/config/log/subsystems")).text.splitlines())
    answer = await operator.post("/config/log/level", params={r"web\.test\.": "DEBUG", "test.two$": "warn"})
    assert answer.status_code == 200
    levels = [logging.getLogger(f"argosy.{name}").level for name in log_names]
    assert levels == [logging.DEBUG, logging.WARNING]


@pytest.mark.parametrize(
    ("query", "status"), [("", 400), (".*=loud", 400), ("(=debug", 400), ("nothing-like-it=info", 404)]
)
async def test_a_wrong_level_or_pattern_is_refused(operator: httpx.AsyncClient, query: str, status: int) -> None:
    assert (await operator.post(f"/config/log/level?{query}")).status_code == status


async def test_metrics_are_shown(operator: httpx.AsyncClient, client: httpx.AsyncClient) -> None:
    await client.get("/", params={"q": str(AD)})
    answer = await operator.get("/metrics/")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'argosy_ipni_find_seconds_count{found="no",surface="page"} 1.0' in answer.text
