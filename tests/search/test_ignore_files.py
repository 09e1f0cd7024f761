"""Ignore files of Argosy and of git, compared with the real git."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argosy.search.ignore_files import IGNORE_BYTES_MAX, GitIgnore, IgnoreFile


@pytest.mark.parametrize(
    ("text", "path", "is_ignored"),
    [
        (b"", b"a", False), (b"# all\n\n  \n", b"a", False), (b"foo", b"foo", True), (b"foo", b"foo/bar", True),
        (b"foo", b"foobar", True), (b"foo", b"x/foo", False), (b"bar/", b"bar/a/b", True), (b"bar/", b"bar", False),
        (b" /foo/bar \n", b"foo/bar/x", True), (b"*.go", b"a.go", True), (b"*.go", b"x/a.go", False),
        (b"foo.go", b"foo.go", True), (b"foo.go", b"foo.go.txt", False), (b"**/data.*", b"x/data.y", True),
        (b"**/data.*", b"data.y", True), (b"{a,b}/**", b"b/x", True), (b"a\r\nb\r\n", b"b", True),
        (b"[broken\nb", b"b", True), (b"[broken\nb", b"[broken", False), (b"\xef\xbb\xbffoo", b"foo", True),
        (b"foo\nbar", b"bar/x", True), (b"dir\xff/", b"dir\xff/x", True),
    ],
)  # fmt: skip
def test_what_a_repository_leaves_out(text: bytes, path: bytes, is_ignored: bool) -> None:
    assert IgnoreFile(text)(path) is is_ignored


def test_several_ignore_files_add_up() -> None:
    ignored = IgnoreFile(b"a/", b"b/")
    assert [path for path in (b"a/x", b"b/x", b"c/x") if ignored(path)] == [b"a/x", b"b/x"]
    assert IgnoreFile().is_empty
    assert not IgnoreFile()(b"a")


def test_an_ignore_file_beyond_its_bound_is_read_to_the_bound() -> None:
    text = b"first/\n" + b"#" * IGNORE_BYTES_MAX + b"\nlast/\n"
    assert IgnoreFile(text)(b"first/x")
    assert not IgnoreFile(text)(b"last/x")


def is_excluded(ignore: GitIgnore, path: bytes) -> bool:
    """Whether a walk from the root would leave this file out: at one of its folders, or itself."""
    parts = path.split(b"/")
    folders = [b"/".join(parts[:count]) for count in range(1, len(parts))]
    return any(ignore.is_ignored(folder, is_folder=True) for folder in folders) or ignore.is_ignored(path)


def test_a_rule_in_a_folder_applies_to_that_folder() -> None:
    outer = GitIgnore(b"*.log\n/only-here\n")
    inner = outer.inside(b"src", b"!keep.log\n*.tmp\n/top\n")
    assert outer.is_ignored(b"src/a.log")
    assert inner.is_ignored(b"src/a.log")
    assert not inner.is_ignored(b"src/keep.log")
    assert inner.is_ignored(b"src/deep/x.tmp")
    assert not outer.is_ignored(b"src/deep/x.tmp")
    assert inner.is_ignored(b"src/top")
    assert not inner.is_ignored(b"src/deep/top")
    assert not inner.is_ignored(b"src/only-here")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", str(place)], check=True)
    return place


def ignored_by_git(repository: Path, files: dict[bytes, bytes], paths: Sequence[bytes]) -> list[bytes]:
    """The paths that git itself ignores with these .gitignore files, by the folder they stand in."""
    for folder, text in files.items():
        place = repository / folder.decode()
        place.mkdir(exist_ok=True)
        (place / ".gitignore").write_bytes(text)
    command = ["git", "-C", str(repository), "check-ignore", "--no-index", "-z", "--stdin"]
    result = subprocess.run(command, input=b"\0".join(paths) + b"\0", stdout=subprocess.PIPE, check=False)
    assert result.returncode in (0, 1)
    return [path for path in result.stdout.split(b"\0") if path]


PATHS = (
    b"a", b"b", b"a.c", b"b.c", b"ab", b"abc", b"a/b", b"a/a.c", b"a/b/c", b"b/a", b"b/a.c", b"b/b/a", b"c/a/b/c",
    b"c/d/e/f.c",
    b"a b", b"#a", b"!a", b"a\\b", b"[a]", b"a*", b".c", b".a/b", b"d/.a/b", b"*/x", b"a/**/b", b"b ", b"{a,b}",
    b"x/a/x", b"-", b"x/b", b"x/a.c", b"x/b/c",
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        b"a", b"/a", b"a/", b"/a/", b"a/b", b"/a/b", b"**/b", b"a/**", b"a/**/c", b"**", b"/**", b"*", b"/*", b"*.c",
        b"/*.c",
        b"*.c\n!a.c", b"a/*\n!a/b", b"*\n!*/\n!*.c", b"a\n!a", b"!a\na", b"[ab]", b"[!a]", b"[^a].c", b"[a-b]*",
        b"\\#a", b"#a",
        b"\\!a", b"a\\ b", b"b\\ ", b"b ", b"a\\\\b", b"\\[a\\]", b"[[]a]", b"a\\*", b"**b", b"a**", b"***", b"/",
        b"//",
        b"a//b", b"", b" ", b"[", b"a[", b"{a,b}", b"c/*/e", b"c/**/f.c", b"d/**/", b"**/a/**", b"?", b"??", b".*",
        b"-",
        b"a\r\nb.c\r\n", b"\xef\xbb\xbfa", b"a\t", b"\\", b"a\\", b"[a-]", b"[]-]", b"[[:alpha:]]", b"[[:bogus:]]",
        b"[\\a]",
        b"*/a", b"*/*", b"**/**/b", b"x/**/x", b"a/./b", b"./a",
    ],
)  # fmt: skip
def test_git_agrees(repository: Path, text: bytes) -> None:
    assert [path for path in PATHS if is_excluded(GitIgnore(text), path)] == ignored_by_git(
        repository, {b"": text, b"x": b""}, PATHS
    )


# What two stars after something else than a slash mean depends, in git, on where it keeps its strings: it compares a
# pointer into the pattern with one into the path. Ours follow git's manual: the same as one star.
ODD_STARS = re.compile(rb"[^/*]\*\*")
RULE = st.lists(
    st.sampled_from([b"a", b"b", b"c", b"*", b"**", b"?", b"/", b"!", b"[ab]", b"[!a]", b".c", b"\\", b" ", b"#",
    b"x"]),
    min_size=1, max_size=6,
).map(b"".join).filter(lambda rule: not ODD_STARS.search(rule))  # fmt: skip
FILE = st.lists(RULE, min_size=1, max_size=4).map(b"\n".join)


@given(FILE, FILE)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_agrees_on_unusual_rules(repository: Path, text: bytes, inner: bytes) -> None:
    outer = GitIgnore(text)
    expected = ignored_by_git(repository, {b"": text, b"x": inner}, PATHS)
    nested = outer.inside(b"x", inner)
    assert [path for path in PATHS if is_excluded(nested, path)] == expected
