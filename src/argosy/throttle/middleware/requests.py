"""A request as the front door sees it, whichever kind of server has brought it: what extractors and costs are made of.

Both kinds show the same request the same way, so one extractor serves an ASGI and a WSGI application, and a client has
one id in both.
"""

from collections.abc import Mapping
from typing import Any, Protocol

_UNPREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")  # headers that WSGI keeps without HTTP_ before them


class HttpRequest(Protocol):
    """One request, before its body is read."""

    @property
    def method(self) -> str:
        """In capitals; a websocket's is GET."""
        ...

    @property
    def path(self) -> str:
        """As the client wrote it, decoded: the part where an application is mounted is included."""
        ...

    @property
    def address(self) -> str | None:
        """The other end of the connection, which may be a proxy; None behind a Unix socket."""
        ...

    @property
    def raw(self) -> Mapping[str, Any]:
        """The ASGI scope or the WSGI environ, for what is not here."""
        ...

    def header(self, name: str) -> str | None:
        """The header's value, several lines joined by a comma."""
        ...


class AsgiRequest:
    """A call out of an ASGI scope."""

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
    """A call out of a WSGI environ. WSGI takes `a-b` and `a_b` for one header; servers should drop the second."""

    __slots__ = ("raw",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.raw = environ

    @property
    def method(self) -> str:
        return str(self.raw.get("REQUEST_METHOD", "GET"))

    @property
    def path(self) -> str:
        # WSGI hands the bytes of a path on as Latin-1.
        path = str(self.raw.get("SCRIPT_NAME", "")) + str(self.raw.get("PATH_INFO", ""))
        return path.encode("latin-1").decode("utf-8", "replace")

    @property
    def address(self) -> str | None:
        return self.raw.get("REMOTE_ADDR") or None

    def header(self, name: str) -> str | None:
        key = name.upper().replace("-", "_")
        return self.raw.get(key if key in _UNPREFIXED else f"HTTP_{key}")
