"""A search node's publisher: the chain of what it holds, the files by their hashes, and whom it tells of them.

All of it is on the node's own port: `/ipni/v1/ad/…` for indexers to read the chain, `/ipfs/{cid}` for anybody who was
told by one that the file is here.
"""

import asyncio
import hmac
from functools import partial
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argosy.app import metrics as counted
from argosy.app.adverts import Adverts
from argosy.app.roles import Process
from argosy.base import logs
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid, NotFound, Unauthorized
from argosy.base.metrics import Metrics
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats import multiaddr
from argosy.ipni.formats.cid import RAW
from argosy.ipni.formats.multihash import SHA2_256, split
from argosy.ipni.publish.announce_client import AnnounceClient, AnnounceResult
from argosy.ipni.publish.backends.key_file import open_key
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.head_announcer import HeadAnnouncer
from argosy.ipni.publish.http import FOR_EVER, publisher_routes
from argosy.ipni.publish.service import Publisher
from argosy.search.settings import SearchSettings

KEY_FILE = "key"  # in search.advertise_folder, the publisher's identity
LOOKS_MAX = 16  # files looked up and sent at a time: each is a copy in memory, of 2 MiB by default

log = logs.get("app")


async def advertise(process: Process) -> Adverts:
    """Opens the publisher that the settings describe; whoever indexes tells it."""
    settings = process.loaded.get(SearchSettings)
    folder, at = Path(settings.advertise_folder), [multiaddr.from_url(f"http://{process.this.address}")]
    key = await asyncio.to_thread(open_key, folder / KEY_FILE)
    chain = await SqliteChain.open(folder / "chain.sqlite")
    process.closing.push_async_callback(chain.close)
    publisher = await Publisher.open(key, chain, addresses=at)
    adverts = Adverts(publisher, at, clock=SystemClock(), random=system_random(), metrics=process.metrics)
    process.tasks.append(adverts.run())
    if settings.announce_urls:
        announcer = AnnounceClient(settings.announce_urls, clock=SystemClock(), random=system_random())
        process.closing.push_async_callback(announcer.close)
        told = partial(_told, process.metrics)
        herald = HeadAnnouncer(publisher, announcer, at, clock=SystemClock(), repeat_s=settings.announce_s, told=told)
        process.tasks.append(herald.run())
    process.routes += [*publisher_routes(publisher), files_route(adverts, fleet_token=process.this.fleet_token)]
    log.info("advertising", publisher=publisher.id, announced_to=len(settings.announce_urls))
    return adverts


def _told(metrics: Metrics, told: AnnounceResult) -> None:
    metrics.inc(counted.ANNOUNCED, outcome="taken" if told.error is None else "failed")
    if told.error is not None:
        log.warning("not announced", url=told.url, why=str(told.error))


def files_route(adverts: Adverts, *, fleet_token: str | None = None) -> Route:
    """Files as blocks, as a trustless gateway gives them: whoever asks can check what came. With a fleet token only
    for those who know it, for the chain tells the hash of every file."""
    looks = asyncio.Semaphore(LOOKS_MAX)
    expected = f"Bearer {fleet_token}".encode() if fleet_token else None

    async def file(request: Request) -> Response:
        if expected is not None and not hmac.compare_digest(
            request.headers.get("authorization", "").encode("latin-1"), expected
        ):
            raise Unauthorized("files are asked for with the header 'authorization: Bearer <fleet token>'")
        cid = cids.parse(request.path_params["cid"])
        code, digest = split(cid.multihash)
        if cid.codec != RAW or code != SHA2_256:
            raise Invalid(f"files are had by a raw CID of their sha2-256, not by {cid}: see argosy find")
        headers = {"etag": f'"{cid}.raw"', "cache-control": FOR_EVER, "x-content-type-options": "nosniff"}
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        async with looks:
            found = await asyncio.to_thread(adverts.find, digest)
        if found is None:
            raise NotFound(f"this node holds no file {cid}: another one may, ask an indexer")
        name = quote(found.path.rpartition("/")[2].encode("utf-8", "surrogateescape"))
        whole = quote(f"{found.repository}/{found.path}".encode("utf-8", "surrogateescape"))
        headers |= {"content-disposition": f"attachment; filename*=UTF-8''{name}", "x-argosy-file": whole}
        return Response(found.content, headers=headers, media_type="application/vnd.ipld.raw")

    return Route("/ipfs/{cid}", file)
