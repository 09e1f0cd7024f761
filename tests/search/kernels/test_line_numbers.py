"""Line numbers and columns from the line counts of blocks equal those of plain counting."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.index.index import BLOCK_BYTES, LONG_LINE_BYTES, Segment
from argosy.search.kernels.line_numbers import (
    BOTTOM,
    COLUMN,
    END,
    IS_LONG,
    LAST_COLUMN,
    LAST_LINE,
    LAST_START,
    LINE,
    LINE_START,
    NEAR_BYTES,
    TOP,
    places,
    places_in_documents,
)
from tests.search.match.search_calls import array, segment_of

pieces = st.sampled_from(
    [b"\n", b"a", b"bc", b"x" * 7, b"y" * 130, b"z" * BLOCK_BYTES, b"w" * (LONG_LINE_BYTES + 9), b"ab\n" * 2000]
)
texts = st.lists(pieces, min_size=1, max_size=14).map(b"".join)


def placed(text: bytes, spans: list[tuple[int, int]], *, context: int = 0, bytes_max: int = 0) -> list[list[int]]:
    """The rows for the text as the second of two documents, positions counted from its own start."""
    segment = segment_of({"a.c": b"first\nfile", "later.txt": text})
    content, document = segment.content, _document(segment, text)
    start, end = int(content.starts[document]), int(content.starts[document + 1]) - 1
    starts, ends = array(*(start + low for low, _ in spans)), array(*(start + high for _, high in spans))
    rows = places(content.data, start, end, content.block_starts, content.block_lines, starts, ends, context, bytes_max)
    rows[:, [LINE_START, LAST_START, END, TOP, BOTTOM]] -= start
    positions: list[list[int]] = rows.tolist()
    return positions


def _document(segment: Segment, text: bytes) -> int:
    return next(i for i in range(segment.content.documents) if segment.path(i) == b"later.txt")


def line_start(text: bytes, at: int) -> int:
    return text.rfind(b"\n", 0, at) + 1


def line_end(text: bytes, at: int) -> int:
    found = text.find(b"\n", at)
    return len(text) if found < 0 else found + 1


@settings(deadline=None, max_examples=60)
@given(texts, st.data())
def test_line_numbers_equal_plain_counting(text: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=12)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    context = data.draw(st.integers(0, 2))
    for (start, end), row in zip(spans, placed(text, spans, context=context), strict=True):
        top, bottom = line_start(text, start), line_end(text, max(end - 1, start))
        assert (row[LINE], row[LINE_START]) == (1 + text.count(b"\n", 0, start), top)
        assert (row[LAST_LINE], row[LAST_START]) == (1 + text.count(b"\n", 0, end), line_start(text, end))
        assert row[END] == bottom
        for _ in range(context):
            top = line_start(text, max(top - 1, 0))
            bottom = line_end(text, bottom) if bottom < len(text) else bottom
        assert (row[TOP], row[BOTTOM]) == (top, bottom)


def test_an_overlong_line_has_no_context_and_is_none() -> None:
    text = b"one\n" + b"x" * 50 + b"\ntwo\nthree\n"
    long, short = placed(text, [(10, 12), (55, 58)], context=3, bytes_max=20)
    assert (long[IS_LONG], long[TOP], long[BOTTOM]) == (1, 4, 55)
    assert (short[IS_LONG], text[short[TOP] : short[BOTTOM]]) == (0, b"two\nthree\n")


def test_the_newline_does_not_count_towards_the_bound() -> None:
    assert placed(b"x" * 20 + b"\n", [(0, 1)], bytes_max=20)[0][IS_LONG] == 0
    assert placed(b"x" * 21, [(0, 1)], bytes_max=20)[0][IS_LONG] == 1


def test_columns_are_computed_where_characters_are_bytes() -> None:
    plain, beyond, over_lines = placed("ab needle\nä needle\n".encode(), [(3, 9), (13, 19), (17, 20)])
    assert (plain[COLUMN], plain[LAST_COLUMN]) == (4, 10)
    assert (beyond[COLUMN], beyond[LAST_COLUMN]) == (0, 0)
    assert (over_lines[COLUMN], over_lines[LAST_COLUMN]) == (0, 0)


def test_columns_far_into_a_line_are_left_to_the_caller() -> None:
    near, far = placed(b"x" * 2 * NEAR_BYTES, [(0, NEAR_BYTES), (NEAR_BYTES, NEAR_BYTES + 1)])
    assert (near[COLUMN], near[LAST_COLUMN]) == (1, NEAR_BYTES + 1)
    assert (far[COLUMN], far[LAST_COLUMN]) == (0, 0)


@settings(deadline=None, max_examples=30)
@given(st.lists(texts, min_size=1, max_size=4), st.integers(0, 2), st.sampled_from([0, 100]), st.data())
def test_many_documents_together_give_the_result_of_each_alone(
    several: list[bytes], context: int, bytes_max: int, data: st.DataObject
) -> None:
    content = segment_of({f"{i}.txt": text for i, text in enumerate(several)}).content
    starts: list[int] = []
    ends: list[int] = []
    firsts, alone = [0], []
    for document in range(content.documents):
        start, end = int(content.starts[document]), int(content.starts[document + 1]) - 1
        cuts = sorted(data.draw(st.sets(st.integers(start, end), max_size=6)))
        lows, highs = cuts[: len(cuts) // 2 * 2 : 2], cuts[1::2]
        starts, ends = starts + lows, ends + highs
        firsts.append(len(starts))
        alone += places(
            content.data,
            start,
            end,
            content.block_starts,
            content.block_lines,
            array(*lows),
            array(*highs),
            context,
            bytes_max,
        ).tolist()
    together = places_in_documents(
        content.data,
        content.starts,
        content.block_starts,
        content.block_lines,
        array(*range(content.documents)),
        freeze(np.array(firsts)),
        array(*starts),
        array(*ends),
        context,
        bytes_max,
    )
    assert together.tolist() == alone
