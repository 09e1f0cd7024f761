"""Reduces a query with a wrong result to the smallest one that is still wrong, for a person to read.

Hypothesis would shrink the dice, which is slow, since thousands of them make one repository. This takes away files,
text and parts of the query instead, greedily, as long as the answer stays wrong.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import AnyStr

import re2

from argosy.search.query.tree import And, Boost, Not, Or, Query, Regexp, Scope, Substring, Symbol, Type
from tests.search.oracle.corpora import Checkout, without_clashes

ATTEMPTS_MAX = 1500


def smallest(case: Checkout, query: Query, is_wrong: Callable[[Checkout, Query], bool]) -> tuple[Checkout, Query]:
    attempts = 0
    at_work = True
    while at_work:
        at_work = False
        for smaller in candidates(case, query):
            attempts += 1
            if attempts > ATTEMPTS_MAX:
                return case, query
            if is_wrong(*smaller):
                (case, query), at_work = smaller, True
                break
    return case, query


def candidates(case: Checkout, query: Query) -> Iterator[tuple[Checkout, Query]]:
    yield from ((case, smaller) for smaller in smaller_queries(query))
    yield from ((smaller, query) for smaller in smaller_checkouts(case))


def smaller_queries(query: Query) -> Iterator[Query]:
    match query:
        case And(children) | Or(children):
            yield from children
            for place, child in enumerate(children):
                others = children[:place], children[place + 1 :]
                yield type(query)((*others[0], *others[1]))
                yield from (type(query)((*others[0], smaller, *others[1])) for smaller in smaller_queries(child))
        case Not(child) | Boost(child, _) | Type(_, child):
            yield child
            yield from (replace(query, child=smaller) for smaller in smaller_queries(child))
        case Symbol(name):
            yield from (Symbol(smaller) for smaller in smaller_leaves(name))
        case Substring() | Regexp():
            yield from smaller_leaves(query)


def smaller_leaves(leaf: Substring | Regexp) -> Iterator[Substring | Regexp]:
    if leaf.scope is Scope.ANY:
        yield replace(leaf, scope=Scope.CONTENT)
        yield replace(leaf, scope=Scope.FILE_NAME)
    if not leaf.is_case_sensitive:
        yield replace(leaf, is_case_sensitive=True)
    if isinstance(leaf, Substring):
        yield from (replace(leaf, text=text) for text in shorter(leaf.text) if text)
    else:
        yield from (replace(leaf, pattern=pattern) for pattern in shorter(leaf.pattern) if is_pattern(pattern))


def smaller_checkouts(case: Checkout) -> Iterator[Checkout]:
    for place, file in enumerate(case.files):
        before, after = case.files[:place], case.files[place + 1 :]
        yield replace(case, files=(*before, *after))
        for content in shorter(file.content):
            yield replace(case, files=without_clashes([*before, replace(file, content=content), *after]))


def shorter(text: AnyStr) -> Iterator[AnyStr]:
    """The text without a piece of it, large pieces first."""
    size = len(text)
    while size:
        for start in range(0, len(text), size):
            yield text[:start] + text[start + size :]
        size //= 2


def is_pattern(pattern: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern.encode(), options)
    except re2.error:
        return False
    return True
