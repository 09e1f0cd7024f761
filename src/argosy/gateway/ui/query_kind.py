"""What kind of answer a query wants: files, or the repositories themselves."""

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
    """Whether people want a list of repositories: `type:repo`, or nothing is said about files.

    Wider than what zoekt's programs are answered: `archived:no repo:x` names no file, and so lists repositories.
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
