"""The text atoms of a query and their matchers, created once and shared by all segments and threads."""

from collections.abc import Iterator
from typing import TypeAlias

from argosy.search.match.alternation_matcher import AlternationMatcher
from argosy.search.match.expression import Expression
from argosy.search.match.matchers import AtomMatcher, LiteralMatcher
from argosy.search.match.regex_matcher import RegexMatcher
from argosy.search.query.tree import And, Boost, Not, Or, Query, Regexp, Substring, Symbol, Type

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
