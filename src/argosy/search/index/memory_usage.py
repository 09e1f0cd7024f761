"""What an index weighs in memory: the number that bids and evictions are made of.

Exact by construction: an index is its arrays, each of which owns its memory, and a few small objects around them. The
sum of what they say of themselves is what the process has grown by, but for what the allocator rounds up.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import numpy as np

from argosy.search.index.index import Index
from argosy.search.index.sections import SECTIONS, Array, sections

BRANCHES = "branches"
OBJECTS = "objects"  # whatever is no array
_TRACKING_BYTES = 16  # the garbage collector's share of a container


def memory_bytes(index: Index) -> int:
    """The memory that would be free if this index alone were dropped and no other shared a segment with it."""
    return sum(section_bytes(index).values())


def text_bytes(index: Index) -> int:
    """The text that is indexed, dead documents included."""
    return sum(part.segment.content.data.nbytes for part in index.parts)


def section_bytes(index: Index) -> dict[str, int]:
    """The same by section, over all segments."""
    table = dict.fromkeys([*SECTIONS, BRANCHES, OBJECTS], 0)
    seen: set[int] = set()
    for part in index.parts:
        for name, array in [*sections(part.segment), (BRANCHES, part.branches)]:
            if id(array) not in seen:
                seen.add(id(array))
                table[name] += _array_bytes(array)
    table[OBJECTS] = sum(_own_bytes(each) for each in _objects(index, seen))
    return table


def _array_bytes(array: Array) -> int:
    # A view would keep the whole of what it looks at alive; none is part of an index.
    assert array.base is None, "an array of an index owns its memory"
    return array.__sizeof__()


def _own_bytes(thing: object) -> int:
    is_container = not isinstance(thing, str | bytes | int | float)
    return thing.__sizeof__() + (_TRACKING_BYTES if is_container else 0)


def _objects(thing: Any, seen: set[int]) -> Iterator[object]:
    """The thing and everything it is made of but arrays, each once."""
    if thing is None or isinstance(thing, np.ndarray | bool) or id(thing) in seen:
        return
    seen.add(id(thing))
    yield thing
    if is_dataclass(thing):
        inner = [getattr(thing, field.name) for field in fields(thing)]
    elif isinstance(thing, msgspec.Struct):
        inner = [getattr(thing, name) for name in thing.__struct_fields__]
    elif isinstance(thing, dict):
        inner = [*thing.keys(), *thing.values()]
    else:
        inner = list(thing) if isinstance(thing, tuple) else []
    for each in inner:
        yield from _objects(each, seen)
