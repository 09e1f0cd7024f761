"""Selection of refs from the lists of an untrusted origin."""

import pytest

from argosy.base.errors import Invalid, NotFound
from argosy.search.backends.git_refs import OriginRef, OriginRefs, check_names, parse_ls_remote, select_refs
from argosy.search.model import BRANCHES_MAX

A, B = "a" * 40, "b" * 40


def test_a_list_of_refs_is_read_with_tags_resolved_to_commits() -> None:
    output = f"ref: refs/heads/main\tHEAD\n{A}\tHEAD\n{A}\trefs/heads/main\n{A}\trefs/tags/v1\n{B}\trefs/tags/v1^{{}}\n"
    assert parse_ls_remote(output.encode()) == OriginRefs(
        {"HEAD": A, "refs/heads/main": A, "refs/tags/v1": B}, "refs/heads/main"
    )


@pytest.mark.parametrize(
    "line",
    ["", "garbage", f"{A}\trefs/heads/a:b", f"{A}\t-x", f"{A}\trefs/heads/a b", "xyz\trefs/heads/a", f"{A}a\trefs/a"],
)
def test_an_invalid_line_is_skipped(line: str) -> None:
    assert parse_ls_remote(f"{line}\n{B}\trefs/heads/b\n".encode()) == OriginRefs({"refs/heads/b": B})


def test_a_head_with_an_invalid_name_is_only_head() -> None:
    heads = parse_ls_remote(f"ref: refs/heads/x:refs/heads/y\tHEAD\n{A}\tHEAD\n".encode())
    assert select_refs("url", ("HEAD",), heads) == (OriginRef("HEAD", "HEAD", A),)


def test_a_branch_wins_over_a_tag_of_its_name_and_a_pattern_matches_branches_first() -> None:
    heads = OriginRefs({"refs/heads/v1": A, "refs/tags/v1": B, "refs/tags/w1": B, "refs/heads/v/x": B})
    assert select_refs("url", ("v1", "v*"), heads) == (OriginRef("v1", "refs/heads/v1", A),)
    assert select_refs("url", ("w*",), heads) == (OriginRef("w1", "refs/tags/w1", B),)
    assert [ref.name for ref in select_refs("url", ("**",), heads)] == ["v/x", "v1"]
    assert select_refs("url", ("refs/tags/v1",), heads) == (OriginRef("v1", "refs/tags/v1", B),)


def test_only_a_few_names_are_listed() -> None:
    heads = OriginRefs({f"refs/heads/b{number}": A for number in range(9)})
    with pytest.raises(NotFound, match="branch 'trunk' not found at url; available: b0, b1, b2, b3, b4, …"):
        select_refs("url", ("trunk",), heads)


def test_more_branches_than_an_index_supports_are_rejected() -> None:
    heads = OriginRefs({f"refs/heads/b{number}": A for number in range(BRANCHES_MAX + 1)})
    with pytest.raises(Invalid, match=f"limit {BRANCHES_MAX}"):
        select_refs("url", ("*",), heads)


def test_no_name_means_head() -> None:
    assert check_names(()) == ("HEAD",)
