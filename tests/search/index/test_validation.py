"""Inconsistent arrays are rejected before a kernel uses them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argosy.search.documents import Definition
from argosy.search.index.index import Segment
from argosy.search.index.segment_builder import Document, build_segment
from argosy.search.index.wire import faults


@pytest.fixture(scope="module")
def segment() -> Segment:
    text = b"def name(): pass\n" * 2000
    definitions = [Definition(4, 4, "function"), Definition(21, 4, "function", parent=0)]
    return build_segment(Document(b"%d.py" % n, text, b"id", "Python", definitions=definitions) for n in range(3))


def changed(segment: Segment, group: str, field: str, at: int, value: int) -> Segment:
    inner = getattr(segment, group)
    array = getattr(inner, field).copy()
    array.reshape(-1)[at] = value
    return replace(segment, **{group: replace(inner, **{field: array})})


def shortened(segment: Segment, group: str, field: str) -> Segment:
    inner = getattr(segment, group)
    return replace(segment, **{group: replace(inner, **{field: getattr(inner, field)[:-1].copy()})})


def test_a_freshly_built_segment_is_valid(segment: Segment) -> None:
    assert list(faults(segment)) == []


@pytest.mark.parametrize(
    ("group", "field", "at", "value"),
    [
        ("content", "starts", 1, 5),
        ("content", "starts", -1, 1 << 31),
        ("content", "starts", 0, 1),
        ("content", "data", -1, ord("x")),
        ("content", "block_starts", 2, 1 << 30),
        ("content", "block_starts", 3, 0),
        ("content", "block_docs", 0, 3),
        ("content", "block_docs", 0, 2),
        ("names", "starts", 1, 0),
        ("postings", "present", 0, 0xFFFF),
        ("postings", "ranks", 4000, 0),
        ("postings", "offsets", 1, 1 << 30),
        ("postings", "offsets", -1, 1),
        ("symbols", "starts", 1, 1 << 31),
        ("symbols", "starts", 2, 0),
        ("symbols", "kinds", 0, 255),
        ("symbols", "parents", 1, 6),
        ("symbols", "parents", 1, -2),
        ("table", "languages", 0, 1),
        ("table", "skips", 2, 200),
    ],
)
def test_a_number_that_points_nowhere_is_a_fault(segment: Segment, group: str, field: str, at: int, value: int) -> None:
    assert next(faults(changed(segment, group, field, at, value)), None)


@pytest.mark.parametrize("field", ["starts", "lengths", "kinds", "points", "parents"])
def test_symbol_tables_are_of_one_length(segment: Segment, field: str) -> None:
    assert next(faults(shortened(segment, "symbols", field)), None)


@pytest.mark.parametrize("field", ["languages", "categories", "skips", "traits", "blob_ids"])
def test_document_tables_are_of_one_length(segment: Segment, field: str) -> None:
    assert next(faults(shortened(segment, "table", field)), None)


def test_a_list_names_only_blocks_that_are_there() -> None:
    segment = build_segment(Document(b"%d" % n, b"common" + b" rare" * (n == 7)) for n in range(100))
    sizes = np.diff(segment.postings.offsets.astype(np.int64))
    alone = int(segment.postings.offsets[int(np.flatnonzero(sizes == 1)[0])])
    assert list(faults(changed(segment, "postings", "blocks", alone, 99))) == []
    assert next(faults(changed(segment, "postings", "blocks", alone, 100)), None)


def test_a_bitmap_names_only_blocks_that_are_there() -> None:
    segment = build_segment(Document(b"%d" % n, b"common") for n in range(100))
    postings: Any = segment.postings
    sizes = np.diff(postings.offsets.astype(np.int64))
    bitmap = int(postings.offsets[int(np.flatnonzero(sizes == 8)[0])])
    assert postings.blocks[bitmap + 6] == 0b1111, "blocks 96 to 99"
    assert next(faults(changed(segment, "postings", "blocks", bitmap + 6, 0b11111)), None)
    assert next(faults(changed(segment, "postings", "blocks", bitmap + 7, 1)), None)
