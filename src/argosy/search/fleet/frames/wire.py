"""The words of the frames: how a connection becomes one, what a frame looks like, and how errors travel.

A connection begins as an HTTP request to be upgraded, with the fleet's token, and is one of frames from the answer 101
on. A frame is a header and what follows it:

    4 bytes   how many follow the header          4 bytes   the call it belongs to
    1 byte    what it is                          2 bytes   how many of those that follow are the trace's headers

A question is answered by exactly one frame of the same call, unless the asker calls it off: then by one or none.
"""

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

import msgspec

from argosy.base.errors import ArgosyError, Invalid, NotOwner, Throttled
from argosy.base.redact import redact

FRAMES_PATH = "/v1/node/frames"
LANGUAGE = "argosy-frames-1"  # another number is not understood

# What a frame is. A question's number is its kind.
CALLED_OFF, SEARCH, LIST, FILE, FOLDER, STATUS = range(6)
ANSWERED, REFUSED = range(2)

GREETING_BYTES_MAX = 8 << 10
TRACE_BYTES_MAX = (1 << 16) - 1
CALLS_MAX = 1 << 32  # then they are counted anew

_HEADER = Struct(">IIBH")
_END = b"\r\n\r\n"


class Frame(NamedTuple):
    call: int
    kind: int
    trace: bytes
    body: bytes


def framed(call: int, kind: int, body: bytes = b"", trace: bytes = b"") -> bytes:
    return b"".join((_HEADER.pack(len(trace) + len(body), call, kind, len(trace)), trace, body))


class Parser:
    """Bytes as they come, in; whole frames, out. Invalid if a frame says that it is longer than one may be."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max + TRACE_BYTES_MAX
        self._kept = bytearray()
        self._needed = 0  # bytes without which it is no use to look again

    def feed(self, data: bytes) -> list[Frame]:
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                return []
            data = bytes(self._kept)
            self._kept.clear()
        frames: list[Frame] = []
        at, self._needed = 0, _HEADER.size
        while len(data) - at >= _HEADER.size:
            size, call, kind, trace_bytes = _HEADER.unpack_from(data, at)
            if not trace_bytes <= size <= self._bytes_max:
                raise Invalid(f"a frame of {size} bytes, {trace_bytes} of them a trace, is none of ours")
            begin, end = at + _HEADER.size, at + _HEADER.size + size
            if end > len(data):
                self._needed = end - at
                break
            body_at = begin + trace_bytes
            frames.append(Frame(call, kind, data[begin:body_at], data[body_at:end]))
            at = end
        if at < len(data):
            self._kept += data[at:]
        return frames


# -- the trace ---------------------------------------------------------------------------------------------------------


def packed_trace(headers: Mapping[str, str]) -> bytes:
    """One that is too long to travel is left behind."""
    trace = msgspec.msgpack.encode(headers) if headers else b""
    return trace if len(trace) <= TRACE_BYTES_MAX else b""


def unpacked_trace(trace: bytes) -> dict[str, str]:
    if not trace:
        return {}
    try:
        return msgspec.msgpack.decode(trace, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise Invalid(f"these are no headers of a trace: {error}") from None


# -- errors ------------------------------------------------------------------------------------------------------------


class Refusal(msgspec.Struct, frozen=True):
    """An error on its way to whoever asked."""

    status: int
    message: str
    hint: str | None = None
    retry_after_s: float = 1.0


def packed_refusal(error: ArgosyError) -> bytes:
    message = redact(str(error)).encode("utf-8", "backslashreplace").decode()
    hint = error.hint if isinstance(error, NotOwner) else None
    retry_after_s = error.retry_after_s if isinstance(error, Throttled) else 1.0
    return msgspec.msgpack.encode(Refusal(error.status, message, hint, retry_after_s))


def unpacked_refusal(body: bytes) -> Refusal:
    try:
        return msgspec.msgpack.decode(body, type=Refusal)
    except msgspec.DecodeError:
        return Refusal(500, repr(body[:100]))


# -- the beginning -----------------------------------------------------------------------------------------------------

WELCOME = f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {LANGUAGE}\r\n\r\n".encode()


def greeting(host: str, headers: Mapping[str, str]) -> bytes:
    """What whoever wants to ask says first."""
    lines = [f"GET {FRAMES_PATH} HTTP/1.1", f"host: {host}", "connection: upgrade", f"upgrade: {LANGUAGE}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def not_welcome(status: int, message: str) -> bytes:
    body = msgspec.json.encode({"error": {"status": status, "message": message}})
    head = f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body


class Said(NamedTuple):
    """A request or an answer without its body: its first line, its headers, and what has come after them."""

    first: str
    headers: dict[str, bytes]
    rest: bytes

    @property
    def status(self) -> int:
        """Of an answer; 0 if it is none."""
        words = self.first.split(" ")
        return int(words[1]) if len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdecimal() else 0

    @property
    def is_in_frames(self) -> bool:
        return self.headers.get("upgrade", b"").strip().lower() == LANGUAGE.encode()


def said(data: bytes) -> Said | None:
    """None while there is more to come; Invalid if it goes on for too long."""
    head, end, rest = data.partition(_END)
    if len(head) > GREETING_BYTES_MAX:
        raise Invalid(f"a greeting may have {GREETING_BYTES_MAX} bytes: send fewer headers")
    if not end:
        return None
    first, *lines = head.split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    headers = {name.decode("latin-1").strip().lower(): value.strip() for name, _, value in pairs}
    return Said(first.decode("latin-1"), headers, rest)
