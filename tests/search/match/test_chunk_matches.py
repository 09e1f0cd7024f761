"""The form of matches: context, long lines, line ends, columns in characters, names of any bytes."""

import pytest

from argosy.search.model import Chunk, Form, Line, Location, Options
from tests.search.match.search_calls import build_index, only_file, search_one

LINES = Options(form=Form.LINES)


def chunks(text: bytes, query: str, options: Options | None = None) -> tuple[Chunk, ...]:
    return only_file(search_one(build_index({"a.txt": text}), query, options)).chunks


def lines(text: bytes, query: str, options: Options = LINES) -> tuple[Line, ...]:
    return only_file(search_one(build_index({"a.txt": text}), query, options)).lines


def test_context_ends_where_the_file_does() -> None:
    [chunk] = chunks(b"1\nfoo\n3", "foo", Options(context_lines=9))
    assert (chunk.content, chunk.start) == (b"1\nfoo\n3", Location(0, 1, 1))
    [line] = lines(b"1\nfoo\n3", "foo", Options(form=Form.LINES, context_lines=9))
    assert (line.before, line.content, line.after) == ((b"1",), b"foo", (b"3",))


def test_excerpts_that_meet_are_one_and_others_are_not() -> None:
    text = b"foo\n1\nfoo\n3\n4\n5\nfoo\n"
    assert [chunk.content for chunk in chunks(text, "foo", Options(context_lines=1))] == [
        b"foo\n1\nfoo\n3\n",
        b"5\nfoo\n",
    ]
    assert [chunk.start.line for chunk in chunks(text, "foo")] == [1, 3, 7]


def test_a_carriage_return_is_part_of_its_line() -> None:
    first, second = lines(b"foo\r\nbar foo\r\n", "foo")
    assert (first.content, second.content) == (b"foo\r", b"bar foo\r")
    assert (second.number, second.fragments[0].line_offset) == (2, 4)


def test_columns_count_characters_and_stray_bytes() -> None:
    [chunk] = chunks("äöü foo".encode(), "foo")
    assert chunk.ranges[0].start == Location(7, 1, 5)
    [chunk] = chunks(b"\xff\xc3\xa4 foo", "foo")
    assert chunk.ranges[0].start == Location(4, 1, 4)


def test_a_match_over_lines_is_one_range_or_a_piece_in_each_line() -> None:
    text = b"x foo\n\nbar y\n"
    [chunk] = chunks(text, r"foo\n\nbar")
    assert (chunk.content, len(chunk.ranges)) == (text, 1)
    assert chunk.ranges[0].end == Location(10, 3, 4)
    first, last = lines(text, r"foo\n\nbar")
    assert [(line.number, line.fragments[0].length) for line in (first, last)] == [(1, 3), (3, 3)]


@pytest.mark.parametrize("form", [Form.CHUNKS, Form.LINES])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_line_is_clipped_between_characters(form: Form, shift: int) -> None:
    text = b"-" * shift + "ä".encode() * 500 + b"foo" + "ä".encode() * 500
    file = only_file(search_one(build_index({"a.txt": text}), "foo", Options(form=form, line_bytes_max=101)))
    [match] = file.chunks or file.lines
    assert match.is_clipped
    assert len(match.content) <= 101
    assert "foo" in match.content.decode()  # valid, so no character was cut


@pytest.mark.parametrize("form", [Form.CHUNKS, Form.LINES])
def test_no_bound_on_lines_shows_them_whole(form: Form) -> None:
    text = b"x" * 5000 + b" foo " + b"y" * 5000
    file = only_file(search_one(build_index({"a.txt": text}), "foo", Options(form=form, line_bytes_max=0)))
    [match] = file.chunks or file.lines
    assert (match.content, match.is_clipped) == (text, False)


def test_a_line_as_long_as_the_bound_is_not_clipped() -> None:
    [line] = lines(b"x" * 97 + b"foo\n", "foo", Options(form=Form.LINES, line_bytes_max=100))
    assert (len(line.content), line.is_clipped) == (100, False)


def test_long_lines_of_context_are_shortened_between_characters() -> None:
    text = "ä".encode() * 100 + b"\nfoo\n" + "ö".encode() * 100
    [line] = lines(text, "foo", Options(form=Form.LINES, context_lines=1, line_bytes_max=51))
    assert [each.decode() for each in (*line.before, *line.after)] == ["ä" * 25, "ö" * 25]


def test_an_overlong_line_clips_only_itself() -> None:
    text = b"1\nfoo 2\nfoo " + b"x" * 500 + b"\nfoo 4\n5\n"
    above, long, below = chunks(text, "foo", Options(context_lines=1, line_bytes_max=100))
    assert [above.content, below.content] == [b"1\nfoo 2\n", b"foo 4\n5\n"]
    assert [each.is_clipped for each in (above, long, below)] == [False, True, False]
    assert (long.content[:5], len(long.content), long.start.line) == (b"foo x", 100, 3)
    assert [each.ranges[0].start.line for each in (above, long, below)] == [2, 3, 4]


def test_overlong_context_is_left_out_of_a_chunk() -> None:
    [chunk] = chunks(b"x" * 500 + b"\nfoo\n" + b"y" * 500, "foo", Options(context_lines=1, line_bytes_max=100))
    assert (chunk.content, chunk.is_clipped, chunk.start.line) == (b"foo\n", False, 2)


def test_a_match_longer_than_the_bound_is_shown_in_part() -> None:
    [chunk] = chunks(b"a" * 1000, "a+", Options(line_bytes_max=100))
    assert (chunk.is_clipped, len(chunk.content)) == (True, 100)
    assert chunk.ranges[0].end.offset == 1000


@pytest.mark.parametrize("path", [b"odd\nname.txt", b"\xff\xfe.txt", "na\u212ame.txt".encode(), b"\x1b[31m.txt"])
def test_a_name_of_any_bytes_is_one_line(path: bytes) -> None:
    index = build_index({path: b"", "other": b""})
    file = only_file(search_one(index, "file:txt"))
    [chunk] = file.chunks
    assert file.path.encode("utf-8", "surrogateescape") == path
    assert (chunk.content, chunk.is_file_name, chunk.ranges[0].start.line) == (path, True, 1)
    [line] = only_file(search_one(index, "file:txt", LINES)).lines
    assert (line.content, line.number, line.fragments[0].offset) == (path, 0, len(path) - 3)


def test_an_empty_file_is_found_by_its_name_and_by_what_matches_nothing() -> None:
    index = build_index({"empty.txt": b"", "full.txt": b"x"})
    assert only_file(search_one(index, "file:empty")).match_count == 1
    assert only_file(search_one(index, "^$ file:empty")).path == "empty.txt"
    assert search_one(index, "content:x file:empty").files == ()
