"""Facets: counts of the shown files by language and by repository, with queries that narrow to one of them.

A narrowed query is the original and one more condition. Its text is parsed again to check that; where appending to the
text changes the meaning, the query is formatted from its tree instead.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from argosy.gateway.ui.links import search_url
from argosy.search.model import FileMatch
from argosy.search.query import QuerySyntaxError, format_query, parse
from argosy.search.query.simplify import conjunction
from argosy.search.query.tree import Language, Query, Repo, Type

SHOWN_MAX = 12  # per facet, the largest first
NO_LANGUAGE = "other"

# Not `re.escape`, which also escapes hyphens and blanks: the query is shown to users.
_SPECIAL = re.compile(r"[.^$*+?()\[\]{}|\\]")  # characters with a meaning in patterns


@dataclass(frozen=True, slots=True)
class Facet:
    """One value with its file count. The URL narrows to it, or removes the condition if it is applied already."""

    name: str
    files: int
    url: str
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Facets:
    languages: tuple[Facet, ...] = ()
    repositories: tuple[Facet, ...] = ()
    more_languages: int = 0
    more_repositories: int = 0


def facets(text: str, files: Iterable[FileMatch], *, files_max: int = 0, context: int = 0) -> Facets:
    """`text` is the query as typed; the other arguments are kept in the URLs."""
    found = list(files)
    languages = Counter(file.language or NO_LANGUAGE for file in found)
    repositories = Counter(file.repository for file in found)

    def build(counts: Counter[str], leaf_of: Callable[[str], Query]) -> tuple[Facet, ...]:
        largest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:SHOWN_MAX]
        return tuple(_facet(text, name, count, leaf_of(name), files_max, context) for name, count in largest)

    return Facets(
        build(languages, language_leaf),
        build(repositories, repository_leaf),
        max(0, len(languages) - SHOWN_MAX),
        max(0, len(repositories) - SHOWN_MAX),
    )


def language_leaf(name: str) -> Query:
    return Language(name if name != NO_LANGUAGE else "")


def repository_leaf(name: str) -> Query:
    return Repo("^" + _SPECIAL.sub(r"\\\g<0>", name) + "$")


def _facet(text: str, name: str, files: int, leaf: Query, files_max: int, context: int) -> Facet:
    word = format_query(leaf)
    is_chosen = bool(_places(text, word))
    narrowed = without(text, word) if is_chosen else narrow(text, leaf)
    url = search_url(narrowed, files=files_max, context=context) if narrowed is not None else ""
    return Facet(name, files, url, is_chosen)


def narrow(text: str, leaf: Query) -> str | None:
    """The query with one more condition; None if no text expresses it."""
    whole = parse(text)
    wanted, word = _with(whole.query, leaf), format_query(leaf)
    # Appended, so that what the user typed stays as it is. With parentheses if the text has an `or` at its top, which
    # binds less tightly.
    for added in (f"{text.strip()} {word}", f"({text.strip()}) {word}"):
        if _means(added, wanted):
            return added
    count = f" count:{whole.count or 'all'}" if whole.count is not None else ""
    rewritten = format_query(wanted) + count
    return rewritten if _means(rewritten, wanted) else None


def without(text: str, word: str) -> str:
    """The query without a condition that a facet added."""
    places = _places(text, word)
    at = places[-1] if places else len(text)
    return (text[:at].rstrip() + " " + text[at + len(word) :].lstrip()).strip()


def _places(text: str, word: str) -> list[int]:
    """Positions of the word as a condition of its own."""
    return [
        found.start()
        for found in re.finditer(rf"(?<!\S){re.escape(word)}(?!\S)", text)
        if text.count('"', 0, found.start()) % 2 == 0  # not inside quotes
    ]


def _with(query: Query, leaf: Query) -> Query:
    """`type:` applies to the whole query, so the condition goes inside."""
    if isinstance(query, Type):
        return Type(query.kind, conjunction([query.child, leaf]))
    return conjunction([query, leaf])


def _means(text: str, wanted: Query) -> bool:
    try:
        return parse(text).query == wanted
    except QuerySyntaxError:
        return False
