"""The protocol between gateways and nodes: message bodies, their paths over HTTP, and frames.

A body is msgpack, bounded in size. A path in a repository may contain bytes that are not valid UTF-8, which msgpack
text cannot hold. The rare message with such text carries it as an extension, and is decoded by a slower path.

Frames carry the same bodies with less overhead than HTTP (decision 0026). A connection begins as an HTTP upgrade
request with the fleet token; frames follow the response 101. A frame is a header and a payload:

    4 bytes   length of the payload               4 bytes   call id
    1 byte    kind                                2 bytes   length of the trace context at the start of the payload

A request is answered by exactly one frame with the same call id, or by at most one if it was cancelled.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import msgspec

from argosy.base.errors import ArgosyError, Invalid, NotOwner, Throttled
from argosy.base.redact import redact
from argosy.search.model import LimitHit, Options, SearchResult

# -- bodies ------------------------------------------------------------------------------------------------------------

SEARCH_PATH = "/v1/node/search"
LIST_PATH = "/v1/node/list"
FILE_PATH = "/v1/node/file"
FOLDER_PATH = "/v1/node/folder"
STATUS_PATH = "/v1/node/status"
INDEX_PATH = "/v1/node/index/"  # and the repository's name
CONTENT_TYPE = "application/msgpack"

REQUEST_BYTES_MAX = 8 << 20  # 50,000 repository names and a query
ANSWER_BYTES_MAX = 256 << 20  # twice the largest possible file
WALL_TIME_S_MAX = 300.0  # of one search

_ODD_TEXT = 1  # msgpack extension: UTF-8 with surrogate escapes
_SPARE = 0.9  # files differ in size: cut a little more than their average suggests

_T = TypeVar("_T")


def pack(thing: object) -> bytes:
    try:
        return _encoder.encode(thing)
    except UnicodeEncodeError:
        return _encoder.encode(_with_extensions(msgspec.to_builtins(thing, builtin_types=(bytes,))))


def unpack(body: bytes, kind: type[_T]) -> _T:
    """Decodes a body; Invalid if it is not of that type."""
    try:
        return _decoder(kind).decode(body)
    except msgspec.ValidationError:
        pass  # text sent as an extension has the wrong type at first
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"invalid msgpack: {error}") from None
    try:
        return msgspec.convert(_with_text_keys(_odd_decoder.decode(body)), kind, builtin_types=(bytes,))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"invalid {kind.__name__}: {error}") from None


def pack_answer(answer: SearchResult, bytes_max: int = ANSWER_BYTES_MAX) -> bytes:
    """Encodes a result. One that is too large is cut after its first files, and says so (GW-1)."""
    body = pack(answer)
    # In a loop, because the files that remain may be larger than the average.
    while len(body) > bytes_max and answer.files:
        count = int(len(answer.files) * bytes_max / len(body) * _SPARE)
        limits_hit = sorted({*answer.limits_hit, LimitHit.FILES_SHOWN}, key=lambda each: each.value)
        answer = msgspec.structs.replace(answer, files=answer.files[:count], limits_hit=tuple(limits_hit))
        body = pack(answer)
    return body


def wall_time_s(options: Options) -> float:
    """The time limit of a search: its own, or WALL_TIME_S_MAX if it has none or a longer one."""
    return min(options.wall_time_s, WALL_TIME_S_MAX) if options.wall_time_s > 0 else WALL_TIME_S_MAX


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[type[Any], msgspec.msgpack.Decoder[Any]] = {}  # one per type


def _decoder(kind: type[_T]) -> msgspec.msgpack.Decoder[_T]:
    if kind not in _decoders:
        _decoders[kind] = msgspec.msgpack.Decoder(kind)
    return _decoders[kind]


def _extension(code: int, data: memoryview) -> object:
    if code != _ODD_TEXT:
        raise Invalid(f"unknown msgpack extension {code}")
    return _text(bytes(data))


_odd_decoder = msgspec.msgpack.Decoder(ext_hook=_extension)


def _with_extensions(thing: Any) -> Any:
    """Replaces text that is not valid UTF-8, recursively: by an extension, or by bytes where it is a key."""
    match thing:
        case str():
            return thing if _is_text(thing) else msgspec.msgpack.Ext(_ODD_TEXT, _bytes(thing))
        case dict():
            return {key if _is_text(key) else _bytes(key): _with_extensions(value) for key, value in thing.items()}
        case list() | tuple():
            return [_with_extensions(each) for each in thing]
    return thing


def _with_text_keys(thing: Any) -> Any:
    match thing:
        case dict():
            return {_text(key) if isinstance(key, bytes) else key: _with_text_keys(thing[key]) for key in thing}
        case list():
            return [_with_text_keys(each) for each in thing]
    return thing


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- frames ------------------------------------------------------------------------------------------------------------

FRAMES_PATH = "/v1/node/frames"
LANGUAGE = "argosy-frames-2"  # versioned: a mismatch is rejected; 1 sent queries as text

# Kinds of frames: of a client, and of a server.
CANCEL, SEARCH, LIST, FILE, FOLDER, STATUS = range(6)
RESULT, ERROR = range(2)

# As most HTTP servers limit the head of a request.
UPGRADE_BYTES_MAX = 8 << 10
TRACE_BYTES_MAX = (1 << 16) - 1
CALLS_MAX = 1 << 32  # then ids wrap around

# Network byte order, without padding.
_HEADER = Struct(">IIBH")
_END = b"\r\n\r\n"


class Frame(NamedTuple):
    call: int
    kind: int
    trace: bytes
    body: bytes


def encode_frame(call: int, kind: int, body: bytes = b"", trace: bytes = b"") -> bytes:
    return b"".join((_HEADER.pack(len(trace) + len(body), call, kind, len(trace)), trace, body))


class Parser:
    """Splits a byte stream into frames. Invalid if a frame exceeds the size limit."""

    def __init__(self, bytes_max: int) -> None:
        # The length in a header includes the trace context.
        self._bytes_max = bytes_max + TRACE_BYTES_MAX
        self._buffer = bytearray()
        self._needed = 0  # buffer size below which no frame can be complete

    def feed(self, data: bytes) -> list[Frame]:
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        frames: list[Frame] = []
        at, self._needed = 0, _HEADER.size
        while len(data) - at >= _HEADER.size:
            size, call, kind, trace_bytes = _HEADER.unpack_from(data, at)
            if not trace_bytes <= size <= self._bytes_max:
                raise Invalid(f"invalid frame: {size} bytes, {trace_bytes} of them trace context")
            begin, end = at + _HEADER.size, at + _HEADER.size + size
            if end > len(data):
                self._needed = end - at
                break
            body_at = begin + trace_bytes
            frames.append(Frame(call, kind, data[begin:body_at], data[body_at:end]))
            at = end
        if at < len(data):
            self._buffer += data[at:]
        return frames


# -- the trace ---------------------------------------------------------------------------------------------------------


def encode_trace(headers: Mapping[str, str]) -> bytes:
    """Encodes trace context; one that is too long is dropped."""
    trace = msgspec.msgpack.encode(headers) if headers else b""
    # A request without its trace is better than none.
    return trace if len(trace) <= TRACE_BYTES_MAX else b""


def decode_trace(trace: bytes) -> dict[str, str]:
    if not trace:
        return {}
    try:
        return msgspec.msgpack.decode(trace, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise Invalid(f"invalid trace context: {error}") from None


# -- errors ------------------------------------------------------------------------------------------------------------


class Refusal(msgspec.Struct, frozen=True):
    """An error as sent to the client."""

    status: int
    message: str
    hint: str | None = None
    retry_after_s: float = 1.0


def encode_refusal(error: ArgosyError) -> bytes:
    message = redact(str(error)).encode("utf-8", "backslashreplace").decode()
    hint = error.hint if isinstance(error, NotOwner) else None
    retry_after_s = error.retry_after_s if isinstance(error, Throttled) else 1.0
    return msgspec.msgpack.encode(Refusal(error.status, message, hint, retry_after_s))


def decode_refusal(body: bytes) -> Refusal:
    try:
        return msgspec.msgpack.decode(body, type=Refusal)
    except msgspec.DecodeError:
        return Refusal(500, repr(body[:100]))


# -- the upgrade -------------------------------------------------------------------------------------------------------

UPGRADED = f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {LANGUAGE}\r\n\r\n".encode()


def upgrade_request(host: str, headers: Mapping[str, str]) -> bytes:
    """The first bytes of a connection."""
    lines = [f"GET {FRAMES_PATH} HTTP/1.1", f"host: {host}", "connection: upgrade", f"upgrade: {LANGUAGE}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def rejection(status: int, message: str) -> bytes:
    body = msgspec.json.encode({"error": {"status": status, "message": message}})
    head = f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body


class HttpHead(NamedTuple):
    """The first line and headers of a request or response, and the bytes after them."""

    first: str
    headers: dict[str, bytes]
    rest: bytes

    @property
    def status(self) -> int:
        """Of a response; 0 if it is none."""
        words = self.first.split(" ")
        return int(words[1]) if len(words) > 1 and words[0].startswith("HTTP/") and words[1].isdecimal() else 0

    @property
    def has_upgrade(self) -> bool:
        return self.headers.get("upgrade", b"").strip().lower() == LANGUAGE.encode()


def parse_head(data: bytes) -> HttpHead | None:
    """None while the head is incomplete; Invalid if it is too long."""
    head, end, rest = data.partition(_END)
    if len(head) > UPGRADE_BYTES_MAX:
        raise Invalid(f"request head too large, limit {UPGRADE_BYTES_MAX} bytes")
    if not end:
        return None
    first, *lines = head.split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    headers = {name.decode("latin-1").strip().lower(): value.strip() for name, _, value in pairs}
    return HttpHead(first.decode("latin-1"), headers, rest)
