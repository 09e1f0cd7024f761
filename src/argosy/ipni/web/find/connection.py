"""Finds answered in the connection: a `GET` as most are never becomes a request of ASGI.

The server stays uvicorn: its protocol reads, keeps alive, times out and shuts down. Ours looks at each request when its
headers are there, and if it is a plain find, writes the answer at once. Whatever is not plain (a body, a query, a form
other than JSON, `connection: close`, a question before it that has no answer yet, an asker who does not read) goes the
normal way, on the same connection. Both ways end in `HotFind.reply`, so that they say the same.

This is for finds that do not wait, as those of a store on this machine. One that does is called off and asked again the
normal way, where it may.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from argosy.ipni.web.find.fast_path import FindFastPath, FindReply, Headers

_PLAIN_URL = re.compile(rb"/(?:multihash|cid)/[0-9A-Za-z]+")
_PLAIN_ACCEPT = frozenset({b"*/*", b"application/json"})
_NOT_PLAIN = frozenset({b"content-length", b"expect", b"transfer-encoding", b"upgrade"})


class FindConnection(HttpToolsProtocol):
    """One connection to an indexer. Give it to uvicorn as `http=partial(FindConnection, app)`."""

    def __init__(self, finds: FindFastPath, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._finds = finds
        self._is_turn_taken = False

    def data_received(self, data: bytes) -> None:
        # One answer for what came at once: a thousand finds in a packet would hold up everybody else.
        self._is_turn_taken = False
        super().data_received(data)

    def on_headers_complete(self) -> None:
        reply = self._reply() if self._is_free() else None
        if reply is None:
            super().on_headers_complete()
            return
        self._is_turn_taken = True
        self.transport.write(encode_reply(reply, self.server_state.default_headers))
        self.on_response_complete()

    def on_message_complete(self) -> None:
        if self.cycle is not None:  # None until a request has gone the normal way
            super().on_message_complete()

    def _is_free(self) -> bool:
        """Whether what is written now comes neither before an earlier answer nor to somebody who does not read."""
        is_idle = self.cycle is None or self.cycle.response_complete
        return is_idle and not self._is_turn_taken and not self.flow.write_paused

    def _reply(self) -> FindReply | None:
        """None if the request is not plain, or its answer not at hand."""
        accept = self._plain_accept()
        if accept is None:
            return None
        finding = self._finds.reply(self.url.decode("ascii"), accept)
        try:
            finding.send(None)
        except StopIteration as found:
            reply: FindReply = found.value
            return reply
        except Exception:
            return None  # what fails will fail again on the normal way, where the server tells of it
        finding.close()
        return None

    def _plain_accept(self) -> bytes | None:
        """What the asker of a plain find accepts; None if this is not one."""
        parser = self.parser
        if not _PLAIN_URL.fullmatch(self.url) or parser.get_method() != b"GET":
            return None
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
    """A whole answer as it goes over the wire, its headers in the order that uvicorn gives them."""
    defaults = b"".join([b"%b: %b\r\n" % header for header in default_headers])
    length = b"content-length: %d\r\n\r\n" % len(reply.body)
    return b"".join((STATUS_LINE[reply.status], defaults, _lines(reply.headers), length, reply.body))


@lru_cache(maxsize=64)
def _lines(headers: Headers) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])
