"""The text atoms of a query, each with what looks for it: made once, shared by all segments and threads."""

from collections.abc import Iterator
from typing import TypeAlias

from argosy.search.match.alternation_matcher import TextsFinder
from argosy.search.match.expression import Expression
from argosy.search.match.matchers import Finder, LiteralFinder
from argosy.search.match.regex_matcher import RegexFinder
from argosy.search.query.tree import And, Boost, Not, Or, Query, Regexp, Substring, Symbol, Type

TextAtom: TypeAlias = Substring | Regexp
_UNFINDABLE = "\0"  # documents hold no NUL: it stands between them


class Atoms:
    """Finders by atom. Reducing a query keeps its atoms, the very objects, so they are known by identity."""

    def __init__(self, query: Query) -> None:
        self._query = query  # keeps the atoms, and so their identities
        self._finders = {id(atom): finder_of(atom) for atom in text_atoms(query) if not is_impossible(atom)}

    def finder(self, atom: TextAtom) -> Finder | None:
        """None if nothing can match the atom."""
        return self._finders.get(id(atom))


def finder_of(atom: TextAtom) -> Finder:
    """A literal where the text's bytes decide; else RE2."""
    if isinstance(atom, Regexp):
        expression = Expression(atom.pattern, is_case_sensitive=atom.is_case_sensitive)
        return TextsFinder(expression.finite, expression) if expression.finite else RegexFinder(expression)
    data = atom.text.encode("utf-8", "surrogateescape")
    if "\n" in atom.text or not (atom.is_case_sensitive or data.isascii()):
        return RegexFinder(Expression.of_text(atom.text, is_case_sensitive=atom.is_case_sensitive))
    return LiteralFinder(data, is_folded=not atom.is_case_sensitive)


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
