"""Filters out index parts without candidates before a search.

Every match of a query contains certain literals. A single kernel call checks all parts and skips those in which no
document has all literals. Only the others are evaluated one by one (`evaluate.py`), which takes a hundred times longer
per part and would find nothing in the skipped ones.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from argosy.search.arrays import I64, freeze
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.index.segment import Trait
from argosy.search.kernels.candidates import parts_with_all
from argosy.search.match.atoms import Atoms, TextAtom
from argosy.search.match.matchers import BEYOND_ASCII_CLASSES, RequiredTrigrams
from argosy.search.query.tree import And, Boost, Query, Regexp, Scope, Substring, Symbol, Type

ENTRY_BYTES = np.dtype(np.uint16).itemsize  # bytes of a posting entry


class IndexFilter:
    """The trigrams that every match of a query contains."""

    def __init__(self, held: list[RequiredTrigrams]) -> None:
        self._keys: I64 = freeze(np.concatenate([each.keys for each in held]))
        self._firsts: I64 = freeze(np.cumsum([0, *(len(each.keys) for each in held)]))
        self._odd: I64 = freeze(np.array([each.odd_traits for each in held], np.int64))
        self._free: I64 = freeze(np.array([each.free_traits for each in held], np.int64))

    @classmethod
    def of(cls, query: Query, atoms: Atoms) -> "IndexFilter | None":
        """None if the query has no required trigrams."""
        held = list(_required_trigrams(query, atoms))
        return cls(held) if held else None

    def rows(self, tables: KernelTables, first: int, past: int) -> tuple[list[int], int, int]:
        """The rows that are not skipped, and the keys and bytes read for the skipped ones."""
        rows, lookups, entries = parts_with_all(
            tables.choices, first, past, self._keys, self._firsts, self._odd, self._free, BEYOND_ASCII_CLASSES
        )
        return rows.tolist(), lookups, entries * ENTRY_BYTES


def _required_trigrams(query: Query, atoms: Atoms) -> Iterator[RequiredTrigrams]:
    match query:
        case And(children):
            for child in children:
                yield from _required_trigrams(child, atoms)
        case Type(_, child) | Boost(child, _):
            yield from _required_trigrams(child, atoms)
        case Symbol(name):
            yield from _of_atom(name, atoms)
        case Substring() | Regexp():
            free = 0 if query.scope is Scope.CONTENT else Trait.ODD_NAME
            for held in _of_atom(query, atoms):
                yield replace(held, free_traits=held.free_traits | free)
        case _:
            return


def _of_atom(atom: TextAtom, atoms: Atoms) -> Iterator[RequiredTrigrams]:
    matcher = atoms.matcher(atom)
    if matcher is not None:
        yield from matcher.required_trigrams
