"""A flipped bit anywhere is found and named."""

import numpy as np
import pytest

from argosy.search.documents import Definition
from argosy.search.index.index import Index, Part, Segment
from argosy.search.index.sections import BRANCHES, SECTIONS, Array, Damage, part_with_checksum, sections, verify
from argosy.search.index.segment_builder import Document, build_segment
from argosy.search.model import Repository


def small_segment() -> Segment:
    text = b"def name(): pass\n" * 600
    return build_segment(
        Document(b"%d.py" % n, text, blob_id=b"id%d" % n, language="Python", definitions=[Definition(4, 4, "function")])
        for n in range(3)
    )


def small_index() -> Index:
    return Index(
        Repository("r"),
        tuple(part_with_checksum(small_segment(), np.array([1, 0, 3], np.uint64)) for _ in range(2)),
    )


def flip(array: Array, bit: int) -> None:
    raw = array.reshape(-1).view(np.uint8)
    array.setflags(write=True)
    array.reshape(-1).view(np.uint8)[bit // 8 % len(raw)] ^= 1 << bit % 8
    array.setflags(write=False)


def test_an_index_as_it_was_built_is_whole() -> None:
    assert verify(small_index()) == []


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("bit", [0, 8_191])
def test_a_flipped_bit_is_found_and_named(section: str, bit: int) -> None:
    index = small_index()
    arrays = dict(sections(index.parts[1].segment))
    flip(arrays[section], bit)
    # Names have one block each, so their starts serve as block starts too.
    hit = [name for name in SECTIONS if arrays[name] is arrays[section]]
    assert verify(index) == [Damage(1, name) for name in hit]
    flip(arrays[section], bit)
    assert verify(index) == []


def test_a_flipped_branch_is_found() -> None:
    index = small_index()
    flip(index.parts[0].branches, 3)
    assert verify(index) == [Damage(0, BRANCHES)]


def test_an_index_without_checksums_is_not_reported_as_sound() -> None:
    segment = small_segment()
    bare = Segment(segment.content, segment.postings, segment.names, segment.symbols, segment.table, segment.languages)
    found = verify(Index(Repository("r"), (Part(bare, np.ones(3, np.uint64)),)))
    assert {damage.section for damage in found} == {*SECTIONS, BRANCHES}
