"""Messages between query nodes and their clients: msgpack with bounded fields.

Every request begins with the version of the caller's layout. A find interns values, because the multihashes of one
request often belong to few contexts.
"""

from typing import Annotated, Any, Generic, TypeVar

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.keyspace.layout import SLOTS
from argosy.ipni.model import CONTEXT_BYTES_MAX, METADATA_BYTES_MAX, IndexValue

PREFIX = "/keyspace/v1/"
# PUT_MAX multihashes of the largest accepted length take 2.6 MB.
BODY_BYTES_MAX = 8 << 20
ANSWER_BYTES_MAX = 64 << 20  # a multihash with the most values that a store returns takes about 20 MB
PUT_MAX = 16_384  # multihashes per request; a larger put is several requests
FIND_MAX = 1024
LIST_MAX = 16_384
EXPORT_MAX = 16_384
EXPORT_SLOTS_MAX = SLOTS

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")

# A digest has up to 128 bytes; code and length take a few more.
Multihash = Annotated[bytes, msgspec.Meta(max_length=160)]
Peer = Annotated[str, msgspec.Meta(max_length=256)]
Context = Annotated[bytes, msgspec.Meta(max_length=CONTEXT_BYTES_MAX)]
Metadata = Annotated[bytes, msgspec.Meta(max_length=METADATA_BYTES_MAX)]
Place = Annotated[bytes, msgspec.Meta(max_length=512)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=LIST_MAX)]
Slot = Annotated[int, msgspec.Meta(ge=0, lt=SLOTS)]
Row = tuple[Peer, Context, Metadata]


class WireCall(Generic[Q, A]):
    """One kind of request and its answer, with their decoders."""

    def __init__(self, name: str, request: Any, answer: Any) -> None:
        self.name = name
        self._request: msgspec.msgpack.Decoder[Q] = msgspec.msgpack.Decoder(request)
        self._answer: msgspec.msgpack.Decoder[A] = msgspec.msgpack.Decoder(answer)

    def request(self, data: bytes) -> Q:
        return self._decode(self._request, data)

    def answer(self, data: bytes) -> A:
        return self._decode(self._answer, data)

    def _decode(self, decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
        try:
            return decoder.decode(data)
        except msgspec.DecodeError as why:
            raise Invalid(f"invalid {self.name} message: {why}") from None


PUT: WireCall[tuple[int, Row, list[bytes], bool], None]
PUT = WireCall("put", tuple[int, Row, Annotated[list[Multihash], msgspec.Meta(max_length=PUT_MAX)], bool], None)
REMOVE: WireCall[tuple[int, str, bytes | None, bool], None]
REMOVE = WireCall("remove", tuple[int, Peer, Context | None, bool], None)
FIND: WireCall[tuple[int, list[bytes]], tuple[list[Row], list[list[int]]]]
FIND = WireCall("find", tuple[int, Annotated[list[Multihash], msgspec.Meta(max_length=FIND_MAX)]],
            tuple[list[Row], list[list[int]]])  # fmt: skip
SECOND: WireCall[tuple[int, list[bytes]], list[bytes | None]]
SECOND = WireCall(
    "second", tuple[int, Annotated[list[Multihash], msgspec.Meta(max_length=FIND_MAX)]], list[bytes | None]
)
VALUE: WireCall[tuple[int, bytes], Row | None]
VALUE = WireCall("value", tuple[int, Multihash], Row | None)
LIST: WireCall[tuple[int, str, bytes, bytes, int], list[bytes]]
LIST = WireCall("list", tuple[int, Peer, Context, Place, Limit], list[bytes])
SIZE: WireCall[tuple[int, str, bytes], int]
SIZE = WireCall("size", tuple[int, Peer, Context], int)
EXPORT: WireCall[tuple[int, list[int], bytes, int], tuple[list[Row], list[tuple[bytes, int]], int, bytes]]
EXPORT = WireCall(
    "export",
    tuple[int, Annotated[list[Slot], msgspec.Meta(max_length=EXPORT_SLOTS_MAX)], Place, Limit],
    tuple[list[Row], list[tuple[bytes, int]], int, bytes],
)
STATUS: WireCall[tuple[int], tuple[str, int, int, int, bool, tuple[int, int, int]]]
STATUS = WireCall("status", tuple[int], tuple[str, int, int, int, bool, tuple[int, int, int]])


def pack(node: object) -> bytes:
    return msgspec.msgpack.encode(node)


def row(value: IndexValue) -> Row:
    return value.provider, value.context, value.metadata


def intern_values(found: list[tuple[IndexValue, ...]]) -> tuple[list[Row], list[list[int]]]:
    """Each value once, and for each multihash the indexes of its values."""
    places: dict[IndexValue, int] = {}
    lists = [[places.setdefault(value, len(places)) for value in values] for values in found]
    return [row(value) for value in places], lists


def expand_values(answer: tuple[list[Row], list[list[int]]]) -> list[tuple[IndexValue, ...]]:
    rows, lists = answer
    values = [IndexValue(*each) for each in rows]
    try:
        return [tuple([values[at] for at in places]) for places in lists]
    except IndexError:
        raise Invalid("the answer of a query node refers to a value that it does not contain") from None
