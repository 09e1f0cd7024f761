"""Converts tokens to leaves of the tree, with automatic case sensitivity and a bound on the cost of regexes.

Auto case: a text is case-insensitive unless it contains an upper-case letter. In a regex only literal letters
count: `\\w` and `\\S` do not make it case-sensitive, `[A-Z]` does.

The cost of compiling a regex is estimated from its tree: RE2 matches in linear time, but compiles before it matches.
RE2 bounds one compilation, at some tenths of a second. A query has many regexes, so they share one bound: a repeated
Unicode class takes a few characters to type and a megabyte to compile.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn, TypeVar

from argosy.search.languages import canonical
from argosy.search.query.fields import Field, Value
from argosy.search.query.lex import PatternType, QuerySyntaxError, Token
from argosy.search.query.tree import (
    TRUE,
    Alias,
    Flag,
    Language,
    Meta,
    OnBranch,
    Query,
    Regexp,
    Repo,
    Scope,
    Substring,
    Symbol,
)
from argosy.search.regex import Pattern, RegexError, as_literal, has_upper_case, parse_regex
from argosy.search.regex.tree import Chars, Choice, Class, CodePoints, Named, Node, Opaque, Repeat, Sequence

STEPS_MAX = 200_000  # of all regexes of a query; a step takes at most about a microsecond

# Measured compilation times relative to a character: a class of characters beyond ASCII has several UTF-8 forms, a
# Unicode class hundreds of ranges. Unparsed parts are nested too deeply and can contain any of them.
_CHARACTER_STEPS = 1
_WIDE_CLASS_STEPS = 2
_UNICODE_CLASS_STEPS = 1_000
_OPAQUE_STEPS = 50_000
_ASCII_END = 0x80


def steps(node: Node) -> int:
    """The estimated number of steps that RE2 takes to compile this."""
    match node:
        case Chars(chars):
            return _CHARACTER_STEPS * len(chars)
        case Class(parts, is_negated):
            # A negated class contains nearly all characters beyond ASCII.
            own = _WIDE_CLASS_STEPS if is_negated else _CHARACTER_STEPS
            return own + sum(map(_part_steps, parts))
        case Sequence(children) | Choice(children):
            return sum(map(steps, children))
        case Repeat(child, least, most):
            # RE2 unrolls bounded repetitions into copies.
            return steps(child) * max(1, least, most or 0)
        case Opaque():
            return _OPAQUE_STEPS
        case _:
            return 1


def _part_steps(part: CodePoints | Named) -> int:
    # The names of Perl and POSIX classes stand for ASCII sets; the others are Unicode categories and scripts.
    if isinstance(part, Named):
        is_unicode = part.name[0] not in "\\["  # else it is like \w or [:word:]
        return _UNICODE_CLASS_STEPS if is_unicode else _WIDE_CLASS_STEPS
    return _CHARACTER_STEPS if part.high < _ASCII_END else _WIDE_CLASS_STEPS


T = TypeVar("T")

SPECIAL = frozenset(r"\.+*?()|[]{}^$")  # characters with a meaning in a regex

_SCOPES: dict[Field | None, Scope] = {Field.CONTENT: Scope.CONTENT, Field.FILE: Scope.FILE_NAME}
_YES_OR_NO = {"yes": True, "no": False}


class Leaves:
    """Creates the leaves of one query, whose regexes share one bound."""

    def __init__(self, query: str, pattern_type: PatternType) -> None:
        self._query = query
        self._is_literal = pattern_type is not PatternType.REGEX
        self._steps = 0

    def leaf(self, token: Token) -> Query:
        """The leaf of a word or a field."""
        match token.field:
            case None | Field.CONTENT:
                return self._pattern(token, is_literal=self._is_literal)
            case Field.REGEX | Field.FILE:
                return self._pattern(token, is_literal=False)
            case Field.SYMBOL:
                return self._symbol(token)
            case Field.REPO:
                # As in zoekt, a field without a value is no condition.
                return Repo(self._regex(token)) if token.text else TRUE
            case Field.META:
                return Meta(token.name, self._regex(token))
            case Field.BRANCH:
                return OnBranch(token.text) if token.text else TRUE
            case Field.LANGUAGE:
                return Language(canonical(token.text))
            case Field.ALIAS:
                return Alias(self._require_value(token, "an alias of a repository"))
            case Field.ARCHIVED | Field.FORK | Field.PUBLIC:
                return Flag(token.field.name.lower(), choice(token, self._query, _YES_OR_NO))
            case _:
                raise AssertionError(f"{token.field} is no leaf")

    def _pattern(self, token: Token, *, is_literal: bool) -> Query:
        scope = _SCOPES.get(token.field, Scope.ANY)
        if is_literal or SPECIAL.isdisjoint(token.text):  # most words have no special character and need no regex
            return substring(token.text, scope)
        node = self._parse_regex(token)
        # `foo\.bar` is a literal, which is searched without RE2.
        text = as_literal(node)
        if text is None:
            return Regexp(token.text, has_upper_case(node), scope)
        return substring(text, scope)

    def _symbol(self, token: Token) -> Query:
        self._require_value(token, "the name of a definition, or .* for all of them")
        found = self._pattern(token, is_literal=self._is_literal)
        # An empty regex such as () matches every text; here it means every definition.
        return Symbol(found if isinstance(found, Substring | Regexp) else Regexp(token.text))

    def _regex(self, token: Token) -> str:
        self._parse_regex(token)
        return token.text

    def _parse_regex(self, token: Token) -> Node:
        """The tree of the token's regex, one that RE2 accepts."""
        node = parse_regex(token.text)
        self._steps += steps(node)
        if self._steps > STEPS_MAX:
            self._fail(r"the regexes are too large together; use less repetition, or fewer \p classes", token.place(0))
        # Compiled here and again where it is used: the parser must name the position of an invalid pattern, and the
        # tree stays a value that can be sent.
        try:
            Pattern.compile(token.text)
        except RegexError as error:
            # Only where the same text could also be read as a literal is that a remedy.
            may_be_literal = token.field is None or token.field.takes is Value.PATTERN
            self._fail(f"{error}, or add patterntype:literal" if may_be_literal else str(error), token.place(0))
        return node

    def _require_value(self, token: Token, what: str) -> str:
        assert token.field is not None
        if not token.text:
            self._fail(f"{token.field.label} needs a value: {what}", token.end)
        return token.text

    def _fail(self, message: str, position: int) -> NoReturn:
        raise QuerySyntaxError(message, text=self._query, position=position)


def substring(text: str, scope: Scope) -> Query:
    """A literal with automatic case sensitivity; an empty one matches everything."""
    return Substring(text, _has_capital(text), scope) if text else TRUE


def choice(token: Token, query: str, choices: Mapping[str, T]) -> T:
    """The choice that the field's value names, in any case."""
    assert token.field is not None
    value = token.text.lower()
    if value not in choices:
        *others, last = choices
        wanted = f"{', '.join(others)} or {last}"
        raise QuerySyntaxError(
            f"{token.field.label} takes {wanted}, not {token.text!r}", text=query, position=token.place(0)
        )
    return choices[value]


def auto_case(node: Substring | Regexp) -> bool:
    """Whether the leaf is case-sensitive by default."""
    return _has_capital(node.text) if isinstance(node, Substring) else has_upper_case(parse_regex(node.pattern))


def in_case(node: Substring | Regexp, is_case_sensitive: bool) -> Substring | Regexp:
    """The same text or pattern, in this case."""
    return replace(node, is_case_sensitive=is_case_sensitive)


def _has_capital(text: str) -> bool:
    return text != text.lower()
