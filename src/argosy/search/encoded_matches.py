"""Decodes matches that a node returns as msgpack (`Options.pre_encoded`).

A gateway receives several times the files that it shows. Nodes encode chunks in kernels, without creating objects; what
the gateway needs to rank and limit files stays outside, and it decodes only the files that it shows.
"""

import msgspec

from argosy.base.errors import Unavailable
from argosy.search.model import Chunk, FileMatch, Line

_decoder = msgspec.msgpack.Decoder(tuple[Chunk, ...])
_line_decoder = msgspec.msgpack.Decoder(tuple[Line, ...])


def decode_matches(file: FileMatch) -> FileMatch:
    """The file with its chunks decoded; the same object if they are not encoded."""
    if not file.encoded_matches:
        return file
    return msgspec.structs.replace(file, chunks=decode_chunks(file.encoded_matches), encoded_matches=b"")


def decode_chunks(encoded: bytes | memoryview) -> tuple[Chunk, ...]:
    """Raises Unavailable if these are not chunks, because the caller cannot fix that."""
    try:
        return _decoder.decode(encoded)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"invalid matches from a node: {error}; check that all nodes run the same version") from None


def decode_lines(encoded: memoryview) -> tuple[Line, ...]:
    """Decodes lines that a kernel of this process has encoded."""
    return _line_decoder.decode(encoded)
