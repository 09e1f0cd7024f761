"""Encodes query trees for search nodes, and decodes them again.

A gateway parses a query once. What it sends to its nodes is the tree, so that a node runs no parser and cannot read the
query differently. An encoded query is a msgpack array `[QUERY_VERSION, tree]`; a node of the tree is an array of its
tag and its fields, and the children of `and` and `or` follow the tag:

    [1, ["and", ["repo", "acme"], ["text", "needle", false, "any"]]]

The bytes come from the network, so decoding is strict and bounded: anything but a tree that this version writes is
Invalid, before memory or time is spent on it.
"""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NoReturn

import msgspec

from argosy.base.errors import Invalid
from argosy.search.query.leaves import SPECIAL, STEPS_MAX, steps
from argosy.search.query.lex import NESTING_MAX
from argosy.search.query.tree import (
    Alias,
    And,
    Boost,
    BranchesRepos,
    Const,
    FileNameSet,
    Flag,
    Language,
    Meta,
    Not,
    OnBranch,
    Or,
    Query,
    Regexp,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Scope,
    Substring,
    Symbol,
    Type,
)
from argosy.search.regex import parse_regex

QUERY_VERSION = 1  # increase it with every change that an older node would reject or, worse, read differently

QUERY_BYTES_MAX = 1 << 20  # the text of a query has 10,000 characters at most; the rest is for sets built by programs
NODES_MAX = 10_000  # a query has 1,000 atoms, each with a `sym:`, a `-` and the operators that join it
DEPTH_MAX = 4 * (NESTING_MAX + 1) + 3  # a group can be And, Or, Type and Not at once; a leaf has a Not and a Symbol

SHOWN_CHARACTERS_MAX = 80  # of a malformed node, in the error

_FLAGS = frozenset(("archived", "fork", "public"))


class UnsupportedQueryVersion(Invalid):
    """The query was encoded by another version of argosy. Its own status, because the query itself is not at fault:
    a gateway must answer without this node rather than reject the query."""

    status = 501

    def __init__(self, version: int) -> None:
        outdated = "this node" if version > QUERY_VERSION else "the gateway"
        super().__init__(
            f"unsupported query version {version}: this node reads version {QUERY_VERSION}; upgrade {outdated}"
        )


def encode_query(query: Query) -> bytes:
    """The query as bytes; equal queries have equal bytes, so these serve as a cache key. Invalid above the bounds."""
    try:
        body = msgspec.msgpack.encode((QUERY_VERSION, _to_plain(query)))
    # Only trees built by programs can be so deep; the parser bounds nesting.
    except RecursionError:
        raise Invalid(f"query too deep: nested more than {DEPTH_MAX} levels; use fewer groups") from None
    if len(body) > QUERY_BYTES_MAX:
        raise Invalid(f"query too large: {len(body)} bytes encoded, limit {QUERY_BYTES_MAX}; use fewer names")
    return body


def decode_query(data: bytes) -> Query:
    """The tree again. UnsupportedQueryVersion for another version, Invalid for anything else that is no query."""
    # Before decoding, which would allocate for whatever the bytes claim.
    if len(data) > QUERY_BYTES_MAX:
        raise Invalid(f"invalid query: {len(data)} bytes, limit {QUERY_BYTES_MAX}")
    try:
        body = msgspec.msgpack.decode(data)
    except (ValueError, RecursionError) as error:  # msgspec's errors, and text that is not UTF-8, are ValueErrors
        raise Invalid(f"invalid query: {error}") from None
    # The version comes first and is checked alone: what follows it may have any form in another version.
    # `type(...) is int`, because True is an int to isinstance.
    if not isinstance(body, list) or not body or type(body[0]) is not int:
        raise Invalid("invalid query: no version")
    # Before the length: another version may append fields.
    if body[0] != QUERY_VERSION:
        raise UnsupportedQueryVersion(body[0])
    if len(body) != 2:
        raise Invalid("invalid query: not one tree")
    return _Decoder().node(body[1])


# -- encoding ----------------------------------------------------------------------------------------------------------


def _to_plain(query: Query) -> tuple[object, ...]:
    match query:
        case Substring(text, is_case_sensitive, scope):
            return "text", _plain_text(text), is_case_sensitive, scope.value
        case Regexp(pattern, is_case_sensitive, scope):
            return "regex", _plain_text(pattern), is_case_sensitive, scope.value
        case And(children):
            return "and", *map(_to_plain, children)
        case Or(children):
            return "or", *map(_to_plain, children)
        case Not(child):
            return "not", _to_plain(child)
        case Repo(pattern):
            return "repo", _plain_text(pattern)
        case Language(name):
            return "lang", None if name is None else _plain_text(name)
        case Symbol(name):
            return "sym", _to_plain(name)
        case Type(kind, child):
            return "type", kind.value, _to_plain(child)
        case Const(value):
            return "const", value
        case OnBranch(name, is_exact):
            return "branch", _plain_text(name), is_exact
        case Flag(name, value):
            return "flag", name, value
        case Alias(name):
            return "alias", _plain_text(name)
        case Meta(name, pattern):
            return "meta", _plain_text(name), _plain_text(pattern)
        case RepoSet(names):
            return "repos", _plain_texts(names)
        case RepoIds(ids):
            # Sorted, so that equal queries have equal bytes: sets have no order.
            return "repo-ids", sorted(ids)
        case BranchesRepos(pairs):
            return "branches-repos", *((_plain_text(name), sorted(ids)) for name, ids in pairs)
        case FileNameSet(names):
            return "files", _plain_texts(names)
        case Boost(child, factor):
            return "boost", _to_plain(child), float(factor)


def _plain_text(text: str) -> str | bytes:
    """The text, or its bytes if they are not valid UTF-8: names of repositories and files may have any."""
    try:
        text.encode()
    # Surrogates stand for bytes that are not UTF-8; msgpack has a type for bytes.
    except UnicodeEncodeError:
        return _raw_bytes(text)
    return text


def _plain_texts(texts: Iterable[str]) -> list[str | bytes]:
    return [_plain_text(text) for text in sorted(texts)]


def _raw_bytes(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise Invalid(
            f"invalid query: character {error.start + 1} of {text[:SHOWN_CHARACTERS_MAX]!r} is half of a surrogate pair"
        ) from None


# -- decoding ----------------------------------------------------------------------------------------------------------

_SCOPES = {scope.value: scope for scope in Scope}
_KINDS = {kind.value: kind for kind in ResultKind}


class _Decoder:
    """Decodes one tree, and counts what its nodes share a bound of."""

    def __init__(self) -> None:
        self._nodes = 0
        self._steps = 0

    def node(self, plain: object, depth: int = 1) -> Query:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise Invalid(f"invalid query: more than {NODES_MAX} nodes")
        if depth > DEPTH_MAX:  # searching recurses into the tree as well
            raise Invalid(f"invalid query: nested more than {DEPTH_MAX} levels")
        match plain:  # the most frequent first: cases are tried in order
            case ["text", str() | bytes() as text, bool() as is_case_sensitive, str() as scope] if scope in _SCOPES:
                return Substring(_text(text), is_case_sensitive, _SCOPES[scope])
            case ["regex", str() as pattern, bool() as is_case_sensitive, str() as scope] if scope in _SCOPES:
                return Regexp(self._check_cost(pattern), is_case_sensitive, _SCOPES[scope])
            case ["and", *children]:
                return And(tuple([self.node(child, depth + 1) for child in children]))
            case ["or", *children]:
                return Or(tuple([self.node(child, depth + 1) for child in children]))
            case ["not", child]:
                return Not(self.node(child, depth + 1))
            case ["repo", str() as pattern]:
                return Repo(self._check_cost(pattern))
            # Anything but a text below a symbol is malformed: it falls through to the error below.
            case ["sym", child]:
                name = self.node(child, depth + 1)
                if isinstance(name, Substring | Regexp):
                    return Symbol(name)
            case ["type", str() as kind, child] if kind in _KINDS:
                return Type(_KINDS[kind], self.node(child, depth + 1))
            case ["boost", child, float() as factor] if isfinite(factor):
                return Boost(self.node(child, depth + 1), factor)
            case [str(), *_]:
                return self._leaf(plain)
        raise _malformed_node(plain)

    def _leaf(self, plain: Sequence[object]) -> Query:
        """A leaf that few queries have."""
        match plain:
            case ["lang", str() | bytes() as name]:
                return Language(_text(name))
            case ["lang", None]:
                return Language(None)
            case ["const", bool() as value]:
                return Const(value)
            case ["branch", str() | bytes() as name, bool() as is_exact]:
                return OnBranch(_text(name), is_exact)
            case ["flag", str() as name, bool() as value] if name in _FLAGS:
                return Flag(name, value)
            case ["alias", str() | bytes() as name]:
                return Alias(_text(name))
            case ["meta", str() | bytes() as name, str() as pattern]:
                return Meta(_text(name), self._check_cost(pattern))
            case ["repos", list() as names]:
                return RepoSet(_texts(names))
            case ["files", list() as names]:
                return FileNameSet(_texts(names))
            case ["repo-ids", list() as ids]:
                return RepoIds(_ids(ids))
            case ["branches-repos", *pairs]:
                return BranchesRepos(tuple([_branch_repos(pair) for pair in pairs]))
        raise _malformed_node(plain)

    def _check_cost(self, pattern: str) -> str:
        """The pattern, if RE2 compiles it together with those before it within the bound that the parser has.

        Whether it is valid is found where it is compiled, which also raises Invalid.
        """
        # A pattern without special characters costs a step per character, so most need not be parsed here.
        self._steps += len(pattern) if SPECIAL.isdisjoint(pattern) else steps(parse_regex(pattern))
        if self._steps > STEPS_MAX:
            raise Invalid("invalid query: the regexes are too large together")
        return pattern


def _branch_repos(plain: object) -> tuple[str, frozenset[int]]:
    match plain:
        case [str() | bytes() as name, list() as ids]:
            return _text(name), _ids(ids)
    raise _malformed_node(plain)


def _text(plain: str | bytes) -> str:
    return plain if isinstance(plain, str) else plain.decode(errors="surrogateescape")


def _texts(plain: list[object]) -> frozenset[str]:
    return frozenset([_text(each) if isinstance(each, str | bytes) else _reject(each) for each in plain])


def _ids(plain: list[object]) -> frozenset[int]:
    return frozenset([each if type(each) is int else _reject(each) for each in plain])  # a bool is an int, too


def _reject(plain: object) -> NoReturn:
    raise _malformed_node(plain)


def _malformed_node(plain: object) -> Invalid:
    """The error shows the tag alone: what is below it may be large, and nested deeper than repr() can follow."""
    match plain:
        case [str() as tag, *_]:
            return Invalid(f"invalid query: malformed node {tag[:SHOWN_CHARACTERS_MAX]!r}")
    return Invalid(f"invalid query: malformed node of type {type(plain).__name__}")
