"""A query node over HTTP: msgpack in and out, authenticated by token.

Errors are those of `base.http`: 409 means that the caller's layout is out of date, 421 that this node does not own
the requested slot.

A request times out here before its caller gives up: executed later, it could undo what the caller has done since.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from argosy.base.errors import Forbidden, Unauthorized, Unavailable
from argosy.base.http import EXCEPTION_HANDLERS, json_response, read_body
from argosy.ipni.keyspace import wire
from argosy.ipni.keyspace.ports import QueryNode
from argosy.ipni.keyspace.query_node import QueryNodeService
from argosy.ipni.model import IndexValue

CALL_S = 10.0
DEADLINE_SHARE = 0.9  # of the time that a caller waits

Answerer = Callable[[bytes], Awaitable[object]]


def keyspace_routes(node: QueryNodeService, *, token: str | None, call_s: float = CALL_S) -> list[Route]:
    """Routes for an application that has `base.http.EXCEPTION_HANDLERS`; `call_s` is how long callers wait."""

    def route(name: str, answer: Answerer) -> Route:
        async def handle(request: Request) -> Response:
            check_token(request, token)
            try:
                async with asyncio.timeout(call_s * DEADLINE_SHARE):
                    reply = await answer(await read_body(request, bytes_max=wire.BODY_BYTES_MAX))
            except TimeoutError:
                raise Unavailable(f"node {node.name} timed out after {call_s * DEADLINE_SHARE:.1f} s: {name}") from None
            return Response(wire.pack(reply), media_type="application/msgpack")

        return Route(wire.PREFIX + name, handle, methods=["POST"])

    async def health(_: Request) -> Response:
        return PlainTextResponse(f"query node {node.name} ready\n", headers={"cache-control": "no-cache"})

    async def stats(request: Request) -> Response:
        check_token(request, token)
        return json_response(await node.status(node.layout.version))

    return [
        *(route(name, answer) for name, answer in answers(node).items()),
        Route("/health", health),
        Route("/stats", stats),
    ]


def keyspace_app(node: QueryNodeService, *, token: str | None, call_s: float = CALL_S) -> Starlette:
    """An application with these routes."""
    routes = keyspace_routes(node, token=token, call_s=call_s)
    return Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)


def check_token(request: Request, token: str | None) -> None:
    if not token:
        raise Forbidden("this query node accepts no requests; set keyspace.token")
    given = request.headers.get("authorization", "")
    # In constant time: the duration of a comparison must not reveal how much of the token was right.
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise Unauthorized("a query node needs the header 'authorization: Bearer <keyspace.token>'")


def answers(node: QueryNode) -> dict[str, Answerer]:
    """The handler of each kind of request: decodes it, calls the node, and returns what is encoded as the answer."""

    async def put(body: bytes) -> None:
        version, row, multihashes, is_durable = wire.PUT.request(body)
        await node.put(version, IndexValue(*row), multihashes, is_durable=is_durable)

    async def remove(body: bytes) -> None:
        version, provider, context, is_durable = wire.REMOVE.request(body)
        await node.remove(version, provider, context, is_durable=is_durable)

    async def find(body: bytes) -> object:
        return wire.intern_values(await node.find(*wire.FIND.request(body)))

    async def second(body: bytes) -> object:
        return await node.find_second(*wire.SECOND.request(body))

    async def value(body: bytes) -> object:
        found = await node.find_value(*wire.VALUE.request(body))
        return found and wire.row(found)

    async def listing(body: bytes) -> object:
        version, provider, context, start, limit = wire.LIST.request(body)
        return await node.multihashes(version, provider, context, start=start, limit=limit)

    async def size(body: bytes) -> object:
        return await node.context_size(*wire.SIZE.request(body))

    async def export(body: bytes) -> object:
        version, slots, cursor, limit = wire.EXPORT.request(body)
        page = await node.export(version, slots, cursor, limit=limit)
        return [wire.row(each) for each in page.values], page.entries, page.finished, page.cursor

    async def status(body: bytes) -> object:
        reply = await node.status(*wire.STATUS.request(body))
        stats = reply.stats
        return (
            reply.name,
            reply.version,
            reply.held,
            reply.left,
            reply.is_cleared,
            (stats.entries, stats.values, stats.disk_bytes),
        )

    return {
        "put": put,
        "remove": remove,
        "find": find,
        "second": second,
        "value": value,
        "list": listing,
        "size": size,
        "export": export,
        "status": status,
    }
