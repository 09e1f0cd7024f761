"""The bytes that the kernel writes for a document equal msgpack's encoding of the lines that Python makes."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.kernels.line_numbers import LAST_LINE, LINE
from argosy.search.model import Form, Line
from tests.search.kernels.match_batches import Matches, encode, segment_with, spans_in, symbols_at, symbols_in, texts

BYTES_MAX = 200  # of a line, in these tests: some texts have longer ones


def is_too_long(line: Line) -> bool:
    return any(len(each) > BYTES_MAX for each in (line.content, *line.before, *line.after))


@settings(deadline=None, max_examples=150)
@given(texts, texts, st.integers(0, 3), st.sampled_from([0, BYTES_MAX]), st.data())
def test_lines_are_encoded_as_msgpack_encodes_them(
    one: str, two: str, context: int, bytes_max: int, draw: st.DataObject
) -> None:
    files = {"a.txt": one.encode(), "b.txt": two.encode()}
    matches = {path: spans_in(text, draw) for path, text in files.items()}
    symbols = symbols_in(files, draw)
    batch = Matches(files, matches, symbols, context_lines=context, line_bytes_max=bytes_max, form=Form.LINES)
    whole = Matches(files, matches, symbols, context_lines=context, line_bytes_max=0, form=Form.LINES).in_lines()
    expected, written = batch.in_lines(), batch.in_bytes()
    for path, (low, high) in zip(batch.paths, pairwise(batch.firsts.tolist()), strict=True):
        needs_care = bool((batch.rows[low:high, LAST_LINE] > batch.rows[low:high, LINE]).any())
        needs_care |= bytes_max > 0 and any(map(is_too_long, whole[path]))
        assert written[path] == (b"" if needs_care else encode(expected[path]))


def test_numbers_and_lengths_of_any_width_are_written() -> None:
    text = b"a\n\n" * 200 + b"\n" * 70_000 + b"b" * 300 + b"\n" + b"a" * 70_000 + b"\n"
    matches = [(i, i + 1) for i in range(len(text)) if text[i] == ord("a")]
    batch = Matches({"a.txt": text}, {"a.txt": matches}, line_bytes_max=0, context_lines=300, form=Form.LINES)
    [objects] = batch.in_lines().values()
    assert (len(objects), len(objects[-1].fragments), objects[-1].number, len(objects[0].after)) == (
        201,
        70_000,
        70_402,
        300,
    )
    assert batch.in_bytes() == {"a.txt": encode(objects)}


@pytest.mark.parametrize("text", [b"foo", b"foo\n", b"\nfoo\n\n", b"a\r\nfoo\r\n", b"a\nfoo\nb", b"a\nb\nfoo\nc\nd\n"])
@pytest.mark.parametrize("context_lines", [0, 1, 2])
def test_lines_at_the_edges_of_a_document(text: bytes, context_lines: int) -> None:
    at = text.index(b"foo")
    batch = Matches({"a.txt": text}, {"a.txt": [(at, at + 3)]}, context_lines=context_lines, form=Form.LINES)
    [objects] = batch.in_lines().values()
    assert batch.in_bytes() == {"a.txt": encode(objects)}
    [line] = msgspec.msgpack.decode(batch.in_bytes()["a.txt"], type=tuple[Line, ...])
    assert line == objects[0]
    assert line.content.rstrip(b"\r") == b"foo"


def test_documents_that_need_care_are_skipped_and_all_others_written() -> None:
    files = {
        "bytes.txt": b"\xff foo\n",
        "long.txt": b"foo " * 200,
        "long_above.txt": b"x" * 500 + b"\nfoo\n",
        "name.txt": "ä foo\n".encode(),
        "over.txt": b"foo\nbar\n",
        "plain.txt": "äfoo\n".encode(),
    }
    matches = {path: [(text.index(b"foo"), text.index(b"foo") + 3)] for path, text in files.items()}
    matches["over.txt"] = [(0, 7)]
    matches["plain.txt"] = [(1, 5)]  # begins inside a character: no column is objects of a line
    segment = segment_with(files)
    bases = {segment.path(i).decode(): int(segment.content.starts[i]) for i in range(len(files))}
    symbols = symbols_at([(bases["name.txt"] + 1, bases["name.txt"] + 6, 1, -1)])
    batch = Matches(files, matches, symbols, context_lines=1, form=Form.LINES)
    written = batch.in_bytes()
    assert {path for path, each in written.items() if each} == {"plain.txt"}
    assert written["plain.txt"] == encode(batch.in_lines()["plain.txt"])
