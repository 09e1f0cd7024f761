"""The text that every match of a pattern contains, compiled into a search."""

import numpy as np
import pytest

from argosy.search.index.index import Segment
from argosy.search.match.required_text import (
    CLAUSE_LITERALS_MAX,
    WINDOW_KEYS_MAX,
    WINDOWS_MAX,
    RequiredByteRun,
    RequiredLiteral,
    required_texts,
    window_blocks,
    windows,
)
from argosy.search.regex import parse_regex, prefilter
from tests.search.match.search_calls import array, data_of, segment_of, unbounded


def kinds(pattern: str, *, is_case_sensitive: bool = True) -> list[type]:
    return [
        type(required)
        for required in required_texts(prefilter(parse_regex(pattern), is_case_sensitive=is_case_sensitive))
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("foo.*bar", [RequiredLiteral, RequiredLiteral]),
        ("(foo|quux).*", [RequiredLiteral]),
        (r"[0-9]{4}-[0-9]{2}", [RequiredByteRun]),
        ("x*", []),
        (".", []),
        ("a.*b", []),
    ],
)
def test_literals_and_runs_are_searched(pattern: str, expected: list[type]) -> None:
    assert kinds(pattern) == expected


def test_a_literal_within_a_longer_one_is_not_searched_again() -> None:
    pattern = r"EXPORT_SYMBOL(_GPL)?\(vfs_\w+"
    assert kinds(pattern) == [RequiredLiteral, RequiredByteRun]
    text = b"EXPORT_SYMBOL(vfs_read) EXPORT_SYMBOL_GPL(vfs_x) EXPORT_SYMBOL_GPL vfs_"
    assert places(pattern, text)[0] == [0, 24]
    assert kinds("foo.*food") == [RequiredLiteral]
    assert kinds("foo.*(?i:food)") == [RequiredLiteral, RequiredLiteral]  # ignoring case selects less


def test_too_many_alternatives_are_not_searched() -> None:
    few = "|".join(f"text{i}.*" for i in range(CLAUSE_LITERALS_MAX))
    assert RequiredLiteral in kinds(f"({few})")
    many = "|".join(f"{first}{second}x.*" for first in "abcdef" for second in "ghijkl")
    assert RequiredLiteral not in kinds(f"({many})")


def places(pattern: str, text: bytes, *, is_case_sensitive: bool = True) -> list[list[int]]:
    found = required_texts(prefilter(parse_regex(pattern), is_case_sensitive=is_case_sensitive))
    data = data_of(text + b"\0")
    return [required.find(data, array(0), array(len(text)), unbounded()).tolist() for required in found]


def test_an_anchor_is_found_where_it_stands() -> None:
    assert sorted(places("(foo|bar).*qux", b"bar foo qux")) == [[0, 4], [8]]
    assert places("foo.*x", b"FOO foo", is_case_sensitive=False) == [[0, 4]]
    assert places("[0-9]{2}-[0-9]", b"1-2 10-3 ab-4 99-99") == [[4, 14]]


def test_of_a_literal_over_lines_the_longest_line_is_searched() -> None:
    assert places(r"a\nlong enough\nb", b"a\nlong enough\nb long enough") == [[2, 16]]


def segment() -> Segment:
    return segment_of({"a.txt": b"foo1 bar\n" * 500, "b.txt": b"baz\n" * 1500, "c.txt": b"foo9 baz\n"})


def test_blocks_hold_the_anchor_of_their_text() -> None:
    content = segment().content
    [required] = required_texts(prefilter(parse_regex("(bar|qux)."), is_case_sensitive=True))
    held = np.flatnonzero(required.blocks(segment()))
    with_bar = [
        block
        for block in range(content.blocks)
        if b"bar" in content.data[content.block_starts[block] : content.block_starts[block + 1]].tobytes()
    ]
    assert held.tolist() == with_bar
    assert 0 < len(with_bar) < content.blocks


def test_a_run_s_blocks_hold_one_key_of_every_window() -> None:
    [required] = required_texts(prefilter(parse_regex("foo[0-8] "), is_case_sensitive=True))[:1]
    owners = segment().content.block_docs[np.flatnonzero(required.blocks(segment()))]
    paths = {segment().path(int(owner)) for owner in owners}
    assert b"a.txt" in paths
    assert b"b.txt" not in paths


def test_windows_are_few_and_the_most_selective() -> None:
    letters = frozenset(range(97, 123))
    single = frozenset(b"q")
    assert windows([(letters, letters, letters)]) == []
    [one] = windows([(single, single, letters)])
    assert len(one) <= 26
    assert all(len(keys) <= WINDOW_KEYS_MAX for keys in windows([(single, letters, single)] * 3))
    run = tuple(frozenset([byte]) for byte in b"abcdefghijklmnop")
    assert len(windows([run])) == WINDOWS_MAX


def test_a_window_that_is_nowhere_leaves_no_block() -> None:
    [keys] = windows([tuple(frozenset([byte]) for byte in b"qqq")])
    assert not window_blocks(keys, segment()).any()
