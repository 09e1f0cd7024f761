"""Metadata: by which protocols the content can be fetched, each with what that protocol needs to know.

An indexer keeps it as it is; only answers to delegated routing look inside.
"""

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
    """Several protocols at once, in the order that the format asks for."""
    ordered = sorted(parts, key=_code)
    return b"".join(ordered)


def _code(part: bytes) -> int:
    return varint.decode(part)[0]


def protocols(metadata: bytes) -> list[tuple[str, bytes]]:
    """Every protocol by its name in delegated routing, and its payload; Invalid if it cannot be told apart.

    A protocol that is not known is named by its number, and taken to have its length before its payload.
    """
    found = []
    at = 0
    while at < len(metadata):
        if metadata.count(0, at) == len(metadata) - at:
            break  # some write an empty payload behind HTTP
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
