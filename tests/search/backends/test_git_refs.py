"""Which commits a name, a pattern or an id stands for."""

from pathlib import Path

import pytest

from argosy.base.errors import Invalid, NotFound
from argosy.search.backends.git_program import Git
from argosy.search.backends.git_refs import branches_of
from tests.search.backends.repositories import Repo


@pytest.fixture
def grown(repo: Repo) -> Repo:
    """main at `two`; release/1 and release/2 at `one`; a tag v1.0 with a tag of its own around it."""
    repo.commit({"one": b"1"})
    for name in ("release/1", "release/2", "release/old/0"):
        repo.git("branch", name)
    repo.git("tag", "-a", "-m", "first", "v1.0")
    repo.git("tag", "-a", "-m", "again", "v1.0-again", "v1.0")
    repo.commit({"two": b"2"})
    return repo


def names(repo: Repo, *refs: str) -> list[str]:
    return [branch.name for branch in branches_of(Git.at(str(repo.path)), refs)]


def version(repo: Repo, ref: str) -> str:
    (branch,) = branches_of(Git.at(str(repo.path)), (ref,))
    return branch.version


def test_head_has_the_name_of_its_branch_and_is_listed_once(grown: Repo) -> None:
    assert names(grown, "HEAD", "release/1", "main") == ["main", "release/1"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("release/*", ["release/1", "release/2"]),
        ("release/**", ["release/1", "release/2", "release/old/0"]),
        ("release/[2-9]", ["release/2"]),
        ("mai?", ["main"]),
        ("*", ["main"]),
        ("v1.*", ["v1.0", "v1.0-again"]),
        ("refs/tags/*", ["v1.0", "v1.0-again"]),
        ("refs/heads/release/*", ["release/1", "release/2"]),
    ],
)
def test_a_pattern_stands_for_branches_then_for_tags(pattern: str, expected: list[str], grown: Repo) -> None:
    assert names(grown, pattern) == expected


def test_a_tag_leads_to_its_commit_through_other_tags(grown: Repo) -> None:
    assert version(grown, "v1.0-again") == version(grown, "v1.0") == grown.git("rev-parse", "HEAD~1")


@pytest.mark.parametrize("ref", ["HEAD~1", "main^", "release/1", "refs/tags/v1.0"])
def test_any_revision_syntax_of_git_is_accepted(ref: str, grown: Repo) -> None:
    assert version(grown, ref) == grown.git("rev-parse", "HEAD~1")


def test_a_commit_may_be_named_by_its_id(grown: Repo) -> None:
    commit = grown.git("rev-parse", "HEAD~1")
    assert version(grown, commit) == version(grown, commit[:12]) == commit


def test_a_branch_comes_before_a_tag_of_its_name(grown: Repo) -> None:
    grown.git("tag", "main", "HEAD~1")
    assert version(grown, "main") == grown.git("rev-parse", "refs/heads/main")


def test_a_fresh_clone_knows_the_branches_of_its_origin(grown: Repo, tmp_path: Path) -> None:
    clone = grown.clone(tmp_path / "clone")
    assert names(clone, "HEAD", "release/1") == ["main", "release/1"]
    assert names(clone, "release/*") == ["release/1", "release/2"]
    assert names(clone, "*") == ["main"]  # and not the origin's HEAD besides
    clone.git("update-ref", "refs/heads/release/1", "HEAD")
    here, there = branches_of(Git.at(str(clone.path)), ("release/*",))
    assert (here.version, there.version) == (grown.git("rev-parse", "HEAD"), grown.git("rev-parse", "HEAD~1"))


def test_a_name_that_looks_like_an_option_is_a_name(grown: Repo) -> None:
    grown.git("update-ref", "refs/heads/-d", "HEAD~1")
    assert version(grown, "-d") == grown.git("rev-parse", "HEAD~1")
    assert names(grown, "-?") == ["-d"]


def test_more_branches_than_mask_bits_are_rejected(grown: Repo) -> None:
    for number in range(65):
        grown.git("branch", f"many/{number}")
    with pytest.raises(Invalid, match=r"too many branches of .*: 65, limit 64"):
        names(grown, "many/*")


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        ("maim", r"branch, tag or commit 'maim' not found in .*; did you mean 'main'\?"),
        ("zzz", r"'zzz' not found in .*; available: main, release/1, release/2, release/old/0, v1\.0, …"),
        ("HEAD:one", "branch, tag or commit 'HEAD:one' not found"),
        ("stable/*", r"no branch or tag of .* matches 'stable/\*'"),
        ("0" * 40, "branch, tag or commit '0000"),
    ],
)
def test_a_missing_name_is_reported_with_the_existing_ones(ref: str, reason: str, grown: Repo) -> None:
    with pytest.raises(NotFound, match=reason):
        names(grown, ref)


@pytest.mark.parametrize("ref", ["", "a\nb", "a\0b", "\x1b[1m", "x" * 2000])
def test_an_invalid_name_is_rejected(ref: str, grown: Repo) -> None:
    with pytest.raises(Invalid, match="use a branch, a tag, a commit"):
        names(grown, ref)
