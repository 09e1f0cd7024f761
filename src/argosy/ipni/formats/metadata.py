"""Metadata: the protocols by which content can be fetched, each with its parameters.

Indexers store metadata as opaque bytes; only answers to delegated routing decode it. A label is a protocol of our own
in it, which names a repository and its commit in full, because a context has 64 bytes and may cut the name (decision
30).
"""

from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag_cbor, varint
from argosy.ipni.formats.cid import Cid

BITSWAP = 0x0900
GRAPHSYNC = 0x0910
HTTP = 0x0920
PIECE_HTTP = 0x0930
NAMES = {
    BITSWAP: "transport-bitswap",
    GRAPHSYNC: "transport-graphsync-filecoinv1",
    HTTP: "transport-ipfs-gateway-http",
    PIECE_HTTP: "transport-filecoin-piece-http",
}


def bitswap() -> bytes:
    return varint.encode(BITSWAP)


def http() -> bytes:
    return varint.encode(HTTP)


def piece_http() -> bytes:
    return varint.encode(PIECE_HTTP)


def graphsync(piece: Cid, *, is_verified: bool, is_fast: bool) -> bytes:
    node = dag_cbor.encode({"PieceCID": piece, "VerifiedDeal": is_verified, "FastRetrieval": is_fast})
    return varint.encode(GRAPHSYNC) + node


def join(*parts: bytes) -> bytes:
    """Joins the metadata of several protocols in ascending order of their codes, as the format requires."""
    ordered = sorted(parts, key=_code)
    return b"".join(ordered)


def _code(part: bytes) -> int:
    return varint.decode(part)[0]


def protocols(metadata: bytes) -> list[tuple[str, bytes]]:
    """Every protocol by its name in delegated routing, and its payload; raises Invalid if they cannot be separated.

    An unknown protocol is named by its code; its payload is assumed to have a length prefix, as in go-libipni.
    """
    found = []
    at = 0
    while at < len(metadata):
        if metadata.count(0, at) == len(metadata) - at:
            break  # some publishers write an empty payload after HTTP
        code, at = varint.decode(metadata, at)
        end = _payload_end(code, metadata, at)
        found.append((NAMES.get(code, f"transport-{code:#x}"), metadata[at:end]))
        at = end
    return found


def _payload_end(code: int, metadata: bytes, at: int) -> int:
    match code:
        case 0:
            raise Invalid("zeros stand between the protocols of metadata")
        case 0x0900 | 0x0920 | 0x0930:
            return at
        case 0x0910:
            return dag_cbor.decode_at(metadata, at)[1]
    return varint.decode_bytes(metadata, at)[1]


LABEL_CODE = 0x3A7605  # in the range that multicodec reserves for private use: other clients skip it
LABEL_NAME_BYTES_MAX = 768  # of the 1024 bytes of all metadata
LABEL_VERSION_CHARS_MAX = 128

_NAME = f"transport-{LABEL_CODE:#x}"


@dataclass(frozen=True)
class Label:
    """The name and version of what a context contains: a repository and its commit."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


def encode_label(label: Label) -> bytes:
    """The label's part of the metadata, for `join`."""
    # Cut by bytes; "ignore" drops a character that was cut in half.
    name = label.name.encode("utf-8", "replace")[:LABEL_NAME_BYTES_MAX].decode("utf-8", "ignore")
    version = label.version.encode("ascii", "replace")[:LABEL_VERSION_CHARS_MAX].decode()
    return varint.encode(LABEL_CODE) + varint.encode_bytes(dag_cbor.encode({"name": name, "version": version}))


def decode_label(data: bytes) -> Label | None:
    """The label in the metadata; None if there is no readable one, because the metadata may come from any publisher."""
    try:
        payload = next((found for name, found in protocols(data) if name == _NAME), None)
        node = None if payload is None else dag_cbor.decode(varint.decode_bytes(payload, 0)[0])
    except Invalid:
        return None
    match node:
        case {"name": str(name), "version": str(version)}:
            return Label(name, version)
    return None
