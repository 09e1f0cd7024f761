"""Spans as arrays."""

import numpy as np

from argosy.search.match.spans import NOTHING, Spans, merge_spans, spans_of
from tests.search.match.search_calls import array, segment_of


def spans() -> Spans:
    return Spans(array(1, 5, 9), array(2, 6, 10), array(0, 2, 2), is_name=True, boost=2.0)


def test_those_within_some_documents_keep_what_they_are() -> None:
    kept = spans().within(np.array([False, False, True]))
    assert (kept.starts.tolist(), kept.ends.tolist(), kept.documents.tolist()) == ([5, 9], [6, 10], [2, 2])
    assert (kept.is_name, kept.boost) == (True, 2.0)
    assert spans().mask(4).tolist() == [True, False, True, False]


def test_spans_know_their_documents() -> None:
    text = segment_of({"a": b"12345", "b": b"", "c": b"xyz"}).content
    starts = array(*(int(start) for start in text.starts[:-1]), int(text.starts[2]) + 1)
    found = spans_of(text, array(*sorted(starts.tolist())), array(*sorted(starts.tolist())))
    assert found.documents.tolist() == sorted([0, 1, 2, 2])


def test_several_lists_are_joined_in_order() -> None:
    starts, ends = merge_spans([(array(7), array(8)), (NOTHING, NOTHING), (array(1, 9), array(3, 10))])
    assert (starts.tolist(), ends.tolist()) == ([1, 7, 9], [3, 8, 10])
    assert merge_spans([]) == (NOTHING, NOTHING)
    only = (array(4), array(5))
    assert merge_spans([(NOTHING, NOTHING), only]) is only
