"""Files over HTTP by their hash, and the settings with which `argosy up` advertises to its own indexer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import httpx
import pytest
from starlette.applications import Starlette

from argosy.app.content_publisher import ContentPublisher, files_route
from argosy.app.settings import SECTIONS
from argosy.app.up import advertises, with_content_index
from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Invalid
from argosy.base.http import EXCEPTION_HANDLERS
from argosy.base.metrics import Metrics
from argosy.base.settings import Loaded, load
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.cid import DAG_PB, RAW, Cid
from argosy.ipni.formats.multihash import SHA2_512
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.publisher import Publisher
from argosy.ipni.settings import IndexerHttpSettings, SyncSettings
from argosy.search.backends.memory import one_branch
from argosy.search.content_digests import hash_contents
from argosy.search.index.build import build
from argosy.search.settings import SearchSettings
from argosy.search.skip_policy import Policy
from tests.ipni.publish.chains import KEY

CONTENT = b"<script>alert(1)</script>\n"


@asynccontextmanager
async def serving(fleet_token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    publisher = await Publisher.open(KEY, MemoryChain())
    adverts = ContentPublisher(publisher, [], clock=SystemClock(), random=seeded_random(1), metrics=Metrics())
    adverts._holdings["r"] = hash_contents(build(one_branch("r", {"a/über.html": CONTENT}), Policy()))
    web = Starlette(routes=[files_route(adverts, fleet_token=fleet_token)], exception_handlers=EXCEPTION_HANDLERS)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=web), base_url="http://node") as client:
        yield client


async def test_a_file_is_served_by_its_hash_with_a_type_no_browser_executes() -> None:
    async with serving() as client:
        answer = await client.get(f"/ipfs/{cids.of(CONTENT)}?format=raw")
        assert (answer.status_code, answer.content) == (200, CONTENT)
        assert answer.headers["content-type"] == "application/vnd.ipld.raw"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%BCber.html"
        assert answer.headers["x-argosy-file"] == "r/a/%C3%BCber.html"
        again = await client.get(f"/ipfs/{cids.of(CONTENT)}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (cids.of(b"nobody has this"), 404),
        (Cid(DAG_PB, cids.of(CONTENT).multihash), 400),
        (cids.of(CONTENT, RAW, SHA2_512), 400),
        ("nonsense", 400),
    ],
)
async def test_unknown_and_invalid_hashes_are_rejected(name: object, status: int) -> None:
    async with serving() as client:
        assert (await client.get(f"/ipfs/{name}")).status_code == status


async def test_in_a_fleet_with_a_token_only_its_members_get_files() -> None:
    async with serving(fleet_token="sesame") as client:
        url = f"/ipfs/{cids.of(CONTENT)}"
        assert (await client.get(url)).status_code == 401
        assert (await client.get(url, headers={"authorization": "Bearer other"})).status_code == 401
        answer = await client.get(url, headers={"authorization": "Bearer sesame"})
        assert sha256(answer.content).digest() == sha256(CONTENT).digest()


def settings(**environ: str) -> Loaded:
    return load(SECTIONS, environ={f"ARGOSY_{name.upper()}": value for name, value in environ.items()})


def parts(loaded: Loaded) -> tuple[SearchSettings, IndexerHttpSettings, SyncSettings]:
    return loaded.get(SearchSettings), loaded.get(IndexerHttpSettings), loaded.get(SyncSettings)


def test_up_advertises_to_its_own_indexer() -> None:
    loaded = settings(search_announce_urls="http://pool:3001")
    assert advertises(loaded)
    search, http, sync = parts(with_content_index(loaded, 4000))
    assert http.port == 4000
    assert (search.advertise, search.announce_urls) == (True, ("http://pool:3001", "http://127.0.0.1:4000"))
    assert sync.allow_private


def test_up_advertises_nothing_if_disabled() -> None:
    assert not advertises(settings(search_advertise="false"))
    assert advertises(settings(search_advertise="true"))


def test_a_reachable_indexer_reads_no_private_addresses_by_default() -> None:
    places = {"ipni_http_host": "0.0.0.0", "ipni_http_port": "3000", "ipni_http_ingest_port": "3001"}
    search, http, sync = parts(with_content_index(settings(**places), 3000))
    assert (search.announce_urls, http.port, sync.allow_private) == (("http://0.0.0.0:3001",), 3000, False)


def test_an_unpredictable_ingest_port_is_rejected() -> None:
    with pytest.raises(Invalid, match=r"set ipni_http\.ingest_port to a port other than 0"):
        with_content_index(settings(ipni_http_ingest_port="0"), 3000)
