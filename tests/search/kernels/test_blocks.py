"""Blocks: whole lines, never across documents, and never more of them than the bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.kernels.text_blocks import cut_blocks

SIZE = 8

pieces = st.sampled_from([b"", b"\n", b"a", b"ab\n", b"x" * 5, b"y" * 8 + b"\n", b"z" * 17, b"w" * 16 + b"\n", b"\r\n"])
contents = st.lists(st.lists(pieces, max_size=12).map(b"".join), max_size=5)


def blocks(contents: list[bytes], block_bytes: int = SIZE) -> list[tuple[bytes, int, int]]:
    """Each block's bytes, document and line."""
    data = freeze(np.frombuffer(b"".join(each + b"\0" for each in contents), np.uint8).copy())
    starts = freeze(np.cumsum([0] + [len(each) + 1 for each in contents]).astype(np.uint32))
    room = sum(len(each) // block_bytes + 1 for each in contents)  # as the module promises, and no more
    at, documents, lines = np.empty(room + 1, np.uint32), np.empty(room, np.uint32), np.empty(room, np.uint32)
    count = cut_blocks(data, starts, block_bytes, at, documents, lines)
    assert count <= room
    return [(data[at[i] : at[i + 1]].tobytes(), int(documents[i]), int(lines[i])) for i in range(count)]


def test_a_short_document_is_one_block_with_its_nul() -> None:
    assert blocks([b"a\nb\n", b"", b"c"]) == [(b"a\nb\n\0", 0, 0), (b"\0", 1, 0), (b"c\0", 2, 0)]


def test_no_documents_no_blocks() -> None:
    assert blocks([]) == []


def test_a_block_ends_at_the_first_line_end_after_its_size() -> None:
    cut = blocks([b"abc\n" * 6])
    assert cut == [(b"abc\n" * 2, 0, 0), (b"abc\n" * 2, 0, 2), (b"abc\n" * 2 + b"\0", 0, 4)]


def test_a_long_line_begins_a_block_of_its_own_rather_than_being_cut() -> None:
    line = b"x" * 15 + b"\n"
    assert blocks([b"ab\n" + line + b"cd\n"]) == [(b"ab\n", 0, 0), (line, 0, 1), (b"cd\n\0", 0, 2)]


@pytest.mark.parametrize("length", [SIZE, 2 * SIZE])
def test_a_line_of_up_to_two_blocks_is_whole(length: int) -> None:
    line = b"x" * length + b"\n"
    assert [text for text, _, _ in blocks([line * 3])] == [line, line, line + b"\0"]
    assert [text for text, _, _ in blocks([b"y\n" + b"x" * length])][-1].endswith(b"x" * length + b"\0")


def test_a_longer_line_is_cut_every_two_blocks() -> None:
    assert [text for text, _, _ in blocks([b"x" * 35])] == [b"x" * 16, b"x" * 16, b"xxx\0"]


@settings(deadline=None)
@given(contents=contents)
def test_blocks_are_lines_and_cover_every_document(contents: list[bytes]) -> None:
    cut = blocks(contents)
    for document, content in enumerate(contents):
        own = [(text, line) for text, owner, line in cut if owner == document]
        assert b"".join(text for text, _ in own) == content + b"\0"
        before = b""
        for text, line in own:
            assert line == before.count(b"\n")
            assert len(text) <= 2 * SIZE + 2
            before += text
        for text, _ in own[:-1]:
            assert text.endswith(b"\n") or b"\n" not in text[SIZE:], "only a long line is cut inside"


@settings(deadline=None)
@given(contents=contents)
def test_a_block_ends_inside_a_line_only_if_the_line_is_longer_than_two_blocks(contents: list[bytes]) -> None:
    cut = blocks(contents)
    for document, content in enumerate(contents):
        own = [text for text, owner, _ in cut if owner == document]
        is_cut = any(not text.endswith(b"\n") for text in own[:-1])
        assert is_cut == (max(map(len, content.split(b"\n"))) > 2 * SIZE)
