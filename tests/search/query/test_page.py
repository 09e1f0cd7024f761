"""The page of the query language: every example on it is valid, and every field is on it."""

import re
from pathlib import Path

import pytest

from argosy.search.query.fields import Field, Value
from argosy.search.query.lex import NESTING_MAX, QuerySyntaxError
from argosy.search.query.parse import ATOMS_MAX, QUERY_CHARACTERS_MAX, parse

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "query-language.md").read_text()
# Code on the page that is no query: marks, names of fields that need a value, text to be found, errors.
NO_QUERIES = {"-", "or", "OR", "AND", ")", '"("', "-case:yes", "-type:repo", "sym:", "alias:", "t:"}
NO_QUERIES |= {"foo(", "read_lock(", "write_lock("}
NO_QUERIES |= {field.label for field in Field if field.takes is Value.CHOICE}


def quoted() -> list[str]:
    """Everything in backticks, as a reader would copy it; in tables a bar is written with a backslash."""
    prose = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    return sorted({each.replace(r"\|", "|") for each in re.findall(r"`([^`\n]+)`", prose)})


@pytest.mark.parametrize("query", [each for each in quoted() if each not in NO_QUERIES])
def test_an_example_is_a_valid_query(query: str) -> None:
    assert parse(query).query is not None


@pytest.mark.parametrize("query", [each for each in quoted() if each in NO_QUERIES])
def test_invalid_examples_are_rejected(query: str) -> None:
    with pytest.raises(QuerySyntaxError):
        parse(query)


@pytest.mark.parametrize("field", Field, ids=lambda field: field.label)
def test_every_field_has_a_row_with_all_its_names(field: Field) -> None:
    fields = PAGE.partition("## Fields")[2].partition("\n## ")[0]
    rows = [row for row in fields.splitlines() if row.startswith(f"| `{field.label}`")]
    assert len(rows) == 1
    names = rows[0].split(" | ")[0]
    assert re.findall(r"`([^`]+)`", names) == [field.label, *(f"{name}:" for name in field.names[1:])]


def test_the_bounds_are_those_of_the_code() -> None:
    for bound in (QUERY_CHARACTERS_MAX, ATOMS_MAX, NESTING_MAX):
        assert f"{bound:,} " in PAGE
