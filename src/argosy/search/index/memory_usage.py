"""The memory usage of an index, on which bids and evictions are based.

It is exact by construction: an index consists of arrays, each of which owns its memory, and a few small objects. The
sum of their sizes is the growth of the process, except for rounding by the allocator.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import numpy as np

from argosy.search.index.index import Index
from argosy.search.index.sections import SECTIONS, Array, sections

BRANCHES = "branches"
OBJECTS = "objects"  # everything but arrays
_TRACKING_BYTES = 16  # the garbage collector's header of a container


def memory_bytes(index: Index) -> int:
    """The memory freed by dropping this index if no other index shares a segment with it."""
    return sum(section_bytes(index).values())


def text_bytes(index: Index) -> int:
    """The size of the indexed text, including deleted documents."""
    return sum(part.segment.content.data.nbytes for part in index.parts)


def section_bytes(index: Index) -> dict[str, int]:
    """Memory by section, over all segments."""
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
    # A view would keep its whole base array alive.
    assert array.base is None, "an array of an index owns its memory"
    return array.__sizeof__()


def _own_bytes(thing: object) -> int:
    is_container = not isinstance(thing, str | bytes | int | float)
    return thing.__sizeof__() + (_TRACKING_BYTES if is_container else 0)


def _objects(thing: Any, seen: set[int]) -> Iterator[object]:
    """The object and all objects it refers to except arrays, each once."""
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
