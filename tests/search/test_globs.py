"""Globs over paths."""

import pytest

from argosy.base.errors import Invalid
from argosy.search.globs import GLOBS_MAX, AnyOf, GlobList, to_regex


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        (b"a.c", b"a.c", True), (b"a.c", b"abc", False), (b"a.c", b"x/a.c", False), (b"*.c", b"a.c", True),
        (b"*.c", b"x/a.c", False), (b"*", b".hidden", True), (b"?.c", b"a.c", True), (b"?.c", b"/.c", False),
        (b"**/*.c", b"a.c", True), (b"**/*.c", b"x/y/a.c", True), (b"**/*.c", b"x/y/a.h", False),
        (b"x/**", b"x/y/z", True),
        (b"x/**", b"x", False), (b"x/**/z", b"x/z", True), (b"x/**/z", b"x/a/b/z", True), (b"x/**/z", b"xz", False),
        (b"a**z", b"a/b/z", True), (b"[abc].c", b"b.c", True), (b"[!abc].c", b"b.c", False),
        (b"[^abc].c", b"d.c", True),
        (b"[a-c]x", b"bx", True), (b"[!a]", b"/", False), (b"[+-9]", b"/", False), (b"[]]", b"]", True),
        (b"[]-]", b"-", True),
        (b"[[:digit:]]", b"7", True), (b"[[:alpha:]_]", b"_", True), (b"[[:space:]]", b" ", True),
        (b"[\\]]", b"]", True),
        (b"{a,b}.c", b"b.c", True), (b"{a,b}.c", b"c.c", False), (b"{a,{b,c}}x", b"cx", True), (b"a,b", b"a,b", True),
        (b"\\*", b"*", True), (b"\\*", b"a", False), (b"a}", b"a}", True), (b"a+(b)|c$^.", b"a+(b)|c$^.", True),
        (b"*\xff*", b"a\xffb", True), (b"a\nb", b"a\nb", True), (b"*", b"a\nb", True), (b"", b"", True),
        (b"", b"a", False),
        (b"[z-a]", b"b", False), (b"a\\", b"a\\", True),
    ],
)  # fmt: skip
def test_what_a_glob_matches(glob: bytes, path: bytes, matches: bool) -> None:
    assert AnyOf([to_regex(glob)])(path) is matches


@pytest.mark.parametrize("glob", [b"[a", b"[", b"[!", b"{a", b"{a,{b}", b"x" * 2000, b"{" * 100])
def test_an_invalid_glob_is_rejected(glob: bytes) -> None:
    with pytest.raises(Invalid):
        to_regex(glob)


def test_later_globs_win_and_negated_ones_exclude() -> None:
    chosen = GlobList(("**/*.json", "!test/**", "test/keep.json"))
    paths = (b"a.json", b"x/a.json", b"test/a.json", b"test/keep.json", b"a.c")
    assert [path for path in paths if chosen(path)] == [b"a.json", b"x/a.json", b"test/keep.json"]


def test_no_globs_select_nothing() -> None:
    assert not GlobList(())(b"a")
    assert not AnyOf([])(b"a")


def test_many_globs_are_matched_at_once() -> None:
    matches = AnyOf(to_regex(b"folder%d/**/*.x%d" % (number, number)) for number in range(1000))
    assert matches(b"folder999/a/b.x999")
    assert not matches(b"folder999/a/b.x998")


def test_too_many_globs_are_rejected() -> None:
    with pytest.raises(Invalid, match="use fewer"):
        AnyOf([b"a"] * (GLOBS_MAX + 1))
    with pytest.raises(Invalid, match="use fewer"):
        GlobList(["a"] * (GLOBS_MAX + 1))


def test_a_hostile_glob_is_as_quick_as_any() -> None:
    assert not AnyOf([to_regex(b"*a" * 200 + b"b")])(b"a" * 3000)
    assert not AnyOf([to_regex(b"**/a*/" * 100 + b"b")])(b"a/" * 2000)
