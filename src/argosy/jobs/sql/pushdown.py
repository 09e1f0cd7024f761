"""Predicate pushdown: the conditions of a statement's WHERE that an index of the store can use.

This is not a parser: it understands one SELECT on one table whose WHERE is a plain AND of conditions, and of those only
the ones whose exact shape it knows. SQLite checks all conditions again in any case. So a condition that is extracted
must be necessary for a row, and one that is missed only costs time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.jobs.sql.tables import Value

_TOKEN = re.compile(
    r"""\s+|--[^\n]*|/\*.*?(?:\*/|$)        # blanks and comments
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<parameter>\$\w+)
    |(?P<word>[^\W\d]\w*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_END_OF_WHERE = {"group", "having", "order", "limit", "window", ";"}
# With any of these a condition may not hold for every row, so nothing is extracted.
_NOT_PLAIN = {"or", "between", "case", "select", "union", "except", "intersect", "with", "join"}


@dataclass(frozen=True)
class Pushdown:
    """Conditions that each row fulfils; None is no condition."""

    tenant: str | None = None
    id: str | None = None
    status: str | None = None
    metadata: tuple[str, str] | None = None  # a key and its value …
    metadata_prefix: tuple[str, str] | None = None  # … or how the value begins


NO_PUSHDOWN = Pushdown()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str  # words in lower case; quoted text without its quotes


def extract_pushdown(sql: str, parameters: Mapping[str, Value]) -> Pushdown:
    """The conditions of a statement that SQLite has accepted."""
    tokens = list(_tokens(sql))
    if not tokens or not _is_word(tokens[0], "select"):
        return NO_PUSHDOWN
    where = _where(tokens)
    pushdown = NO_PUSHDOWN
    for condition in _conditions(where):
        pushdown = _add_condition(pushdown, condition, parameters)
    return pushdown


def _tokens(sql: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(sql):
        match match.lastgroup:
            case "text":
                yield _Token("text", match.group()[1:-1].replace("''", "'"))
            case "quoted":
                # A quoted name is never a keyword, and one that is no identifier is none of the columns.
                yield _Token("quoted", name if (name := match.group()[1:-1].lower()).isidentifier() else "\0")
            case "parameter":
                yield _Token("parameter", match.group()[1:])
            case "word":
                yield _Token("word", match.group().lower())
            case "other":
                if match.group() == "?":
                    yield _Token("other", "\0")  # a parameter without a number: its value is not known here
                    continue
                yield _Token("other", match.group())


def _is_word(token: _Token, *words: str) -> bool:
    return token.kind in ("word", "other") and token.text in words


def _where(tokens: Sequence[_Token]) -> list[_Token]:
    """The tokens of the WHERE without table names before columns; empty if the statement is not plain."""
    if any(_is_word(token, *_NOT_PLAIN) for token in tokens[1:]):
        return []
    at = [place for place, token in enumerate(tokens) if _is_word(token, "from")]
    # Two FROMs are a subquery.
    if len(at) != 1:
        return []
    after = tokens[at[0] + 1 :]
    names = 0
    while names < len(after) and after[names].kind in ("word", "quoted") and not _is_word(after[names], "where"):
        names += 1
    if not 1 <= names <= 3 or names == len(after) or not _is_word(after[names], "where"):
        return []  # more than one table, or no WHERE
    table_names = {token.text for token in after[:names]}
    where: list[_Token] = []
    for token in after[names + 1 :]:
        if _is_word(token, *_END_OF_WHERE):
            break
        # `jobs.id` is `id`; with another table's name it stays as it is and matches no shape.
        if _is_word(token, ".") and where and where[-1].text in table_names:
            where.pop()
        else:
            where.append(token)
    return where


def _conditions(where: Sequence[_Token]) -> Iterator[list[_Token]]:
    """The parts between ANDs outside brackets."""
    depth = 0
    condition: list[_Token] = []
    for token in where:
        depth += _is_word(token, "(") - _is_word(token, ")")
        if depth == 0 and _is_word(token, "and"):
            yield condition
            condition = []
        else:
            condition.append(token)
    yield condition


def _add_condition(pushdown: Pushdown, condition: list[_Token], parameters: Mapping[str, Value]) -> Pushdown:
    shape = " ".join("?" if token.kind in ("text", "parameter") else token.text for token in condition)
    values = [_value(token, parameters) for token in condition if token.kind in ("text", "parameter")]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(values):
        return pushdown  # comparisons with numbers follow SQLite's type affinity
    match shape:
        case "id = ?" | "? = id":
            return replace(pushdown, id=texts[0])
        case "tenant = ?" | "? = tenant":
            return replace(pushdown, tenant=texts[0])
        case "status_kind = ?" | "? = status_kind":
            return replace(pushdown, status=texts[0])
        case "array_contains ( element_at ( metadata , ? ) , ? )":
            return replace(pushdown, metadata=(texts[0], texts[1]))
        case "starts_with ( array_any_value ( element_at ( metadata , ? ) ) , ? )":
            return replace(pushdown, metadata_prefix=(texts[0], texts[1]))
    return pushdown


def _value(token: _Token, parameters: Mapping[str, Value]) -> Value:
    return token.text if token.kind == "text" else parameters.get(token.text)
