"""The help page lists every field, and its examples are valid."""

import pytest

from argosy.gateway.ui.pages import EXAMPLES, MEANINGS, WORDS, field_examples
from argosy.gateway.ui.results import is_repository_query
from argosy.search.query import parse
from argosy.search.query.fields import Field


def test_every_field_is_explained() -> None:
    assert set(MEANINGS) == set(Field)
    assert {name for row in field_examples() for name in row.syntax} >= {"file:", "f:", "meta.NAME:", "lang:"}


@pytest.mark.parametrize("text", [*EXAMPLES, *(row.example for row in (*WORDS, *field_examples()))])
def test_every_example_is_a_valid_query(text: str) -> None:
    assert parse(text).query is not None


@pytest.mark.parametrize("text", ["repo:x", "type:repo foo", "archived:no repo:x", "r:x -r:y", "fork:yes or public:no"])
def test_a_query_about_no_file_lists_repositories(text: str) -> None:
    assert is_repository_query(parse(text).query)


@pytest.mark.parametrize("text", ["foo", "repo:x foo", "lang:go", "f:x", "type:file repo:x foo", '""'])
def test_a_query_about_files_lists_files(text: str) -> None:
    assert not is_repository_query(parse(text).query)
