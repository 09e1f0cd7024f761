"""Listeners and the HTTP server on them: bound first, so that a taken port is an error and not a silent process."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from argosy.base import logs
from argosy.base.errors import Invalid

SHUTDOWN_S = 2  # requests in flight get this long when the process ends
START_POLL_S = 0.01
SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = logs.get("app")


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
    """uvicorn without its signal handlers: the process drains first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_app(app: ASGIApp, listener: socket.socket, *, http: Any = "auto") -> None:
    """Answers requests until this task is cancelled."""
    config = uvicorn.Config(
        app, http=http, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=SHUTDOWN_S
    )
    if keeps_signals():
        await _Server(config).serve(sockets=[listener])
    else:
        await _serve_restoring_signals(uvicorn.Server(config), listener)


@lru_cache(maxsize=1)
def keeps_signals() -> bool:
    """Whether overriding `capture_signals`, which is not documented, keeps uvicorn from taking the signals."""

    class Entered(Exception):
        pass

    class Probe(uvicorn.Server):
        def capture_signals(self) -> Any:
            raise Entered

    serving = Probe(uvicorn.Config(_no_app, log_config=None, lifespan="off")).serve(sockets=[])
    try:
        serving.send(None)  # its first step, in which the signals are taken
    except Entered:
        return True
    except BaseException as error:  # whatever has changed: the public path does not depend on it
        reason = f"{type(error).__name__}: {error}"
    else:
        reason = "capture_signals is not called first"
    finally:
        serving.close()
    log.warning("uvicorn private api changed, restoring signal handlers after its start", reason=reason)
    return False


async def _serve_restoring_signals(server: uvicorn.Server, listener: socket.socket) -> None:
    """uvicorn installs handlers of its own when it starts; ours are put back as soon as it has started."""
    ours = {number: signal.getsignal(number) for number in SIGNALS}
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(START_POLL_S)
        for number, handler in ours.items():
            if handler is not None:  # None: not installed from Python, so that it cannot be put back
                signal.signal(number, handler)
        await serving
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _no_app(_scope: object, _receive: object, _send: object) -> None: ...
