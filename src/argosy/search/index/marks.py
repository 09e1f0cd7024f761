"""Definitions of many documents gathered into the arrays of a segment, because there are millions."""

from array import array
from collections.abc import Sequence

import numpy as np

from argosy.search.documents import Definition
from argosy.search.index.segment import Symbols, frozen
from argosy.search.symbols import KINDS, points

NAME_BYTES_MAX = 0xFFFF  # a longer name is known by its beginning: lengths have 16 bits

_CAPITALS = frozenset(range(ord("A"), ord("Z") + 1))
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


class Marks:
    """The definitions so far, in text order."""

    def __init__(self) -> None:
        self._starts = array("I")
        self._lengths = array("H")
        self._kinds = array("B")
        self._points = array("H")
        self._parents = array("i")

    def add(self, definitions: Sequence[Definition], start: int, *, language: str, path: bytes, content: bytes) -> None:
        """The definitions of a document that begins at `start` of the segment's text."""
        first = len(self._starts)
        # Of its name, what a definition is worth depends on the case of the first letter at most.
        forms = [(each.kind, content[each.start] in _CAPITALS) for each in definitions]
        worth = {form: points(language, form[0], path, b"A" if form[1] else b"a") for form in set(forms)}
        self._starts.extend([start + each.start for each in definitions])
        self._lengths.extend([min(each.length, NAME_BYTES_MAX) for each in definitions])
        self._kinds.extend([_NUMBERS[each.kind] for each in definitions])
        self._points.extend([worth[form] for form in forms])
        self._parents.extend([each.parent if each.parent < 0 else each.parent + first for each in definitions])

    def finish(self) -> Symbols:
        """The arrays."""
        symbols = Symbols(
            starts=frozen(np.array(self._starts, np.uint32)),
            lengths=frozen(np.array(self._lengths, np.uint16)),
            kinds=frozen(np.array(self._kinds, np.uint8)),
            points=frozen(np.array(self._points, np.uint16)),
            parents=frozen(np.array(self._parents, np.int32)),
        )
        assert bool((symbols.starts[1:] >= symbols.starts[:-1]).all()), "definitions come in text order"
        return symbols
