"""The bytes that the kernel writes for a document equal msgpack's encoding of the chunks that Python makes."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.kernels.line_numbers import IS_LONG
from argosy.search.model import Chunk
from tests.search.kernels.match_batches import (
    Matches,
    Spans,
    encode,
    segment_with,
    spans_in,
    symbols_at,
    symbols_in,
    texts,
)


@settings(deadline=None, max_examples=150)
@given(texts, texts, st.integers(0, 3), st.data())
def test_chunks_are_encoded_as_msgpack_encodes_them(one: str, two: str, context: int, draw: st.DataObject) -> None:
    files = {"a.txt": one.encode(), "b.txt": two.encode()}
    matches = {path: spans_in(text, draw) for path, text in files.items()}
    batch = Matches(files, matches, symbols_in(files, draw), context_lines=context)
    expected, written = batch.in_chunks(), batch.in_bytes()
    for path, (low, high) in zip(batch.paths, pairwise(batch.firsts.tolist()), strict=True):
        needs_care = bool(batch.rows[low:high, IS_LONG].any())
        assert written[path] == (b"" if needs_care else encode(expected[path]))


def test_numbers_and_lengths_of_any_width_are_written() -> None:
    text = b"a\n\n" * 200 + b"\n" * 70_000 + b"b" * 300 + b"\n" + b"a" * 70_000 + b"\n"
    matches = [(i, i + 1) for i in range(len(text)) if text[i] == ord("a")]
    batch = Matches({"a.txt": text}, {"a.txt": [*matches]}, line_bytes_max=0)
    [objects] = batch.in_chunks().values()
    assert (len(objects), len(objects[-1].ranges), objects[-1].start.line) == (201, 70_000, 70_402)
    assert batch.in_bytes() == {"a.txt": encode(objects)}


@pytest.mark.parametrize("length", [0, 31, 32, 255, 256, 65_535])
def test_names_of_any_length_are_written(length: int) -> None:
    text = b"-" * 9 + b"n" * length + b"-"
    symbols = symbols_at([(0, 9, 3, -1), (9, 9 + length, 1, 0), (9 + length, 10 + length, 2, 1)])
    spans = [(0, 1), (9 + length // 2, 9 + length), (9 + length, 10 + length)]
    batch = Matches(
        {"a.txt": text}, {"a.txt": [each for each in spans if each[0] < each[1]]}, symbols, line_bytes_max=0
    )
    [objects] = batch.in_chunks().values()
    assert [len(each.parent) for chunk in objects for each in chunk.symbols if each][-1] == length
    assert batch.in_bytes() == {"a.txt": encode(objects)}


def test_columns_count_characters_also_far_into_a_line() -> None:
    text = ("ä€" * 600 + "foo𝄞bar\n" + "ü bar").encode()
    places = [(text.index(b"foo"), text.index(b"foo") + 3), (text.index(b"bar"), text.index(b"bar") + 3)]
    batch = Matches({"a.txt": text}, {"a.txt": [*places, (len(text) - 3, len(text))]}, line_bytes_max=0)
    written = batch.in_bytes()["a.txt"]
    [objects] = msgspec.msgpack.decode(written, type=tuple[Chunk, ...])
    assert [(each.start.column, each.end.column) for each in objects.ranges] == [(1201, 1204), (1205, 1208), (3, 6)]
    assert written == encode(batch.in_chunks()["a.txt"])


def test_documents_that_need_care_are_skipped_and_all_others_written() -> None:
    files = {
        "bytes.txt": b"\xff foo\n",
        "inside.txt": "äfoo\n".encode(),
        "long.txt": b"foo " * 200,
        "name.txt": "ä foo\n".encode(),
        "parent.txt": "ä foo\n".encode(),
        "plain.txt": "ä foo\n".encode(),
    }
    matches: dict[str, Spans] = {path: [(text.index(b"foo"), text.index(b"foo") + 3)] for path, text in files.items()}
    matches["inside.txt"] = [(1, 5)]
    segment = segment_with(files)
    places = sorted(
        (int(segment.content.starts[i]), segment.path(i).decode()) for i in range(segment.content.documents)
    )
    symbols: list[tuple[int, int, int, int]] = []
    for base, path in places:
        if path == "name.txt":
            symbols.append((base + 1, base + 6, 1, -1))  # begins inside a character
        elif path == "parent.txt":
            symbols += [(base, base + 1, 1, -1), (base + 3, base + 6, 1, len(symbols))]
    batch = Matches(files, matches, symbols_at(symbols))
    written = batch.in_bytes()
    assert {path for path, each in written.items() if each} == {"plain.txt"}
    assert written["plain.txt"] == encode(batch.in_chunks()["plain.txt"])
