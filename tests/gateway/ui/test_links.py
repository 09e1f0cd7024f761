"""URLs parse to what they were formatted from, whatever is in a name."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.gateway.ui.links import (
    PARAMETERS_MAX,
    PageTarget,
    file_url,
    folder_url,
    parameters_of,
    parse_target,
    raw_url,
    search_url,
)

# What git allows in a path, decoded as Python decodes file names.
segments = st.binary(min_size=1, max_size=8).filter(lambda each: not set(each) & {0, 47} and each not in (b".", b".."))
names = st.lists(segments, min_size=1, max_size=4).map(lambda each: b"/".join(each).decode("utf-8", "surrogateescape"))


@given(names, names)
def test_a_file_is_found_by_its_address(repository: str, path: str) -> None:
    split = urlsplit(file_url(repository, path, branch="b", query="q"))
    assert parse_target(split.path.encode()) == PageTarget(repository, path, is_folder=False)
    assert parameters_of(split.query.encode()) == {"b": "b", "q": "q"}


@given(names, names)
def test_a_folder_is_found_by_its_address(repository: str, path: str) -> None:
    assert parse_target(urlsplit(folder_url(repository, path)).path.encode()) == PageTarget(repository, path)
    assert parse_target(folder_url(repository).encode()) == PageTarget(repository)


@given(names, names)
def test_parameters_survive_whatever_they_hold(repository: str, path: str) -> None:
    params = parameters_of(urlsplit(raw_url(repository, path, branch="x&y=#")).query.encode())
    assert params == {"r": repository, "f": path, "b": "x&y=#", "format": "raw"}


def test_a_name_that_looks_like_an_address_of_ours_is_a_name() -> None:
    for name in ("a/-/b", "-", "a/-", "-/-/a"):
        assert parse_target(file_url(name, "c/-/d").encode()) == PageTarget(name, "c/-/d", is_folder=False)


def test_a_search_url_has_only_what_differs_from_the_defaults() -> None:
    assert search_url("a b") == "/search?q=a+b"
    assert search_url("x", files=100, context=3, anchor="f51") == "/search?q=x&num=100&ctx=3#f51"


def test_the_first_parameter_of_a_name_counts() -> None:
    assert parameters_of(b"q=one&q=two&b=") == {"q": "one", "b": ""}


def test_an_address_has_a_bound() -> None:
    with pytest.raises(Invalid, match=f"at most {PARAMETERS_MAX}"):
        parameters_of(b"&".join(b"a=1" for _ in range(PARAMETERS_MAX + 1)))


def test_a_url_without_a_repository_is_invalid() -> None:
    with pytest.raises(Invalid, match="has no repository name"):
        parse_target(b"/r//-/x")
