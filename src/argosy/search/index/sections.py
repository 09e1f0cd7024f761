"""The arrays of a segment by name and type: the list that measuring, verifying and sending share."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.search.arrays import freeze
from argosy.search.index.segment import DocTable, Postings, Segment, Symbols, Text

Array: TypeAlias = npt.NDArray[Any]

_TEXT = {"data": "u1", "starts": "<u4", "block_starts": "<u4", "block_docs": "<u4", "block_lines": "<u4"}
_GROUPS: Mapping[str, Mapping[str, str]] = {
    "content": _TEXT,
    "postings": {"present": "<u8", "ranks": "<u4", "offsets": "<u4", "blocks": "<u2"},
    "names": _TEXT,
    "symbols": {"starts": "<u4", "lengths": "<u2", "kinds": "u1", "points": "<u2", "parents": "<i4"},
    "table": {"languages": "<u2", "categories": "u1", "skips": "u1", "traits": "u1", "blob_ids": "u1"},
}

# Little-endian types of the sections, in the order of checksums and of the stream.
SECTIONS: Mapping[str, np.dtype[Any]] = {
    f"{group}.{field}": np.dtype(code) for group, fields in _GROUPS.items() for field, code in fields.items()
}
TWO_DIMENSIONAL = "table.blob_ids"  # the only one: documents by width


def sections(segment: Segment) -> Iterator[tuple[str, Array]]:
    """Each section's name and array."""
    for name in SECTIONS:
        group, field = name.split(".")
        yield name, getattr(getattr(segment, group), field)


def segment_fields(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The array fields of a segment with these sections, read-only."""

    def group(name: str) -> dict[str, Array]:
        return {field: freeze(arrays[f"{name}.{field}"]) for field in _GROUPS[name]}

    return {
        "content": Text(**group("content")),
        "postings": Postings(**group("postings")),
        "names": Text(**group("names")),
        "symbols": Symbols(**group("symbols")),
        "table": DocTable(**group("table")),
    }
