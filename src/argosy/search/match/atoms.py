"""The text atoms of a query: their matchers, and the index parts that they filter out before a search.

Matchers are created once and shared by all segments and threads. Every match of a query contains certain literals: a
single kernel call checks all parts and skips those in which no document has all literals. Only the others are evaluated
one by one (`evaluate.py`), which takes a hundred times longer per part and would find nothing in the skipped ones.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from argosy.search.arrays import I64, freeze
from argosy.search.index.index import Trait
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.kernels.candidates import parts_with_all
from argosy.search.match.expression import Expression
from argosy.search.match.matchers import (
    BEYOND_ASCII_CLASSES,
    AlternationMatcher,
    AtomMatcher,
    LiteralMatcher,
    RequiredTrigrams,
)
from argosy.search.match.regex_matcher import RegexMatcher
from argosy.search.query.tree import And, Boost, Not, Or, Query, Regexp, Scope, Substring, Symbol, Type

TextAtom: TypeAlias = Substring | Regexp
_UNFINDABLE = "\0"  # no document contains a NUL, which separates them


class Atoms:
    """Matchers by atom, keyed by id(): reducing a query preserves the atom objects."""

    def __init__(self, query: Query) -> None:
        self._query = query  # keeps the atoms alive, so that their ids stay valid
        self._matchers = {id(atom): matcher_for(atom) for atom in text_atoms(query) if not is_impossible(atom)}

    def matcher(self, atom: TextAtom) -> AtomMatcher | None:
        """None if the atom cannot match."""
        return self._matchers.get(id(atom))


def matcher_for(atom: TextAtom) -> AtomMatcher:
    """A literal matcher if the bytes of the text decide, else RE2."""
    if isinstance(atom, Regexp):
        expression = Expression(atom.pattern, is_case_sensitive=atom.is_case_sensitive)
        return (
            AlternationMatcher(expression.literal_set, expression)
            if expression.literal_set
            else RegexMatcher(expression)
        )
    data = atom.text.encode("utf-8", "surrogateescape")
    # A literal is scanned within blocks, which a match with a newline can span; and beyond ASCII, one letter can have
    # several forms in bytes.
    if "\n" in atom.text or not (atom.is_case_sensitive or data.isascii()):
        return RegexMatcher(Expression.of_text(atom.text, is_case_sensitive=atom.is_case_sensitive))
    return LiteralMatcher(data, is_folded=not atom.is_case_sensitive)


def is_impossible(atom: TextAtom) -> bool:
    return isinstance(atom, Substring) and _UNFINDABLE in atom.text


def text_atoms(query: Query) -> Iterator[TextAtom]:
    match query:
        case Substring() | Regexp():
            yield query
        case Symbol(name):
            yield name
        case And(children) | Or(children):
            for child in children:
                yield from text_atoms(child)
        case Not(child) | Type(_, child) | Boost(child, _):
            yield from text_atoms(child)
        case _:
            return


ENTRY_BYTES = np.dtype(np.uint16).itemsize  # bytes of a posting entry


class IndexFilter:
    """The trigrams that every match of a query contains."""

    def __init__(self, required: list[RequiredTrigrams]) -> None:
        self._keys: I64 = freeze(np.concatenate([each.keys for each in required]))
        self._firsts: I64 = freeze(np.cumsum([0, *(len(each.keys) for each in required)]))
        self._odd: I64 = freeze(np.array([each.odd_traits for each in required], np.int64))
        self._free: I64 = freeze(np.array([each.free_traits for each in required], np.int64))

    @classmethod
    def of(cls, query: Query, atoms: Atoms) -> "IndexFilter | None":
        """None if the query has no required trigrams."""
        required = list(_required_trigrams(query, atoms))
        return cls(required) if required else None

    def rows(self, tables: KernelTables, first: int, past: int) -> tuple[list[int], int, int]:
        """The rows that are not skipped, and the keys and bytes read for the skipped ones."""
        rows, lookups, entries = parts_with_all(
            tables.candidate_rows, first, past, self._keys, self._firsts, self._odd, self._free, BEYOND_ASCII_CLASSES
        )
        return rows.tolist(), lookups, entries * ENTRY_BYTES


def _required_trigrams(query: Query, atoms: Atoms) -> Iterator[RequiredTrigrams]:
    match query:
        case And(children):
            for child in children:
                yield from _required_trigrams(child, atoms)
        # `Or` and `Not` are missing on purpose: a match need not contain any single one of their literals.
        case Type(_, child) | Boost(child, _):
            yield from _required_trigrams(child, atoms)
        case Symbol(name):
            yield from _of_atom(name, atoms)
        case Substring() | Regexp():
            # An odd name is matched whatever the trigrams say, so such a document can match without them.
            free = 0 if query.scope is Scope.CONTENT else Trait.ODD_NAME
            for required in _of_atom(query, atoms):
                yield replace(required, free_traits=required.free_traits | free)
        case _:
            return


def _of_atom(atom: TextAtom, atoms: Atoms) -> Iterator[RequiredTrigrams]:
    matcher = atoms.matcher(atom)
    if matcher is not None:
        yield from matcher.required_trigrams
