"""Repositories that are served together get unique names by themselves."""

from collections.abc import Collection
from itertools import permutations

import pytest

from argosy.search.catalog.addresses import address_of, unique_names


def names_of(*texts: str, taken: Collection[str] = ()) -> list[str]:
    return unique_names([address_of(text, allow_local=True) for text in texts], taken)


@pytest.mark.parametrize(
    ("addresses", "names"),
    [
        (["/a/tool"], ["tool"]),
        (["/a/tool", "/a/other"], ["tool", "other"]),
        (["/a/tool", "/b/tool"], ["a/tool", "b/tool"]),
        (["/x/a/tool", "/y/a/tool", "/y/b/tool"], ["x/a/tool", "y/a/tool", "b/tool"]),
        (["/tool", "/b/tool"], ["tool", "b/tool"]),
        (["/a/tool", "https://github.com/x/tool"], ["tool", "github.com/x/tool"]),
        (["/a/tool", "/a/tool.git"], ["a/tool", "a/tool-2"]),
        (["https://github.com/x/tool", "git@github.com:x/tool"], ["github.com/x/tool-2", "github.com/x/tool"]),
        (["/a/one", "/a/one.git", "/b/one-2"], ["a/one", "a/one-2", "one-2"]),
    ],
)
def test_names_are_unique_and_do_not_depend_on_the_order(addresses: list[str], names: list[str]) -> None:
    expected = dict(zip(addresses, names, strict=True))
    for order in permutations(addresses):
        assert names_of(*order) == [expected[each] for each in order]


def test_a_name_in_use_is_not_assigned_again() -> None:
    assert names_of("/a/tool", taken={"tool"}) == ["a/tool"]
    assert names_of("/a/tool", taken={"tool", "a/tool"}) == ["a/tool-2"]
    assert names_of("https://github.com/x/tool", taken={"github.com/x/tool"}) == ["github.com/x/tool-2"]
