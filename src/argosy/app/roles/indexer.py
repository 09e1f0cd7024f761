"""The role `indexer`: a node of the content index; its find, ingest and admin APIs listen on ports of their own."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from argosy.app.content_publisher import KEY_FILE
from argosy.app.http_server import bind_listener, listener_address, serve_app
from argosy.app.process import Process
from argosy.app.roles.keyspace import open_index_store
from argosy.app.settings import load_settings
from argosy.app.uvicorn_checks import CHECK_S_MAX, compare, converse, describe
from argosy.base import logs
from argosy.base.clock import SystemClock
from argosy.ipni.backends.disk_usage import usage_of
from argosy.ipni.backends.mirror import mirror_of
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.model import Provider
from argosy.ipni.publish.backends.key_file import read_key
from argosy.ipni.settings import IndexerHttpSettings, IndexerSettings, KeyspaceSettings, SyncSettings
from argosy.ipni.sync.client import HttpSources
from argosy.ipni.web.app import admin_app, find_app, indexer_app, ingest_app
from argosy.ipni.web.find_fast_path import FindFastPath, MeasuredFinds
from argosy.search.settings import SearchSettings

log = logs.get("app")


async def indexer(process: Process) -> None:
    """Sets up an indexer."""
    settings = process.loaded.get(IndexerSettings)
    store = await open_index_store(process)
    process.closing.push_async_callback(store.close)
    sources = HttpSources(process.loaded.get(SyncSettings))
    process.closing.push_async_callback(sources.close)
    service = await IndexerService.open(
        store,
        sources,
        settings=settings,
        usage=usage_of(settings),
        providers_of=_providers_of,
        mirror=mirror_of(settings),
        reread=lambda: load_settings(process.loaded.path).get(IndexerSettings),
        metrics=process.metrics,
        # A publisher that starts with this process is polled only after its announcement: its port may be another than
        # before (0037).
        announcing=await asyncio.to_thread(_local_publishers, process.loaded.get(SearchSettings)),
    )
    process.closing.push_async_callback(service.close)
    process.indexer = service
    process.tasks.append(service.run())
    await _listen(process, service)


def _local_publishers(search: SearchSettings) -> list[str]:
    """The publisher ids of the search nodes that start with this process, read from their key files.

    Ids are used because the ports may differ from the last run. Nodes of an earlier run with more nodes are included.
    """
    if not (search.advertise and search.announce_urls):
        return []
    folder = Path(search.advertise_dir)
    paths = [folder / KEY_FILE, *folder.glob(f"*/{KEY_FILE}")]
    return [read_key(path).peer_id for path in paths if path.is_file()]


async def _providers_of(url: str) -> list[Provider]:
    async with IndexerClient(find_url=url) as client:
        return await client.providers()


async def _listen(process: Process, service: IndexerService) -> None:
    """Serves all APIs on one port, or each on its own."""
    settings, clock = process.loaded.get(IndexerHttpSettings), SystemClock()
    token, is_private = process.this.admin_token, settings.is_private_network
    if settings.ingest_port is None and settings.admin_port is None:
        whole = indexer_app(
            service, clock=clock, metrics=process.metrics, admin_token=token, is_private_network=is_private
        )
        find = await _serve_finds(process, whole, settings)
        log.info("indexer up", indexer=service.status().id, find=find, ingest=find, admin=find)
        return
    find = await _serve_finds(process, find_app(service, clock=clock, metrics=process.metrics), settings)
    ingest = _serve(process, ingest_app(service), settings.host, settings.ingest_port or 0, "ipni_http.ingest_port")
    guarded = admin_app(service, metrics=process.metrics, admin_token=token, is_private_network=is_private)
    admin = _serve(process, guarded, settings.host, settings.admin_port or 0, "ipni_http.admin_port")
    log.info("indexer up", indexer=service.status().id, find=find, ingest=ingest, admin=admin)


async def _serve_finds(process: Process, app: FindFastPath, settings: IndexerHttpSettings) -> str:
    """With a local store a find never waits, so uvicorn's connection answers it directly."""
    is_local = process.loaded.get(KeyspaceSettings).layout_file is None
    http = await find_protocol(app) if is_local else "auto"
    return _serve(process, app, settings.host, settings.port, "ipni_http.port", http=http)


def _serve(process: Process, app: ASGIApp, host: str, port: int, setting: str, *, http: Any = "auto") -> str:
    """Starts serving the application; returns its URL."""
    listener = process.listeners.get(setting) or bind_listener(host, port, settings=setting)
    process.closing.callback(listener.close)
    listener.listen()
    process.tasks.append(serve_app(app, listener, http=http))
    return f"http://{listener_address(listener)}"


_HASH = b"1220" + b"00" * 32
_FIND = b"GET /multihash/" + _HASH + b" HTTP/1.1\r\nhost: check\r\n"
_FINDS = (
    _FIND + b"\r\n",
    _FIND + b"accept: application/x-ndjson\r\n\r\n",
    b"POST /multihash/" + _HASH + b" HTTP/1.1\r\nhost: check\r\ncontent-length: 2\r\n\r\n{}",
    _FIND + b"accept: application/json\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nhost: check\r\n\r\n",
    _FIND + b"connection: close\r\n\r\n",
)
_BY_ASGI = 4  # number of these requests that the protocol passes on to ASGI


async def find_protocol(app: FindFastPath) -> Any:
    """The `http` argument of uvicorn for these finds: our protocol, or "auto" if it does not work."""
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            await _check_finds()
    except Exception as error:  # for any change in uvicorn: ASGI does not depend on its private API
        log.warning("uvicorn private api changed, serving finds through asgi", reason=describe(error))
        return "auto"
    from argosy.ipni.web.find_connection import FindConnection

    return partial(FindConnection, app)


async def _check_finds() -> None:
    from argosy.ipni.web.find_connection import FindConnection

    async def rest(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("rest")(scope, receive, send)

    finds = FindFastPath(cast(MeasuredFinds, _EmptyIndex()), rest)
    fast, asgi = _RequestCounter(finds), _RequestCounter(finds)
    # Both count their requests, because equal responses could also come from a protocol that passes everything to ASGI.
    got = await converse(partial(FindConnection, finds), fast, _FINDS)
    expected = await converse("auto", asgi, _FINDS)
    compare(got, expected)
    if (fast.requests, asgi.requests) != (_BY_ASGI, len(_FINDS)):
        raise ValueError(f"{fast.requests} of {asgi.requests} requests went through asgi, expected {_BY_ASGI}")


class _EmptyIndex:
    """An index without content."""

    async def find(self, multihashes: Sequence[bytes], _surface: str) -> list[tuple[()]]:
        return [() for _ in multihashes]


class _RequestCounter:
    def __init__(self, app: ASGIApp) -> None:
        self.requests = 0
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        await self._app(scope, receive, send)
