"""Simplifies query trees, and reduces a query for one repository.

A simple tree has no constant but as its root or a Type's only child, no And in an And, no Or in an Or, no Not of a Not,
and no list of one. The order of children is preserved.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

from argosy.search.model import Repository
from argosy.search.query.tree import (
    FALSE,
    TRUE,
    Alias,
    And,
    Boost,
    BranchesRepos,
    Const,
    Flag,
    Language,
    Meta,
    Not,
    OnBranch,
    Or,
    Query,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Type,
)
from argosy.search.regex import Pattern

PATTERNS_CACHED_MAX = 256  # compiled patterns: each is matched against the name of every repository
HEAD = "HEAD"  # the first branch, whatever its name


def simplify(query: Query) -> Query:
    """An equivalent simple tree."""
    return _rebuild(query, lambda leaf: leaf)


def for_repository(query: Query, repository: Repository) -> Query:
    """The query reduced for the files of this repository; FALSE if none can match."""
    # By identity, because `_fold_leaf` returns the constant itself and comparing leaves would take longer.
    if isinstance(query, And) and any(_fold_leaf(child, repository) is FALSE for child in query.children):
        return FALSE  # the common case if a query names a repository, checked first
    return _rebuild(query, lambda leaf: _fold_leaf(leaf, repository))


def branch_mask(branch: OnBranch, repository: Repository) -> int:
    """The branches of the repository that the condition selects: bit i is the i-th. One without branches has a HEAD."""
    names = [each.name for each in repository.branches] or [HEAD]
    # Even if another branch is called HEAD: the name always means the first branch.
    if branch.name == HEAD:
        return 1
    is_selected = branch.name.__eq__ if branch.is_exact else lambda name: branch.name in name
    return sum(1 << i for i, name in enumerate(names) if is_selected(name))


def conjunction(children: Iterable[Query]) -> Query:
    """The conjunction of simple trees, as a simple tree."""
    parts = list(children)
    # A list of one keeps its meaning: a `type:repo` alone is not yet part of another tree.
    if len(parts) == 1:
        return parts[0]
    flat: list[Query] = []
    for child in map(_part, parts):
        if child == FALSE:
            return FALSE
        if child != TRUE:
            flat.extend(child.children if isinstance(child, And) else (child,))
    return And(tuple(flat)) if len(flat) > 1 else flat[0] if flat else TRUE


def disjunction(children: Iterable[Query]) -> Query:
    """The disjunction of simple trees, as a simple tree."""
    parts = list(children)
    if len(parts) == 1:
        return parts[0]
    flat: list[Query] = []
    for child in map(_part, parts):
        if child == TRUE:
            return TRUE
        if child != FALSE:
            flat.extend(child.children if isinstance(child, Or) else (child,))
    return Or(tuple(flat)) if len(flat) > 1 else flat[0] if flat else FALSE


def negation(child: Query) -> Query:
    """The negation of a simple tree, as a simple tree."""
    match _part(child):
        case Const(value):
            return Const(not value)
        case Not(inner):
            return inner
        case inner:
            return Not(inner)


def with_type(kind: ResultKind, child: Query) -> Query:
    """A simple tree with results of this kind, as a simple tree. File matches are the default and need no node."""
    if kind is ResultKind.FILE_MATCH:
        return child
    inner = _part(child)
    return FALSE if inner == FALSE else Type(kind, inner)


def with_boost(child: Query, factor: float) -> Query:
    """A simple tree with boosted scores, as a simple tree; constants have no scores."""
    inner = _part(child)
    return inner if isinstance(inner, Const) else Boost(inner, factor)


def _part(child: Query) -> Query:
    """A tree as part of another one: `type:repo` alone lists all repositories; as a part it is no condition."""
    return TRUE if isinstance(child, Type) and child.child == TRUE else child


def _rebuild(query: Query, leaf: Callable[[Query], Query]) -> Query:
    """The tree with other leaves, simplified from the leaves up."""
    match query:
        case And(children):
            return conjunction(_rebuild(child, leaf) for child in children)
        case Or(children):
            return disjunction(_rebuild(child, leaf) for child in children)
        case Not(child):
            return negation(_rebuild(child, leaf))
        case Type(kind, child):
            return with_type(kind, _rebuild(child, leaf))
        case Boost(child, factor):
            return with_boost(_rebuild(child, leaf), factor)
    return leaf(query)


def _fold_leaf(leaf: Query, repository: Repository) -> Query:
    """The leaf, or a constant if the repository alone decides it."""
    match leaf:
        case Repo(pattern):
            return _constant(_matches(pattern, repository.name))
        case RepoSet(names):
            return _constant(repository.name in names)
        case RepoIds(ids):
            return _constant(repository.id in ids)
        case Alias(name):
            return _constant(name in repository.aliases)
        case Flag(name, value):
            return _constant(repository.flags.get(name, False) is value)
        case Meta(name, pattern):
            return _constant(name in repository.metadata and _matches(pattern, repository.metadata[name]))
        # A name that is no language matches no file, not even one whose language is unknown.
        case Language(None):
            return FALSE
        case OnBranch():
            return _on_branch(leaf, repository)
        case BranchesRepos(pairs):
            selected = [OnBranch(name, is_exact=True) for name, ids in pairs if repository.id in ids]
            return disjunction(_on_branch(branch, repository) for branch in selected)
    return leaf


def _constant(value: bool) -> Const:
    return TRUE if value else FALSE


def _on_branch(branch: OnBranch, repository: Repository) -> Query:
    """Every file is on some branch, so a condition that selects all or none of them is a constant."""
    mask = branch_mask(branch, repository)
    if mask == 0:
        return FALSE
    # A repository without branches has one, HEAD.
    return TRUE if mask.bit_count() == max(1, len(repository.branches)) else branch


def _matches(pattern: str, text: str) -> bool:
    return _compile(pattern).matches(text.encode(errors="surrogateescape"))


# Cached, because a query is reduced for each of thousands of repositories, and compiling takes far longer than
# matching.
@lru_cache(PATTERNS_CACHED_MAX)
def _compile(pattern: str) -> Pattern:
    return Pattern.compile(pattern)
