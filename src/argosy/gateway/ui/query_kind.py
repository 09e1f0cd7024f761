"""Decides whether a query lists files or repositories."""

from argosy.search.query.tree import (
    Alias,
    And,
    Boost,
    Const,
    Flag,
    Kind,
    Meta,
    Not,
    Or,
    Query,
    Repo,
    RepoIds,
    RepoSet,
    Type,
)


def asks_for_repositories(query: Query) -> bool:
    """Whether the result is a list of repositories: `type:repo`, or no condition on files.

    Wider than zoekt's API: `archived:no repo:x` has no condition on files, so the page lists repositories.
    """
    if isinstance(query, Type):
        return query.kind is Kind.REPO or asks_for_repositories(query.child)
    return not isinstance(query, Const) and _is_about_repositories(query)


def _is_about_repositories(query: Query) -> bool:
    match query:
        case And(children) | Or(children):
            return all(_is_about_repositories(child) for child in children)
        case Not(child) | Boost(child, _):
            return _is_about_repositories(child)
        case _:
            return isinstance(query, Repo | RepoSet | RepoIds | Alias | Flag | Meta | Const)
