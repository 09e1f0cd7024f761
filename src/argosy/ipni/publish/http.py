"""A chain over HTTP, as indexers read it: the signed head, and every block by its CID.

A block never changes, so it is cacheable forever and its CID is its entity tag; the head is not cached. The
application may be mounted under a path, which the announced addresses then contain.
"""

import asyncio
import gzip

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, Cid
from argosy.ipni.publish.ports import PublisherChain

IMMUTABLE = "public, max-age=29030400, immutable"  # as the specification asks
GZIP_BYTES_MIN = 4096  # below this it saves no packet
GZIP_LEVEL = 1  # most of a block is base64 of hashes, which higher levels do not compress further
_MEDIA_TYPES = {DAG_JSON: "application/json", DAG_CBOR: "application/cbor"}


def publisher_routes(publisher: PublisherChain) -> list[Route]:
    """Routes to mount in any Starlette application."""

    async def head(_: Request) -> Response:
        signed = await publisher.signed_head()
        # The protocol's answer for a chain that is still empty.
        if signed is None:
            return Response(status_code=204, headers={"cache-control": "no-cache"})
        return Response(signed, headers={"cache-control": "no-cache"}, media_type=_MEDIA_TYPES[DAG_JSON])

    async def block(request: Request) -> Response:
        try:
            cid = cids.parse(request.path_params["cid"])
        except Invalid as error:
            return PlainTextResponse(f"{error}\n", 400)
        headers = {"cache-control": IMMUTABLE, "etag": f'"{cid}"', "vary": "accept-encoding"}
        data = await publisher.block(cid)
        # Not immutable: the block may be published later.
        if data is None:
            return PlainTextResponse(f"this publisher has no block {cid}\n", 404, {"cache-control": "no-cache"})
        if _is_known(request, cid):
            return Response(status_code=304, headers=headers)
        if len(data) >= GZIP_BYTES_MIN and _accepts_gzip(request):
            # In a thread, as a block has about a megabyte. Without a time in the header, equal blocks give equal bytes.
            data = await asyncio.to_thread(gzip.compress, data, GZIP_LEVEL, mtime=0)
            headers["content-encoding"] = "gzip"
        return Response(data, headers=headers, media_type=_MEDIA_TYPES.get(cid.codec, "application/octet-stream"))

    return [Route("/ipni/v1/ad/head", head), Route("/ipni/v1/ad/{cid}", block)]


def publisher_app(publisher: PublisherChain) -> Starlette:
    """An ASGI application with these routes."""
    return Starlette(routes=publisher_routes(publisher))


def _is_known(request: Request, cid: Cid) -> bool:
    header = request.headers.get("if-none-match", "")
    tags = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in tags or f'"{cid}"' in tags


def _accepts_gzip(request: Request) -> bool:
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*") and weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return True
    return False
