"""Splits a query into tokens by zoekt's rules: few are obvious, and users rely on all of them.

- A blank ends a word. Double quotes can begin anywhere in a word; between them, blanks, parentheses and field names
  have no meaning, and a backslash escapes the next character. Quoted text is still a regex where words are regexes.
- A backslash outside of quotes and the character after it, blank or not, belong to the regex.
- `(` belongs to the regex, unless the word begins with it and a blank comes before its `)`: then it opens a group. So
  `(a|b)c` is one regex and `(a or b) c` is a group and a word.
- `-` negates at the start of a word only. `or` is an operator if it is an unquoted word of its own. So are `OR` and
  `AND`, which are text in zoekt; `NOT` is text, because people search for `NOT NULL`.

Where words are literal (`patterntype:`), a backslash is an ordinary character, but `\\"` is still not a quote, and a
`)` that closes no group is an ordinary character too. Keyword queries have neither groups nor operators; only a field
can be negated.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias
from unicodedata import combining, east_asian_width

from argosy.base.errors import Invalid
from argosy.search.query.fields import Field, Value, prefix_at

SHOWN_CHARACTERS_MAX = 100  # of a query, around the position of the error
MESSAGE_CHARACTERS_MAX = 300  # it quotes the query, and a query can be long


class QuerySyntaxError(Invalid):
    """A query that cannot be parsed. `position` is the number of characters of `text` before the error."""

    def __init__(self, message: str, *, text: str, position: int) -> None:
        assert 0 <= position <= len(text), (position, len(text))
        super().__init__(f"{_truncate_middle(message)}, at column {position + 1}")
        self.text = text
        self.position = position

    def excerpt(self) -> str:
        """The part of the query around the error, with a caret below the position."""
        first = max(0, self.position - SHOWN_CHARACTERS_MAX // 2)
        shown = self.text[first : first + SHOWN_CHARACTERS_MAX]
        # A control character can move the cursor, which would put the caret in the wrong place.
        line = "".join(each if each.isprintable() else " " for each in shown)
        return f"{line}\n{' ' * _columns(line[: self.position - first])}^"


def _columns(text: str) -> int:
    """The width on a terminal: East Asian characters take two columns, combining marks none."""
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def _truncate_middle(message: str) -> str:
    """The message without its middle: it begins with what is wrong and ends with the fix."""
    half = MESSAGE_CHARACTERS_MAX // 2
    return message if len(message) <= MESSAGE_CHARACTERS_MAX else f"{message[:half]} … {message[-half:]}"


BLANKS = " \t\n\r\f\v"
NESTING_MAX = 50  # nested groups; bounded because tree traversal is recursive

Spans: TypeAlias = tuple[tuple[int, int], ...]

# Runs of parentheses are one sign, because a query of nothing but parentheses would otherwise take a step for each.
_SIGN = re.compile(rf'[{BLANKS}"\\]|\(+|\)+')


class PatternType(Enum):
    """How the words of a query are interpreted."""

    REGEX = "regex"  # as regexes
    LITERAL = "literal"  # as literals; groups and operators keep their meaning
    KEYWORD = "keyword"  # as literals; only blanks, quotes and fields have a meaning


class TokenKind(Enum):
    TEXT = "text"
    FIELD = "field"
    OPEN = "("
    CLOSE = ")"
    NEGATE = "-"
    OR = "or"
    AND = "and"


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a query. `text` is a word, or the value of a field, without its quotes."""

    kind: TokenKind
    start: int
    end: int
    text: str = ""
    spans: Spans = ()  # the parts of the query that `text` consists of
    field: Field | None = None
    name: str = ""  # what follows `meta.`

    def place(self, offset: int) -> int:
        """The position in the query of the value's character at `offset`, or the end of the token."""
        for start, end in self.spans:
            if offset < end - start:
                return start + offset
            offset -= end - start
        return self.end


OPERATORS = {"or": TokenKind.OR, "OR": TokenKind.OR, "AND": TokenKind.AND}


def lex(query: str, pattern_type: PatternType = PatternType.REGEX) -> list[Token]:
    """The tokens of a query, in order. Raises QuerySyntaxError for an unclosed quote or a trailing backslash."""
    return _Lexer(query, pattern_type).tokens()


def declared_pattern_type(query: str) -> str | None:
    """The value of the last `patterntype:` at the start of a word, valid or not.

    It must be known before the query can be split into words. So a blank ends a word here even after a backslash, as it
    does in the two pattern types that the value can select.
    """
    found = None
    # Nearly no query has one, and reading the words twice would double the cost of lexing.
    at = 0 if Field.PATTERN_TYPE.label in query.lower() else len(query)
    while at < len(query):
        if query[at] in BLANKS:
            at += 1
            continue
        word = _Word(query, at, is_regex=False, has_groups=False, closes=False)
        prefix = prefix_at(query, at)
        if prefix is not None and prefix.field is Field.PATTERN_TYPE:
            found = word.text[prefix.end - at :]
        at = word.end
    return found


class _Lexer:
    def __init__(self, query: str, pattern_type: PatternType) -> None:
        self._query = query
        self._type = pattern_type
        self._groups = 0

    def tokens(self) -> list[Token]:
        found = []
        at = 0
        while at < len(self._query):
            if self._query[at] in BLANKS:
                at += 1
                continue
            token = self._mark(at) or self._word(at)
            self._groups += (token.kind is TokenKind.OPEN) - (token.kind is TokenKind.CLOSE)
            if self._groups > NESTING_MAX:
                raise QuerySyntaxError(
                    f"groups nested more than {NESTING_MAX} deep; use fewer parentheses",
                    text=self._query,
                    position=at,
                )
            found.append(token)
            at = token.end
        return found

    def _mark(self, at: int) -> Token | None:
        """The one-character token at this position, unless the character begins a word."""
        is_keyword = self._type is PatternType.KEYWORD
        match self._query[at]:
            case "-" if not is_keyword or prefix_at(self._query, at + 1):
                return Token(TokenKind.NEGATE, at, at + 1)
            case "(" if not is_keyword and self._opens_group(at):
                return Token(TokenKind.OPEN, at, at + 1)
            case ")" if self._closes:
                return Token(TokenKind.CLOSE, at, at + 1)
        return None

    @property
    def _closes(self) -> bool:
        """Whether a closing parenthesis outside of a word is a token: it ends a group, or is unmatched."""
        return self._type is PatternType.REGEX or self._groups > 0

    def _opens_group(self, at: int) -> bool:
        # Read ahead as a word: whether the parenthesis belongs to a regex is known only where the word ends.
        word = self._read(at, is_regex=self._type is PatternType.REGEX)
        return word.is_broken or word.end == at + 1

    def _word(self, at: int) -> Token:
        prefix = prefix_at(self._query, at)
        if prefix is None:
            word = self._read(at, is_regex=self._type is PatternType.REGEX)
            kind = TokenKind.TEXT
            if self._type is not PatternType.KEYWORD:
                kind = OPERATORS.get(self._query[at : word.end], TokenKind.TEXT)
            return Token(kind, at, word.end, word.text, word.spans)
        # `patterntype:` decides only for fields that take a pattern; `file:` and `repo:` are regexes always.
        is_pattern = prefix.field.takes is Value.PATTERN
        word = self._read(prefix.end, is_regex=not is_pattern or self._type is PatternType.REGEX)
        return Token(TokenKind.FIELD, at, word.end, word.text, word.spans, prefix.field, prefix.name)

    def _read(self, at: int, *, is_regex: bool) -> "_Word":
        has_groups = self._type is not PatternType.KEYWORD
        return _Word(self._query, at, is_regex=is_regex, has_groups=has_groups, closes=has_groups and self._closes)


class _Word:
    """A word from its first character on: its text without quotes, and whether a blank is inside its parentheses."""

    def __init__(self, query: str, start: int, *, is_regex: bool, has_groups: bool, closes: bool) -> None:
        self.end = start
        self.is_broken = False
        self._query = query
        self._is_regex = is_regex
        self._parts: list[tuple[int, int]] = []  # of the query, without quotes
        self._part_start = start  # of the part being read
        self._read(has_groups=has_groups, closes=closes)
        self._end_part()

    @property
    def text(self) -> str:
        return "".join(self._query[start:end] for start, end in self._parts)

    @property
    def spans(self) -> Spans:
        return tuple(self._parts)

    def _read(self, *, has_groups: bool, closes: bool) -> None:
        # `sign` can be a run of several parentheses, of which only the first ones may belong to the word.
        depth = 0
        while sign := _SIGN.search(self._query, self.end):
            self.end = sign.start()
            match sign[0][0]:
                case '"':
                    self._skip_quoted()
                case "\\":
                    self._skip_escaped()
                case "(":
                    depth += len(sign[0]) if has_groups else 0
                    self.end = sign.end()
                case ")":
                    # The parentheses that are open in the word belong to it; the next one closes a group.
                    if closes and len(sign[0]) > depth:
                        self.end += depth
                        return
                    depth = max(0, depth - len(sign[0]))
                    self.end = sign.end()
                case _:
                    self.is_broken = depth > 0
                    return
        self.end = len(self._query)

    def _end_part(self) -> None:
        if self.end > self._part_start:
            self._parts.append((self._part_start, self.end))

    def _drop(self) -> None:
        """Skips a character that belongs to the word and not to its text."""
        self._end_part()
        self.end += 1
        self._part_start = self.end

    def _skip_escaped(self) -> None:
        following = self._query[self.end + 1 : self.end + 2]
        if not following and self._is_regex:
            raise QuerySyntaxError(
                r"trailing backslash; write \\ to search for a backslash",
                text=self._query,
                position=self.end,
            )
        # A blank ends a literal word even after a backslash, which is an ordinary character there.
        is_pair = following and (self._is_regex or following not in BLANKS)
        self.end += 2 if is_pair else 1

    def _skip_quoted(self) -> None:
        start = self.end
        self._drop()
        while self._query[self.end : self.end + 1] != '"':
            if self._query[self.end : self.end + 1] == "\\":
                self._drop()
            if self.end >= len(self._query):
                raise QuerySyntaxError(
                    r"unclosed quote; close it, or write \" to search for it",
                    text=self._query,
                    position=start,
                )
            self.end += 1
        self._drop()
