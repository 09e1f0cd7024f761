"""A result as text: lines once and in order, matches marked, positions that editors open."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from argosy.cli.output import Paint
from argosy.cli.search_text import (
    GAP,
    VIMGREP_BYTES_MAX,
    count_line,
    name_line,
    rows,
    vimgrep,
    with_headings,
    without_headings,
)
from argosy.search.model import FileMatch, Fragment, Line, SymbolInfo

PLAIN, COLOURED = Paint(is_on=False), Paint(is_on=True)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def name_of(file: FileMatch) -> str:
    return f"here/{file.path}"


def line(number: int, content: bytes, *spans: tuple[int, int], symbol: SymbolInfo | None = None, **more) -> Line:
    fragments = tuple(Fragment(start, start, end - start, symbol) for start, end in spans)
    return Line(content, 0, len(content), number, fragments, **more)


def numbered(number: int, context: int, of: int) -> Line:
    """A numbered line with its context."""
    before = tuple(b"%d" % each for each in range(max(1, number - context), number))
    after = tuple(b"%d" % each for each in range(number + 1, min(of, number + context) + 1))
    return line(number, b"%d" % number, (0, 1), before=before, after=after)


@given(st.sets(st.integers(1, 30)), st.integers(0, 4))
def test_every_line_is_printed_once_in_order_with_separators_at_gaps(found: set[int], context: int) -> None:
    shown = list(rows([numbered(number, context, 30) for number in sorted(found)]))
    numbers = [row.number for row in shown if row is not GAP]
    expected = {near for each in found for near in range(each - context, each + context + 1) if 1 <= near <= 30}
    assert numbers == sorted(expected)
    assert {row.number for row in shown if row.line} == found
    assert all(row.content == b"%d" % row.number for row in shown if row is not GAP)
    gaps = sum(after > before + 1 for before, after in itertools.pairwise(numbers))
    assert sum(row is GAP for row in shown) == gaps


def test_under_a_heading_lines_have_numbers_and_definitions() -> None:
    symbol = SymbolInfo("put", "method", "IndexSet", "class")
    found = FileMatch("r", "shelf.py", lines=(line(7, b"    def put(self):\r", (8, 11), symbol=symbol),))
    assert with_headings(found, name_of, PLAIN, has_context=False) == (
        "here/shelf.py\n7:    def put(self):  ‹method of IndexSet›\n"
    )


def test_without_headings_the_name_precedes_every_line_and_context_has_a_dash() -> None:
    found = FileMatch("r", "a", lines=(numbered(2, 1, 9), numbered(6, 1, 9)))
    assert without_headings(found, name_of, PLAIN, has_context=True).splitlines() == [
        "here/a-1-1",
        "here/a:2:2",
        "here/a-3-3",
        "--",
        "here/a-5-5",
        "here/a:6:6",
        "here/a-7-7",
    ]


def test_without_context_gaps_have_no_separators() -> None:
    found = FileMatch("r", "a", lines=(numbered(2, 0, 9), numbered(6, 0, 9)))
    assert without_headings(found, name_of, PLAIN, has_context=False).splitlines() == ["here/a:2:2", "here/a:6:6"]


def test_colours_mark_the_matches_and_change_no_letter() -> None:
    found = FileMatch("r", "a", lines=(line(1, b"one two one", (0, 3), (8, 11)),))
    coloured = with_headings(found, name_of, COLOURED, has_context=False)
    marked = re.findall(r"\x1b\[31m\x1b\[1m(.*?)\x1b\[0m", coloured)
    assert marked == ["one", "one"]
    assert COLOURS.sub("", coloured) == with_headings(found, name_of, PLAIN, has_context=False)


def test_a_match_in_the_name_is_marked_there() -> None:
    found = FileMatch("r", "dir/shelf.py", lines=(line(0, b"dir/shelf.py", (4, 9), is_file_name=True),))
    coloured = with_headings(found, name_of, COLOURED, has_context=False)
    assert re.findall(r"\x1b\[31m\x1b\[1m(.*?)\x1b\[0m", coloured) == ["shelf"]
    assert COLOURS.sub("", coloured) == "here/dir/shelf.py\n"
    assert without_headings(found, name_of, PLAIN, has_context=False) == "here/dir/shelf.py\n"


def test_branches_and_unsearched_content_are_printed_beside_the_name() -> None:
    name = line(0, b"x", (0, 1), is_file_name=True)
    found = FileMatch("r", "x", branches=("main", "dev"), skipped="binary", lines=(name,))
    assert with_headings(found, name_of, PLAIN, has_context=False) == "here/x [main, dev] (by name only: binary)\n"


def test_a_clipped_line_ends_in_dots_and_matches_beyond_its_end_are_ignored() -> None:
    found = FileMatch("r", "x", lines=(line(1, b"abcdef", (0, 3), (5, 9), (50, 60), is_clipped=True),))
    assert without_headings(found, name_of, PLAIN, has_context=False) == "here/x:1:abcdef…\n"


def test_vimgrep_has_a_line_for_each_match_by_its_byte() -> None:
    content = "ä one one".encode()
    found = FileMatch("r", "x", lines=(line(3, content, (3, 6), (7, 10)),))
    assert vimgrep(found, name_of, PLAIN) == "here/x:3:4:ä one one\nhere/x:3:8:ä one one\n"


def test_vimgrep_prints_part_of_a_long_line_with_the_column_of_the_whole_line() -> None:
    content = b"-" * 50_000 + b"needle" + b"-" * 50_000
    (shown,) = vimgrep(FileMatch("r", "x", lines=(line(1, content, (50_000, 50_006)),)), name_of, PLAIN).splitlines()
    place, _, text = shown.partition(":50001:")
    assert place == "here/x:1"
    assert "needle" in text
    assert len(text) == VIMGREP_BYTES_MAX


def test_vimgrep_points_to_the_start_of_a_file_matched_by_name() -> None:
    found = FileMatch("r", "x", lines=(line(0, b"x", (0, 1), is_file_name=True),))
    assert vimgrep(found, name_of, PLAIN) == "here/x:1:1:x\n"


def test_names_and_counts_are_one_line_whatever_the_name() -> None:
    found = FileMatch("r", "new\nline\x1b[2J", match_count=3)
    assert count_line(found, name_of, PLAIN) == "here/new\\nline\\x1b[2J:3\n"
    assert name_line(found, name_of, PLAIN) == "here/new\\nline\\x1b[2J\n"
