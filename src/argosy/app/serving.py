"""Listeners and the HTTP server on them: bound first, so that a taken port is an error and not a silent process."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from argosy.base.errors import Invalid

SHUTDOWN_S = 2          # requests in flight get this long when the process ends


def bound(host: str, port: int, *, settings: str) -> socket.socket:
    """A listener; `settings` names what to change when the place is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns off Nagle's algorithm, which holds small answers back.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as why:
        listener.close()
        raise Invalid(f"cannot listen on {host}:{port} ({why.strerror}): set {settings}") from why
    return listener


def place_of(listener: socket.socket) -> str:
    """`host:port`, as in a URL."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own affair: it drains first."""
        yield


async def serve_app(app: ASGIApp, listener: socket.socket, *, http: Any = "auto") -> None:
    """Answers requests until this task is cancelled."""
    config = uvicorn.Config(
        app, http=http, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=SHUTDOWN_S
    )
    await _Server(config).serve(sockets=[listener])
