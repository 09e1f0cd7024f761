"""Postings: every trigram that begins in a block is found by its key, and a posting is in its smaller form."""

from random import Random

import numpy as np
import pytest

from argosy.search.arrays import OVERLAP_BYTES
from argosy.search.index.index import BLOCK_BYTES, Segment, bitmap_length
from argosy.search.index.segment_builder import CHUNK_KEYS_MAX, Document, build_segment
from argosy.search.kernels.trigrams import key_of, keys_of
from tests.search.index.postings_reader import blocks_with

ALPHABET = b"abcdefghijklmnopqrstuvwxyzABCDEFG0123456789_()=;.,   \t\t\xc3\xa9\xff"


def scribble(random: Random, line_bytes: int, size: int) -> bytes:
    lines = []
    while size > 0:
        lines.append(bytes(random.choices(ALPHABET, k=random.randrange(2 * line_bytes))))
        size -= len(lines[-1]) + 1
    return b"\n".join(lines)


@pytest.fixture(scope="module")
def segment() -> Segment:
    random = Random(3)
    texts = [scribble(random, line, 60_000) for line in (5, 40, 5_000, 30_000)] + [b"x", b"", b"int main() {}\n"]
    return build_segment(Document(b"%d" % number, text) for number, text in enumerate(texts))


def test_a_literal_is_found_by_its_keys_in_the_block_it_begins_in(segment: Segment) -> None:
    random, text = Random(4), segment.content
    data = text.data.tobytes()
    lines = 0
    while lines < 300:
        start = random.randrange(len(data))
        literal = data[start : start + random.choice((3, 8, 40, 2 * OVERLAP_BYTES))].swapcase()
        if b"\n" in literal or b"\0" in literal:
            continue
        lines += 1
        block = int(np.searchsorted(text.block_starts, start, "right")) - 1
        for key in keys_of(literal).tolist():
            assert block in blocks_with(segment.postings, key, text.blocks)


def test_a_line_is_found_by_its_edges(segment: Segment) -> None:
    text = segment.content
    for key in (key_of(*b"\nin"), key_of(*b"{}\n"), key_of(*b"}\n\n")):
        assert text.blocks - 1 in blocks_with(segment.postings, key, text.blocks)
    assert text.blocks - 3 in blocks_with(segment.postings, key_of(*b"\nx\n"), text.blocks)


def test_a_key_has_exactly_the_blocks_whose_bytes_have_it(segment: Segment) -> None:
    text = segment.content
    data = text.data.tobytes()
    key = key_of(*b"abc")
    starts = text.block_starts.tolist()
    holding = {
        block
        for block in range(text.blocks)
        if b"abc" in data[max(0, starts[block] - 1) : starts[block + 1] + 1].lower()
    }
    found = blocks_with(segment.postings, key, text.blocks)
    assert holding <= found
    assert all(b"abc" in data[max(0, starts[block] - 1) : starts[block + 1] + OVERLAP_BYTES].lower() for block in found)


def test_a_posting_is_a_list_or_a_bitmap_whichever_is_smaller() -> None:
    segment = build_segment(Document(b"%d" % n, b"common" + (b" rare" if n % 20 == 0 else b"")) for n in range(320))
    sizes = np.diff(segment.postings.offsets.astype(np.int64))
    assert bitmap_length(320) == 20
    assert sizes.max() == 20
    assert len(blocks_with(segment.postings, key_of(*b"com"), 320)) == 320
    assert blocks_with(segment.postings, key_of(*b"rar"), 320) == set(range(0, 320, 20))


def test_scratch_is_taken_in_chunks_and_nothing_is_lost_between_them() -> None:
    text = bytes(Random(5).randbytes(5 << 20)).replace(b"\0", b"\n")
    segment = build_segment([Document(b"noise", text)])
    assert len(segment.postings.blocks) > CHUNK_KEYS_MAX // 2
    assert segment.content.data.nbytes > CHUNK_KEYS_MAX, "more keys than one chunk holds"
    last = segment.content.blocks - 1
    start = int(segment.content.block_starts[last])
    for at in range(start, start + min(200, BLOCK_BYTES // 2)):
        key = key_of(*text[at : at + 3])
        assert last in blocks_with(segment.postings, key, segment.content.blocks)
