"""Chunks that travel sealed: a node writes them as msgpack and never as objects, and only those shown are opened.

A front door is sent several times the files that it shows. What it needs to rank and cut them stays outside the seal.
"""

import msgspec

from argosy.base.errors import Unavailable
from argosy.search.model import Chunk, FileMatch, Line

_decoder = msgspec.msgpack.Decoder(tuple[Chunk, ...])
_line_decoder = msgspec.msgpack.Decoder(tuple[Line, ...])


def opened(file: FileMatch) -> FileMatch:
    """The file with its chunks to look at; itself if it is not sealed."""
    return msgspec.structs.replace(file, chunks=chunks_in(file.sealed), sealed=b"") if file.sealed else file


def chunks_in(sealed: bytes | memoryview) -> tuple[Chunk, ...]:
    """Unavailable if these are no chunks: whoever asked cannot mend that."""
    try:
        return _decoder.decode(sealed)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"what a node sealed are no chunks, is its version ours? {error}") from None


def lines_in(told: memoryview) -> tuple[Line, ...]:
    """Of what a kernel of this very process has written."""
    return _line_decoder.decode(told)
