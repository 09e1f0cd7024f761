"""Building a segment: documents are read back as added, from arrays it owns, within the bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.documents import Category, Definition, SkipReason
from argosy.search.index.index import SEGMENT_BLOCKS_MAX, SEGMENT_TEXT_BYTES, Trait
from argosy.search.index.sections import SECTIONS, sections
from argosy.search.index.segment_builder import Document, SegmentBuilder, build_segment
from argosy.search.index.wire import faults
from argosy.search.symbols import KINDS
from tests.search.index.postings_reader import contents, paths

names = st.binary(min_size=1, max_size=12).map(lambda each: each.replace(b"\0", b"\n"))
texts = st.binary(max_size=200).map(lambda each: each.replace(b"\0", b" "))
documents = st.lists(st.builds(Document, names, texts, st.binary(max_size=20)), max_size=8)


@settings(deadline=None)
@given(documents=documents)
def test_added_documents_are_read_back(documents: list[Document]) -> None:
    segment = build_segment(documents)
    assert contents(segment.content) == [document.content for document in documents]
    assert paths(segment) == [document.path for document in documents]
    assert [segment.path(number) for number in range(len(documents))] == paths(segment)
    stored = [segment.table.blob_ids[number].tobytes().rstrip(b"\0") for number in range(len(documents))]
    assert stored == [document.blob_id.rstrip(b"\0") for document in documents]
    assert list(faults(segment)) == []


def test_every_array_owns_its_memory_is_read_only_and_of_its_type() -> None:
    segment = build_segment([Document(b"a", b"text\n" * 5000), Document(b"b")])
    found = dict(sections(segment))
    assert list(found) == list(SECTIONS)
    for name, array in found.items():
        assert array.base is None, name
        assert not array.flags.writeable, name
        assert array.dtype == SECTIONS[name], name


def test_the_table_has_the_fields_of_each_document() -> None:
    segment = build_segment(
        [
            Document(b"a.py", b"x", language="Python", category=Category.TEST),
            Document(b"b.go", b"x", language="Go"),
            Document(b"c.py", language="Python", skip=SkipReason.BINARY),
        ]
    )
    assert segment.languages == ("Python", "Go")
    assert segment.table.languages.tolist() == [0, 1, 0]
    assert segment.table.categories.tolist() == [Category.TEST, 0, 0]
    assert segment.table.skips.tolist() == [0, 0, list(SkipReason).index(SkipReason.BINARY)]


def test_traits_of_every_sort_are_marked() -> None:
    long = b"x" * 10_000
    texts = [b"plain", b"\xff", "\u212a".encode(), long, b"\xff" + long, long[:8192], b"y\n" * 9000]
    segment = build_segment(Document(b"%d" % number, text) for number, text in enumerate(texts))
    cut = Trait.CUT_LINE
    assert segment.table.traits.tolist() == [0, Trait.INVALID_UTF8, Trait.ODD_FOLD, cut, cut | Trait.INVALID_UTF8, 0, 0]


def test_an_odd_name_is_marked_whatever_the_content() -> None:
    names = [b"plain.c", b"new\nline", b"\xff", "\u017f.c".encode(), "größe".encode()]
    segment = build_segment(Document(name, b"\xff") for name in names)
    odd = Trait.ODD_NAME | Trait.INVALID_UTF8
    assert segment.table.traits.tolist() == [Trait.INVALID_UTF8, odd, odd, odd, Trait.INVALID_UTF8]


def test_definitions_are_placed_in_the_segments_text() -> None:
    first = [Definition(6, 3, "class"), Definition(14, 1, "method", parent=0)]
    second = [Definition(5, 4, "function")]
    segment = build_segment(
        [
            Document(b"a.py", b"class Abc: def f", language="Python", definitions=first),
            Document(b"b.go", b"func Open()", language="Go", definitions=second),
        ]
    )
    symbols = segment.symbols
    places = zip(symbols.starts.tolist(), symbols.lengths.tolist(), strict=True)
    named = [segment.content.data[start : start + length].tobytes() for start, length in places]
    assert named == [b"Abc", b" ", b"Open"]
    assert [KINDS[kind] for kind in symbols.kinds] == ["class", "method", "function"]
    assert symbols.parents.tolist() == [-1, 0, -1]
    assert symbols.points.tolist() == [1000, 800, 850], "go's exported functions are worth more"


def test_a_segment_of_nothing_is_sound() -> None:
    segment = build_segment([])
    assert segment.content.documents == segment.content.blocks == 0
    assert list(faults(segment)) == []


def test_there_is_room_until_the_blocks_run_out() -> None:
    builder = SegmentBuilder(expected_bytes=0)
    for number in range(SEGMENT_BLOCKS_MAX):
        assert builder.fits(b"p", 0)
        builder.add(Document(b"%d" % number))
    assert not builder.fits(b"p", 0)
    segment = builder.finish()
    assert segment.content.blocks == SEGMENT_BLOCKS_MAX
    assert segment.content.block_docs[-1] == SEGMENT_BLOCKS_MAX - 1


def test_a_document_that_had_no_room_is_noticed() -> None:
    builder = SegmentBuilder(expected_bytes=0)
    for number in range(SEGMENT_BLOCKS_MAX + 1):
        builder.add(Document(b"%d" % number))
    with pytest.raises(AssertionError, match="does not fit"):
        builder.finish()


def test_there_is_room_until_the_text_is_too_long() -> None:
    builder = SegmentBuilder(expected_bytes=0)
    assert builder.fits(b"p", SEGMENT_TEXT_BYTES * 2), "one document may be larger"
    builder.add(Document(b"a", b"12345"))
    assert builder.fits(b"p", SEGMENT_TEXT_BYTES - 7)
    assert not builder.fits(b"p", SEGMENT_TEXT_BYTES - 6)


def test_lines_are_counted_from_the_start_of_their_document() -> None:
    segment = build_segment([Document(b"a", b"1234567\n" * 2000), Document(b"b", b"1234567\n" * 1000)])
    text = segment.content
    starts = text.starts[text.block_docs]
    assert ((text.block_starts[:-1] - starts) // 8).tolist() == text.block_lines.tolist()
    assert np.count_nonzero(text.block_lines) == text.blocks - 2
