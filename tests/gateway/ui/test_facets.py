"""A facet's query is the original query with one more condition."""

import pytest

from argosy.gateway.ui.facets import SHOWN_MAX, facets, language_leaf, narrow, repository_leaf, without
from argosy.search.model import FileMatch
from argosy.search.query import format_query, parse
from argosy.search.query.simplify import conjunction
from argosy.search.query.tree import Language, Repo, Type

QUERIES = [
    "foo",
    "foo bar",
    "foo or bar",
    "foo case:yes or bar",
    '"a b"',
    "-foo",
    "(a or b) c",
    "foo count:5 or b",
    "patterntype:literal f(x)",
    r"f:\.py$ class",
    "sym:main or lang:go",
]


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("leaf", [language_leaf("C++"), language_leaf("Common Lisp"), repository_leaf("a.b/c-d (e)")])
def test_a_narrowed_query_has_both_conditions(text: str, leaf: Language | Repo) -> None:
    narrowed = narrow(text, leaf)
    assert narrowed is not None
    assert parse(narrowed).query == conjunction([parse(text).query, leaf])
    assert parse(narrowed).count == parse(text).count


def test_options_of_the_whole_query_stay_options_of_it() -> None:
    narrowed = narrow("type:file foo or x", language_leaf("Go"))
    assert narrowed is not None
    narrower = parse(narrowed).query
    assert isinstance(narrower, Type)
    assert narrower.child == conjunction([parse("foo or x").query, Language("Go")])


def test_a_repository_is_selected_by_its_whole_name() -> None:
    assert format_query(repository_leaf("github.com/a-b/c++")) == r"repo:^github\.com/a-b/c\+\+$"


def test_the_largest_facet_comes_first_and_a_click_toggles_it() -> None:
    files = [FileMatch("r", "a", language) for language in ["Go", "Python", "Python", ""]]
    found = facets("foo", files)
    assert [(each.name, each.files) for each in found.languages] == [("Python", 2), ("Go", 1), ("other", 1)]
    assert found.languages[0].url == "/search?q=foo+lang%3APython"
    assert found.languages[2].url == ""  # what has no name cannot be narrowed for
    [chosen] = facets("foo lang:Python", files[1:3], files_max=100).languages
    assert chosen.is_chosen
    assert chosen.url == "/search?q=foo&num=100"


def test_only_some_parts_are_listed_and_the_others_counted() -> None:
    found = facets("x", [FileMatch(f"r{number:02}", "a") for number in range(SHOWN_MAX + 3)])
    assert len(found.repositories) == SHOWN_MAX
    assert found.more_repositories == 3


@pytest.mark.parametrize(
    ("text", "left"),
    [("lang:Go foo", "foo"), ("a lang:Go b", "a b"), ('"lang:Go" foo', '"lang:Go" foo'), ("xlang:Go", "xlang:Go")],
)
def test_a_condition_is_removed_where_it_stands_by_itself(text: str, left: str) -> None:
    assert without(text, "lang:Go") == left
