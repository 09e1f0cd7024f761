"""Which of many indexes have nothing to say to a query, told in one look.

Every match holds certain literals, whatever else the query asks. A part of an index in which no document has them all
is ruled out by one kernel for all parts; only the others are gone through one by one (`evaluate.py`), which takes a
hundred times longer, and would have said the same.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from argosy.search.index.kernel_tables import Roll
from argosy.search.index.segment import I64, Trait, frozen
from argosy.search.kernels.candidates import rows_with_all
from argosy.search.match.atoms import Atoms, TextAtom
from argosy.search.match.matchers import BEYOND_ASCII_CLASSES, Held
from argosy.search.query.tree import And, Boost, Query, Regexp, Scope, Substring, Symbol, Type

ENTRY_BYTES = np.dtype(np.uint16).itemsize  # of postings


class Ruling:
    """What a query cannot do without."""

    def __init__(self, held: list[Held]) -> None:
        self._keys: I64 = frozen(np.concatenate([each.keys for each in held]))
        self._firsts: I64 = frozen(np.cumsum([0, *(len(each.keys) for each in held)]))
        self._odd: I64 = frozen(np.array([each.odd_traits for each in held], np.int64))
        self._free: I64 = frozen(np.array([each.free_traits for each in held], np.int64))

    @classmethod
    def of(cls, query: Query, atoms: Atoms) -> "Ruling | None":
        """None if nothing is known that every match holds."""
        held = list(_held(query, atoms))
        return cls(held) if held else None

    def rows(self, roll: Roll, first: int, past: int) -> tuple[list[int], int, int]:
        """Those of the rows that are not ruled out, and what it took to rule out the others: keys and bytes."""
        rows, lookups, entries = rows_with_all(
            roll.choices, first, past, self._keys, self._firsts, self._odd, self._free, BEYOND_ASCII_CLASSES
        )
        return rows.tolist(), lookups, entries * ENTRY_BYTES


def _held(query: Query, atoms: Atoms) -> Iterator[Held]:
    match query:
        case And(children):
            for child in children:
                yield from _held(child, atoms)
        case Type(_, child) | Boost(child, _):
            yield from _held(child, atoms)
        case Symbol(name):
            yield from _of_atom(name, atoms)
        case Substring() | Regexp():
            free = 0 if query.scope is Scope.CONTENT else Trait.ODD_NAME
            for held in _of_atom(query, atoms):
                yield replace(held, free_traits=held.free_traits | free)
        case _:
            return


def _of_atom(atom: TextAtom, atoms: Atoms) -> Iterator[Held]:
    finder = atoms.finder(atom)
    if finder is not None:
        yield from finder.held
