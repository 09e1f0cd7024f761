"""Lists of repositories to import: parsed completely, with all problems reported at once."""

import json

import pytest

from argosy.base.errors import Invalid
from argosy.search.catalog.import_list import PROBLEMS_SHOWN_MAX, REPOSITORIES_MAX, read_list
from argosy.search.fleet.model import RepoSpec

A, B = "https://example.org/o/a", "https://example.org/o/b"


def test_one_address_a_line_with_branches_and_comments() -> None:
    text = f"# ours\n{A}\n\n  {B} main release/1  # two branches\n"
    first, second = read_list(text)
    assert (first.name, first.url, first.branches) == ("example.org/o/a", A, ())
    assert second.branches == ("main", "release/1")


def test_a_json_array_of_objects() -> None:
    rows = [{"url": A}, {"url": B, "name": "bee", "branches": ["main"], "is_pinned": True, "replicas": 2}]
    assert read_list(json.dumps(rows)) == [
        RepoSpec("example.org/o/a", A),
        RepoSpec("bee", B, ("main",), is_pinned=True, replicas=2),
    ]


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "[]"])
def test_an_empty_list_is_no_error(text: str) -> None:
    assert read_list(text) == []


def test_all_problems_are_reported_at_once_with_their_positions() -> None:
    with pytest.raises(Invalid) as error:
        read_list(f"-upload-pack=x\n{A}\next::sh -c x\n")
    assert str(error.value).startswith("import failed, nothing was added:")
    assert "line 1" in str(error.value)
    assert "line 3" in str(error.value)
    assert "line 2" not in str(error.value)


def test_the_number_of_reported_problems_is_bounded() -> None:
    with pytest.raises(Invalid, match="and 5 more"):
        read_list("ext::x\n" * (PROBLEMS_SHOWN_MAX + 5))


def test_two_repositories_with_one_name_are_rejected() -> None:
    with pytest.raises(Invalid, match="duplicate name"):
        read_list(f"{A}\n{A}.git\n")


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"url": 1},
        {"url": A, "replicas": "two"},
        {"url": A, "surprise": 1},
        {"url": A, "branches": [1]},
        "text",
        None,
    ],
)
def test_an_entry_with_an_unexpected_shape_is_rejected(row: object) -> None:
    with pytest.raises(Invalid, match="entry 1"):
        read_list(json.dumps([row]))


def test_invalid_json_is_reported_as_such() -> None:
    with pytest.raises(Invalid, match="not a JSON array"):
        read_list("[{")


def test_the_size_of_a_list_is_bounded() -> None:
    with pytest.raises(Invalid, match="split it"):
        read_list(f"{A}\n" * (REPOSITORIES_MAX + 1))
