"""Short constructors of trees."""

from argosy.search.query.tree import And, Not, Or, Query, Regexp, Scope, Substring


def text(value: str, *, cased: bool = False, scope: Scope = Scope.ANY) -> Substring:
    return Substring(value, cased, scope)


def regex(pattern: str, *, cased: bool = False, scope: Scope = Scope.ANY) -> Regexp:
    return Regexp(pattern, cased, scope)


def name(value: str, *, cased: bool = False) -> Substring:
    return Substring(value, cased, Scope.FILE_NAME)


def content(value: str, *, cased: bool = False) -> Substring:
    return Substring(value, cased, Scope.CONTENT)


def both(*children: Query) -> And:
    return And(children)


def either(*children: Query) -> Or:
    return Or(children)


def no(child: Query) -> Not:
    return Not(child)
