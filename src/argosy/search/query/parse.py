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
ATOMS_MAX = 1_000  # words and fields: each may have to be looked for in every file
COUNT_MAX = 1_000_000_000
COUNT_ALL = 0  # what `count:all` stands for: no bound


class CaseDirective(Enum):
    YES = "yes"
    NO = "no"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query, and what its text says about the answer: how many files at most, or COUNT_ALL, or None if not said."""

    query: Query
    count: int | None = None
    pattern_type: PatternType = PatternType.REGEX


def parse(text: str, *, pattern_type: PatternType = PatternType.REGEX) -> ParsedQuery:
    """Parses a query; `pattern_type` applies if the text has no `patterntype:`.

    Raises QuerySyntaxError, and nothing else.
    """
    if len(text) > QUERY_CHARACTERS_MAX:
        _fail(f"a query may have {QUERY_CHARACTERS_MAX} characters, not {len(text)}: ask for less", text, 0)
    if (plain := _PLAIN.fullmatch(text)) and plain["word"] not in OPERATORS:
        scope = Scope.CONTENT if plain["field"] else Scope.ANY
        return ParsedQuery(substring(plain["word"] or plain["words"], scope), None, pattern_type)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        _fail("this character is half of a surrogate pair and no text: remove it", text, error.start)
    wanted = declared_pattern_type(text)
    if wanted is not None:
        pattern_type = _PATTERN_TYPES.get(wanted.lower(), pattern_type)
    return _Parser(text, pattern_type).parse()


# What most people ask most of the time, and what has one meaning only: a word, or words in quotes.
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
    """What stands between two parentheses: alternatives of things that must all hold."""

    start: int = 0
    is_negated: bool = False
    alternatives: "list[list[Query | _List]]" = field(default_factory=lambda: [[]])
    case: CaseDirective | None = None
    kinds: list[ResultKind] = field(default_factory=list)
    operator: Token | None = None  # the last one, while nothing has followed it
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
            self._take(token)
        self._end_list()
        if len(self._open) > 1:
            shielded = r"write \( to search for it" if self._pattern_type is PatternType.REGEX else "quote it"
            self._fail(f"this parenthesis is never closed: close it, or {shielded}", self._open[-1].start)
        return ParsedQuery(_tree(self._open[0], CaseDirective.AUTO), self._count, self._pattern_type)

    def _take(self, token: Token) -> None:
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
                    self._fail(r"this parenthesis closes nothing: remove it, or write \) to search for it", token.start)
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
            self._fail(f"a query may have {ATOMS_MAX} words and fields: use fewer, or a regex for several", token.start)
        found = self._leaves.leaf(token)
        self._add(negation(found) if self._is_negated else found)

    def _operator(self, token: Token) -> None:
        self._refuse_bare_minus()
        inner = self._open[-1]
        is_or = token.kind is TokenKind.OR
        if inner.operator or not inner.is_started or (is_or and not inner.alternatives[-1]):
            self._fail(f"{token.text!r} has nothing on its left: put something there, or quote it", token.start)
        inner.operator = token
        if is_or:
            inner.alternatives.append([])

    def _directive(self, token: Token) -> None:
        assert token.field is not None
        if self._minus:
            self._fail(f"{token.field.label} cannot be negated: remove the '-'", self._minus.start)
        inner = self._open[-1]
        match token.field:
            case Field.CASE:
                inner.case = choice(token, self._text, _CASES)
            case Field.TYPE:
                inner.kinds.append(choice(token, self._text, _KINDS))
            case _:
                self._of_the_whole(token)
        if inner.operator and inner.operator.kind is TokenKind.AND:
            inner.operator = None
        inner.is_started = True

    def _of_the_whole(self, token: Token) -> None:
        """`count:` and `patterntype:`, which have their place outside of all groups."""
        assert token.field is not None
        if len(self._open) > 1:
            label = token.field.label
            self._fail(f"{label} is said of the whole query: move it out of the parentheses", token.start)
        if token.field is Field.COUNT:
            count = self._parse_count(token)
            if self._count not in (None, count):
                self._fail("count: is said twice, differently: say it once", token.start)
            self._count = count
        elif choice(token, self._text, _PATTERN_TYPES) is not self._pattern_type:
            # The last one that follows a blank decides how the query is read; this is another one.
            self._fail("patterntype: is said twice, or with no blank before it: say it once, apart", token.start)

    def _parse_count(self, token: Token) -> int:
        if token.text.lower() == "all":
            return COUNT_ALL
        is_number = token.text.isascii() and token.text.isdecimal() and len(token.text) <= len(str(COUNT_MAX))
        if not is_number or not 1 <= int(token.text) <= COUNT_MAX:
            self._fail(f"count: takes a number from 1 to {COUNT_MAX}, or all, not {token.text!r}", token.place(0))
        return int(token.text)

    def _end_list(self) -> None:
        self._refuse_bare_minus()
        operator = self._open[-1].operator
        if operator:
            self._fail(f"{operator.text!r} has nothing on its right: put something there, or quote it", operator.start)

    def _refuse_bare_minus(self) -> None:
        if self._minus:
            self._fail("'-' has nothing to negate: put it right before a word, or quote it", self._minus.start)

    def _fail(self, message: str, position: int) -> NoReturn:
        _fail(message, self._text, position)


def _tree(found: _List, inherited: CaseDirective) -> Query:
    case = found.case or inherited
    query = disjunction(conjunction(_item(each, case) for each in items) for items in found.alternatives)
    if found.kinds:
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
