"""Parses the text of a query to a tree.

    query = conjunction { "or" conjunction }        conjunction = expression { expression }
    expression = [ "-" ] ( "(" query ")" | field | word )

`case:` and `type:` apply to the whole list that contains them, at any position. `case:` reaches into groups
that have none of their own; `type:` wraps the list, its `or` included. `count:` and `patterntype:` apply to the
whole query.
"""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

from argosy.search.query.fields import Field
from argosy.search.query.leaves import Leaves, choice, in_case, substring
from argosy.search.query.lex import (
    OPERATORS,
    PatternType,
    QuerySyntaxError,
    Token,
    TokenKind,
    declared_pattern_type,
    lex,
)
from argosy.search.query.simplify import conjunction, disjunction, negation, with_type
from argosy.search.query.tree import Not, Query, Regexp, ResultKind, Scope, Substring, Symbol

QUERY_CHARACTERS_MAX = 10_000
ATOMS_MAX = 1_000  # words and fields: each can be a search through every file
COUNT_MAX = 1_000_000_000
COUNT_ALL = 0  # `count:all`: no limit, as in `Options.files_max`


class CaseDirective(Enum):
    YES = "yes"
    NO = "no"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query with its `count:` (COUNT_ALL for all; None if there is none) and its pattern type."""

    query: Query
    count: int | None = None
    pattern_type: PatternType = PatternType.REGEX


def parse(text: str, *, pattern_type: PatternType = PatternType.REGEX) -> ParsedQuery:
    """Parses a query; `pattern_type` applies if the text has no `patterntype:`.

    Raises QuerySyntaxError, and nothing else.
    """
    if len(text) > QUERY_CHARACTERS_MAX:
        _fail(f"query too long: {len(text)} characters, limit {QUERY_CHARACTERS_MAX}; use fewer words", text, 0)
    if (plain := _PLAIN.fullmatch(text)) and plain["word"] not in OPERATORS:
        scope = Scope.CONTENT if plain["field"] else Scope.ANY
        return ParsedQuery(substring(plain["word"] or plain["words"], scope), None, pattern_type)
    try:
        # Half of a surrogate pair cannot be encoded as UTF-8, and text is searched as UTF-8.
        text.encode()
    except UnicodeEncodeError as error:
        _fail("invalid character: half of a surrogate pair; remove it", text, error.start)
    # An unknown type is reported later, by the directive, which knows its position.
    wanted = declared_pattern_type(text)
    if wanted is not None:
        pattern_type = _PATTERN_TYPES.get(wanted.lower(), pattern_type)
    return _Parser(text, pattern_type).parse()


# The most frequent queries, a word or words in quotes, mean the same in every pattern type and need no lexer.
_PLAIN = re.compile(r'(?P<field>(?:content|c):)?(?:(?P<word>[A-Za-z0-9_]+)|"(?P<words>[A-Za-z0-9_ ]+)")')
_KINDS = {
    "filematch": ResultKind.FILE_MATCH,
    "filename": ResultKind.FILE_NAME,
    "file": ResultKind.FILE_NAME,
    "repo": ResultKind.REPO,
}
_CASES = {case.value: case for case in CaseDirective}
_PATTERN_TYPES = {kind.value: kind for kind in PatternType}
_DIRECTIVES = (Field.CASE, Field.TYPE, Field.COUNT, Field.PATTERN_TYPE)


@dataclass(slots=True)
class _List:
    """The content of a group, or of the whole query: alternatives of items that must all match."""

    start: int = 0
    is_negated: bool = False
    alternatives: "list[list[Query | _List]]" = field(default_factory=lambda: [[]])
    case: CaseDirective | None = None
    kinds: list[ResultKind] = field(default_factory=list)
    operator: Token | None = None  # the last operator, until its right operand comes
    is_started: bool = False


class _Parser:
    def __init__(self, text: str, pattern_type: PatternType) -> None:
        self._text = text
        self._pattern_type = pattern_type
        self._leaves = Leaves(text, pattern_type)
        self._open = [_List()]
        self._minus: Token | None = None
        self._is_negated = False
        self._count: int | None = None
        self._atoms = 0

    def parse(self) -> ParsedQuery:
        for token in lex(self._text, self._pattern_type):
            self._add_token(token)
        self._end_list()
        if len(self._open) > 1:
            escape = r"write \( to search for it" if self._pattern_type is PatternType.REGEX else "quote it"
            self._fail(f"unclosed parenthesis; close it, or {escape}", self._open[-1].start)
        return ParsedQuery(_tree(self._open[0], CaseDirective.AUTO), self._count, self._pattern_type)

    def _add_token(self, token: Token) -> None:
        match token.kind:
            case TokenKind.NEGATE:
                self._minus, self._is_negated = token, not self._is_negated
            case TokenKind.OPEN:
                inner = _List(token.start, self._is_negated)
                self._add(inner)
                self._open.append(inner)
            case TokenKind.CLOSE:
                self._end_list()
                if len(self._open) == 1:
                    self._fail(r"unmatched parenthesis; remove it, or write \) to search for it", token.start)
                self._open.pop()
            case TokenKind.OR | TokenKind.AND:
                self._operator(token)
            case _ if token.field in _DIRECTIVES:
                self._directive(token)
            case _:
                self._atom(token)

    def _add(self, item: "Query | _List") -> None:
        inner = self._open[-1]
        inner.alternatives[-1].append(item)
        inner.operator, inner.is_started = None, True
        self._minus, self._is_negated = None, False

    def _atom(self, token: Token) -> None:
        self._atoms += 1
        if self._atoms > ATOMS_MAX:
            self._fail(f"more than {ATOMS_MAX} words and fields; use fewer, or one regex for several", token.start)
        found = self._leaves.leaf(token)
        self._add(negation(found) if self._is_negated else found)

    def _operator(self, token: Token) -> None:
        self._check_minus()
        inner = self._open[-1]
        is_or = token.kind is TokenKind.OR
        if inner.operator or not inner.is_started or (is_or and not inner.alternatives[-1]):
            self._fail(f"{token.text!r} has no left operand; add one, or quote it", token.start)
        inner.operator = token
        if is_or:
            inner.alternatives.append([])

    def _directive(self, token: Token) -> None:
        assert token.field is not None
        if self._minus:
            self._fail(f"{token.field.label} cannot be negated; remove the '-'", self._minus.start)
        inner = self._open[-1]
        match token.field:
            case Field.CASE:
                inner.case = choice(token, self._text, _CASES)
            case Field.TYPE:
                inner.kinds.append(choice(token, self._text, _KINDS))
            case _:
                self._query_directive(token)
        # A directive may follow `AND`; after `or` it would be an alternative that matches everything.
        if inner.operator and inner.operator.kind is TokenKind.AND:
            inner.operator = None
        inner.is_started = True

    def _query_directive(self, token: Token) -> None:
        """`count:` and `patterntype:`, which apply to the whole query and are allowed outside of groups only."""
        assert token.field is not None
        if len(self._open) > 1:
            label = token.field.label
            self._fail(f"{label} applies to the whole query; move it out of the parentheses", token.start)
        if token.field is Field.COUNT:
            count = self._parse_count(token)
            if self._count not in (None, count):
                self._fail("count: has two different values; give it once", token.start)
            self._count = count
        elif choice(token, self._text, _PATTERN_TYPES) is not self._pattern_type:
            # The last one after a blank has decided how the query is split into words; this is another one.
            self._fail("patterntype: is repeated, or not after a blank; give it once, after a blank", token.start)

    def _parse_count(self, token: Token) -> int:
        if token.text.lower() == "all":
            return COUNT_ALL
        # The length is checked before `int`, which refuses thousands of digits with another error.
        is_number = token.text.isascii() and token.text.isdecimal() and len(token.text) <= len(str(COUNT_MAX))
        if not is_number or not 1 <= int(token.text) <= COUNT_MAX:
            self._fail(f"count: takes a number from 1 to {COUNT_MAX}, or all, not {token.text!r}", token.place(0))
        return int(token.text)

    def _end_list(self) -> None:
        self._check_minus()
        operator = self._open[-1].operator
        if operator:
            self._fail(f"{operator.text!r} has no right operand; add one, or quote it", operator.start)

    def _check_minus(self) -> None:
        if self._minus:
            self._fail("nothing to negate after '-'; put it directly before a word, or quote it", self._minus.start)

    def _fail(self, message: str, position: int) -> NoReturn:
        _fail(message, self._text, position)


def _tree(found: _List, inherited: CaseDirective) -> Query:
    case = found.case or inherited
    query = disjunction(conjunction(_item(each, case) for each in items) for items in found.alternatives)
    if found.kinds:
        # Of several `type:` in one list the most detailed one wins, as in zoekt.
        query = with_type(min(found.kinds, key=list(ResultKind).index), query)
    return negation(query) if found.is_negated else query


def _item(item: "Query | _List", case: CaseDirective) -> Query:
    return _tree(item, case) if isinstance(item, _List) else _apply_case(item, case)


def _apply_case(leaf: Query, case: CaseDirective) -> Query:
    match leaf:
        case Substring() | Regexp() if case is not CaseDirective.AUTO:
            return in_case(leaf, case is CaseDirective.YES)
        case Symbol(name) if case is not CaseDirective.AUTO:
            return Symbol(in_case(name, case is CaseDirective.YES))
        case Not(child):
            return Not(_apply_case(child, case))
    return leaf


def _fail(message: str, text: str, position: int) -> NoReturn:
    raise QuerySyntaxError(message, text=text, position=position)
