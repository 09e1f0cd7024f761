"""Answers plain finds in the HTTP connection, without an ASGI request.

uvicorn's protocol parses, keeps alive, times out and shuts down. This subclass inspects each request once its
headers are complete and writes the answer of a plain find at once. Any other request (with a body, a query, a format
other than JSON, `connection: close`, an earlier request without an answer, a client that does not read) takes the
normal path on the same connection. Both paths end in `FindFastPath.reply`, so they answer the same.

This works for finds that do not wait, as those of a local store. A find that would wait is closed and repeated on
the normal path.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from argosy.ipni.web.find_fast_path import FindFastPath, FindReply, Headers

_PLAIN_URL = re.compile(rb"/(?:multihash|cid)/[0-9A-Za-z]+")
_PLAIN_ACCEPT = frozenset({b"*/*", b"application/json"})
# Headers of requests with a body or with a change of protocol.
_NOT_PLAIN = frozenset({b"content-length", b"expect", b"transfer-encoding", b"upgrade"})


class FindConnection(HttpToolsProtocol):
    """One connection to an indexer. Give it to uvicorn as `http=partial(FindConnection, app)`."""

    def __init__(self, finds: FindFastPath, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._finds = finds
        self._has_answered = False

    def data_received(self, data: bytes) -> None:
        # One fast answer per packet: a thousand pipelined finds would delay all other clients.
        self._has_answered = False
        super().data_received(data)

    def on_headers_complete(self) -> None:
        reply = self._reply() if self._is_free() else None
        if reply is None:
            super().on_headers_complete()
            return
        self._has_answered = True
        self.transport.write(encode_reply(reply, self.server_state.default_headers))
        # uvicorn's own method: it restarts the keep-alive timer and counts the request.
        self.on_response_complete()

    def on_message_complete(self) -> None:
        if self.cycle is not None:  # None until a request took the normal path
            super().on_message_complete()

    def _is_free(self) -> bool:
        """Whether an answer written now neither precedes an earlier one nor goes to a client that does not read."""
        is_idle = self.cycle is None or self.cycle.response_complete
        return is_idle and not self._has_answered and not self.flow.write_paused

    def _reply(self) -> FindReply | None:
        """Returns None if the request is not plain, or its answer would wait."""
        accept = self._plain_accept()
        if accept is None:
            return None
        finding = self._finds.reply(self.url.decode("ascii"), accept)
        try:
            # A coroutine that never waits ends at its first step: no task and no turn of the loop are needed.
            finding.send(None)
        except StopIteration as found:
            reply: FindReply = found.value
            return reply
        except Exception:
            return None  # the normal path raises it again, and there the server reports it
        # It waits for something: it is dropped and runs again as a task.
        finding.close()
        return None

    def _plain_accept(self) -> bytes | None:
        """The Accept header of a plain find; None if the request is not one."""
        parser = self.parser
        if not _PLAIN_URL.fullmatch(self.url) or parser.get_method() != b"GET":
            return None
        # Older versions close the connection after the answer, which the normal path does.
        if parser.get_http_version() != "1.1" or not parser.should_keep_alive():
            return None
        accept = b""
        for name, value in self.headers:
            if name in _NOT_PLAIN:
                return None
            if name == b"accept":
                if value not in _PLAIN_ACCEPT:
                    return None
                accept = value
        return accept


def encode_reply(reply: FindReply, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The complete HTTP response, with headers in uvicorn's order."""
    defaults = b"".join([b"%b: %b\r\n" % header for header in default_headers])
    length = b"content-length: %d\r\n\r\n" % len(reply.body)
    return b"".join((STATUS_LINE[reply.status], defaults, _lines(reply.headers), length, reply.body))


@lru_cache(maxsize=64)
def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
