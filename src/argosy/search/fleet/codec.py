"""Encoding of node requests and results: msgpack, bounded in size, and their HTTP paths.

A path in a repository may contain bytes that are not valid UTF-8, which msgpack text cannot hold. The rare message with
such text carries it as an extension, and is decoded by a slower path.
"""

from typing import Any, TypeVar

import msgspec

from argosy.base.errors import Invalid
from argosy.search.model import LimitHit, Options, SearchResult

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
        pass  # text as an extension origin_checks wrong at first
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"invalid msgpack: {error}") from None
    try:
        return msgspec.convert(_with_text_keys(_odd_decoder.decode(body)), kind, builtin_types=(bytes,))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"invalid {kind.__name__}: {error}") from None


def pack_answer(answer: SearchResult, bytes_max: int = ANSWER_BYTES_MAX) -> bytes:
    """Encodes a result. One that is too large is cut after its first files, and says so (GW-1)."""
    body = pack(answer)
    while len(body) > bytes_max and answer.files:
        kept = int(len(answer.files) * bytes_max / len(body) * _SPARE)
        limits_hit = sorted({*answer.limits_hit, LimitHit.FILES_SHOWN}, key=lambda each: each.value)
        answer = msgspec.structs.replace(answer, files=answer.files[:kept], limits_hit=tuple(limits_hit))
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
