"""Formats a query tree in the query language, so that a displayed query can be used again.

`parse(format_query(query))` is the query again for every tree that the parser builds, within its bounds. Leaves
that only programs can create are shown in angle brackets and cannot be parsed.
"""

import re
from collections.abc import Collection, Iterator
from enum import IntEnum

from argosy.search.query.fields import prefix_at
from argosy.search.query.leaves import SPECIAL, auto_case
from argosy.search.query.lex import BLANKS, OPERATORS, QuerySyntaxError, TokenKind, lex
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
    Scope,
    Substring,
    Symbol,
    Type,
)

SHOWN_NAMES_MAX = 10  # of a set; the rest is counted

_BLANKS = frozenset(BLANKS)
_WORD = re.compile(r"[A-Za-z0-9_]+")
_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f", "\v": r"\v"}
_FIELDS = {Scope.ANY: "", Scope.CONTENT: "content:", Scope.FILE_NAME: "file:"}


class _Level(IntEnum):
    """Operator precedence: text of a lower level needs parentheses inside a higher one."""

    LIST = 0  # with a directive in it
    ANY = 1
    ALL = 2
    ONE = 3


def format_query(query: Query) -> str:
    """The query as text; it can exceed the length limit of queries."""
    # The most frequent query, which would otherwise be lexed to find out that it needs no quotes.
    if isinstance(query, Substring) and _is_word(query):
        return query.text
    leaves = list(_texts(query))
    cases = {leaf.is_case_sensitive for leaf in leaves}
    # No `case:` at all if every leaf is as it would be parsed without one.
    if all(leaf.is_case_sensitive is auto_case(leaf) for leaf in leaves):
        return _piece(query, _Level.LIST, has_cases=False)
    # One `case:` at the end suffices unless leaves differ.
    if len(cases) > 1:
        return _piece(query, _Level.LIST, has_cases=True)
    return f"{_piece(query, _Level.LIST, has_cases=False)} {_case(cases.pop())}"


def _texts(query: Query) -> Iterator[Substring | Regexp]:
    match query:
        case Substring() | Regexp():
            yield query
        case Symbol(name):
            yield name
        case And(children) | Or(children):
            for child in children:
                yield from _texts(child)
        case Not(child) | Type(_, child) | Boost(child, _):
            yield from _texts(child)


def _case(is_sensitive: bool) -> str:
    return "case:yes" if is_sensitive else "case:no"


def _piece(query: Query, level: _Level, *, has_cases: bool) -> str:
    """The text of a tree inside one of this precedence level; with `has_cases`, texts have a `case:` each."""
    text, own = _text(query, has_cases=has_cases)
    return f"({text})" if own < level else text


def _text(query: Query, *, has_cases: bool) -> tuple[str, _Level]:
    match query:
        case And((only,)) | Or((only,)):
            return _text(only, has_cases=has_cases)
        case And(children) if children:
            return " ".join(_piece(child, _Level.ONE, has_cases=has_cases) for child in children), _Level.ALL
        case Or(children) if children:
            return " or ".join(_piece(child, _Level.ALL, has_cases=has_cases) for child in children), _Level.ANY
        case Type(kind, child):
            return f"type:{kind.value} {_piece(child, _Level.ANY, has_cases=has_cases)}", _Level.LIST
        case Not(child):
            return f"-{_piece(child, _Level.ONE, has_cases=has_cases)}", _Level.ONE
        case Boost(child, factor):
            return f"<boost {factor:g} {_piece(child, _Level.LIST, has_cases=has_cases)}>", _Level.ONE
        case Substring() | Regexp():
            return _with_case(query, _FIELDS[query.scope], has_cases=has_cases)
        case Symbol(name):
            return _with_case(name, "sym:", has_cases=has_cases)
        case _:
            return _plain(query), _Level.ONE


def _with_case(leaf: Substring | Regexp, prefix: str, *, has_cases: bool) -> tuple[str, _Level]:
    text = _word(prefix, _escape_text(leaf.text) if isinstance(leaf, Substring) else leaf.pattern)
    if not has_cases or leaf.is_case_sensitive is auto_case(leaf):
        return text, _Level.ONE
    return f"{text} {_case(leaf.is_case_sensitive)}", _Level.LIST


def _plain(query: Query) -> str:
    """A leaf without case sensitivity, or an empty list."""
    match query:
        # The language has no constants: an empty text matches everything.
        case Const(True) | And():
            return '""'
        case Const(False) | Or():
            return '-""'
        case Language(name):
            return _word("lang:", name or "")
        case Repo(pattern):
            return _word("repo:", pattern)
        case Alias(name):
            return _word("alias:", name)
        case OnBranch(name, False):
            return _word("branch:", name)
        case Flag(name, value):
            return f"{name}:{'yes' if value else 'no'}"
        case Meta(name, pattern):
            # The lexer itself decides whether the name needs quotes, so that the two cannot disagree.
            found = prefix_at(f"meta.{name}:", 0)
            is_plain = found is not None and found.name == name
            return _word(f"meta.{name if is_plain else _quote(name)}:", pattern)
        case _:
            return f"<{_programmatic(query)}>"


def _programmatic(query: Query) -> str:
    """A leaf that only programs can create."""
    match query:
        case OnBranch(name):
            return f"branch exactly {_word('', name)}"
        case RepoSet(names):
            return f"repos {_some(names)}"
        case FileNameSet(names):
            return f"files {_some(names)}"
        case RepoIds(ids):
            return f"repo ids {_some(ids)}"
        case BranchesRepos(pairs):
            return "; ".join(f"branch {_word('', name)} of repo ids {_some(ids)}" for name, ids in pairs)
        case _:
            raise AssertionError(query)


def _some(names: Collection[str] | Collection[int]) -> str:
    """The first names of a set, and the number of the others."""
    # Sorted, so that equal queries have equal texts.
    shown = [_word("", str(name)) for name in sorted(names)[:SHOWN_NAMES_MAX]]
    return " ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _word(prefix: str, text: str) -> str:
    """The text after a field's name or alone, in quotes if it would be parsed as anything else."""
    kind = TokenKind.FIELD if prefix else TokenKind.TEXT
    return prefix + (text if text and _reads_as(prefix + text, text, kind) else _quote(text))


def _reads_as(plain: str, text: str, kind: TokenKind) -> bool:
    if not _BLANKS.isdisjoint(text):  # allowed after a backslash, but what follows could be a `patterntype:`
        return False
    try:
        # A closing parenthesis after it, of a group around it, must not become part of the word.
        tokens = lex(plain + ")")
    except QuerySyntaxError:
        return False
    return [token.kind for token in tokens] == [kind, TokenKind.CLOSE] and tokens[0].text == text


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape_text(text: str) -> str:
    """The regex that matches exactly this text."""
    return "".join(_escape(each) for each in text)


def _escape(character: str) -> str:
    if character in SPECIAL:
        return "\\" + character
    if character in _ESCAPES:
        return _ESCAPES[character]
    # Control characters would be invisible in a displayed query.
    return character if character.isprintable() else f"\\x{{{ord(character):x}}}"


def _is_word(leaf: Substring) -> bool:
    """Whether it is a single word, as most queries are, which needs no quotes and no fields."""
    is_as_typed = leaf.scope is Scope.ANY and leaf.is_case_sensitive is auto_case(leaf)
    return is_as_typed and leaf.text not in OPERATORS and _WORD.fullmatch(leaf.text) is not None
