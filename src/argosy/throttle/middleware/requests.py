"""A request as the middleware sees it, with either kind of server: the input of extractors and cost functions.

Both kinds present the same request alike, so one extractor serves an ASGI and a WSGI application, and a client has the
same id in both.
"""

from collections.abc import Mapping
from typing import Any, Protocol

_UNPREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")  # headers that WSGI does not prefix with HTTP_


class HttpRequest(Protocol):
    """One request, before its body is read."""

    @property
    def method(self) -> str:
        """In capitals; GET for a websocket."""
        ...

    @property
    def path(self) -> str:
        """As the client sent it, decoded, with the prefix at which the application is mounted."""
        ...

    @property
    def address(self) -> str | None:
        """The peer of the connection, which may be a proxy; None behind a Unix socket."""
        ...

    @property
    def raw(self) -> Mapping[str, Any]:
        """The ASGI scope or the WSGI environ, for everything else."""
        ...

    def header(self, name: str) -> str | None:
        """The value of a header; several lines are joined with commas."""
        ...


class AsgiRequest:
    """A request from an ASGI scope."""

    __slots__ = ("raw",)

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.raw = scope

    @property
    def method(self) -> str:
        return str(self.raw.get("method", "GET"))

    @property
    def path(self) -> str:
        return str(self.raw["path"])

    @property
    def address(self) -> str | None:
        client = self.raw.get("client")
        return str(client[0]) if client else None

    def header(self, name: str) -> str | None:
        wanted = name.lower().encode("latin-1")
        found = [value for each, value in self.raw["headers"] if each == wanted]
        return b",".join(found).decode("latin-1") if found else None


class WsgiRequest:
    """A request from a WSGI environ. WSGI cannot distinguish the headers `a-b` and `a_b`; servers should drop `a_b`."""

    __slots__ = ("raw",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.raw = environ

    @property
    def method(self) -> str:
        return str(self.raw.get("REQUEST_METHOD", "GET"))

    @property
    def path(self) -> str:
        # WSGI passes the bytes of a path as Latin-1.
        path = str(self.raw.get("SCRIPT_NAME", "")) + str(self.raw.get("PATH_INFO", ""))
        return path.encode("latin-1").decode("utf-8", "replace")

    @property
    def address(self) -> str | None:
        return self.raw.get("REMOTE_ADDR") or None

    def header(self, name: str) -> str | None:
        key = name.upper().replace("-", "_")
        return self.raw.get(key if key in _UNPREFIXED else f"HTTP_{key}")
