"""The fields of the query language: their names, and what kind of value follows the colon.

The parser, the formatter and the tests of docs/query-language.md all use this table.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Value(Enum):
    """The value after the colon."""

    PATTERN = "pattern"  # a regex, or a literal, depending on `patterntype:`
    REGEX = "regex"
    TEXT = "text"
    CHOICE = "choice"  # one of a few words


@dataclass(frozen=True, slots=True)
class Spelling:
    """The names of a field, the one to print first, and its kind of value."""

    names: tuple[str, ...]
    takes: Value


class Field(Enum):
    """A field, by its spelling."""

    ALIAS = Spelling(("alias",), Value.TEXT)
    ARCHIVED = Spelling(("archived",), Value.CHOICE)
    BRANCH = Spelling(("branch", "b"), Value.TEXT)
    CASE = Spelling(("case",), Value.CHOICE)
    CONTENT = Spelling(("content", "c"), Value.PATTERN)
    COUNT = Spelling(("count",), Value.CHOICE)
    FILE = Spelling(("file", "f"), Value.REGEX)
    FORK = Spelling(("fork",), Value.CHOICE)
    LANGUAGE = Spelling(("lang",), Value.TEXT)
    META = Spelling(("meta",), Value.REGEX)  # meta.NAME:, the only one with a name of its own
    PATTERN_TYPE = Spelling(("patterntype",), Value.CHOICE)
    PUBLIC = Spelling(("public",), Value.CHOICE)
    REGEX = Spelling(("regex",), Value.REGEX)
    REPO = Spelling(("repo", "r"), Value.REGEX)
    SYMBOL = Spelling(("sym",), Value.PATTERN)
    TYPE = Spelling(("type", "t"), Value.CHOICE)

    @property
    def names(self) -> tuple[str, ...]:
        return self.value.names

    @property
    def takes(self) -> Value:
        return self.value.takes

    @property
    def label(self) -> str:
        return self.names[0] + (".NAME:" if self is Field.META else ":")


# `meta` alone is missing, because its name goes on after the dot.
_BY_NAME = {name: field for field in Field if field is not Field.META for name in field.names}
_NAME = re.compile(r"([A-Za-z]+):")
# Quoted, the name can contain the colon and the blank that would end it.
_META = re.compile(r'meta\.(?:"((?:[^"\\]|\\.)+)"|([^\s:"()\\]+)):', re.IGNORECASE | re.DOTALL)


class Prefix(NamedTuple):
    """A field name in a query: `name` is what follows `meta.`, `end` is where the value begins."""

    field: Field
    name: str
    end: int


def prefix_at(text: str, start: int) -> Prefix | None:
    """The field whose name is at this position of a query, if any.

    Names are case-insensitive, except one-letter names, which are lower case: `T:` and `C:` are common in code.
    """
    if meta := _META.match(text, start):
        quoted, plain = meta.groups()
        return Prefix(Field.META, plain or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL), meta.end())
    found = _NAME.match(text, start)
    if found is None:
        return None
    field = _BY_NAME.get(found[1] if len(found[1]) == 1 else found[1].lower())
    return Prefix(field, "", found.end()) if field else None
