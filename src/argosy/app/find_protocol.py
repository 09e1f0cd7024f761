"""Selects how uvicorn serves finds: with our own protocol if it works with the installed uvicorn, else through ASGI."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from argosy.app.uvicorn_checks import CHECK_S_MAX, compare, converse, describe
from argosy.base import logs
from argosy.ipni.web.find.fast_path import FindFastPath
from argosy.ipni.web.measured_finds import MeasuredFinds

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

log = logs.get("app")


async def find_protocol(app: FindFastPath) -> Any:
    """The `http` argument of uvicorn for these finds: our protocol, or "auto" if it does not work."""
    try:
        async with asyncio.timeout(CHECK_S_MAX):
            await _check_finds()
    except Exception as error:  # for any change in uvicorn: ASGI does not depend on its private API
        log.warning("uvicorn private api changed, serving finds through asgi", reason=describe(error))
        return "auto"
    from argosy.ipni.web.find.connection import FindConnection

    return partial(FindConnection, app)


async def _check_finds() -> None:
    from argosy.ipni.web.find.connection import FindConnection

    async def rest(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("rest")(scope, receive, send)

    finds = FindFastPath(cast(MeasuredFinds, _EmptyIndex()), rest)
    fast, asgi = _RequestCounter(finds), _RequestCounter(finds)
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
