"""The best results: at most k, the earliest of equals first, in any order of merging."""

from itertools import permutations

import numpy as np

from argosy.search.index.index import Index
from argosy.search.match.spans import NO_SPANS, Hits, SpanGroups
from argosy.search.match.top_k import PartHits, TopK
from tests.search.match.search_calls import array, build_index

INDEX = build_index({"a": b"1", "b": b"2", "c": b"3", "d": b"4"})


def hits(*documents: int, content: SpanGroups = NO_SPANS, names: SpanGroups = NO_SPANS) -> Hits:
    return Hits(array(*documents), content, names, np.arange(len(documents)) + 1)


def listed(size: int, *batches: tuple[Index, dict[int, float]]) -> TopK:
    found = TopK(size)
    for index, scores in batches:
        found.add(PartHits(index, 0, hits(*scores)), np.array(list(scores.values())))
    return found


def ranking(top_k: TopK) -> list[tuple[int, float]]:
    return [(hit.document, hit.score) for hit in top_k.best()]


def test_the_best_are_kept_and_equals_stay_in_order() -> None:
    batches = (INDEX, {0: 1.0, 1: 5.0, 2: 5.0}), (INDEX, {3: 5.0})
    assert ranking(listed(3, *batches)) == [(1, 5.0), (2, 5.0), (3, 5.0)]
    assert ranking(listed(2, *batches)) == [(1, 5.0), (2, 5.0)]
    assert ranking(listed(0, *batches)) == [(1, 5.0), (2, 5.0), (3, 5.0), (0, 1.0)]


def test_merging_is_as_adding() -> None:
    parts = [(INDEX, {0: 3.0}), (INDEX, {1: 9.0, 2: 1.0}), (INDEX, {3: 4.0})]
    for order in permutations(parts):
        merged = TopK(2)
        for part in order:
            merged.merge(listed(2, part))
        assert ranking(merged) == [(1, 9.0), (3, 4.0)]


def test_a_hit_has_the_marks_of_its_own_document() -> None:
    content = SpanGroups(array(2, 4, 9), array(3, 5, 10), np.array([1.0, 2.0, 3.0]), array(0, 2), np.array([0, 1, 3]))
    names = SpanGroups(array(6), array(7), None, array(1), np.array([0, 1]))
    top_k = TopK(0)
    found = PartHits(INDEX, 0, hits(0, 1, 2, 3, content=content, names=names))
    top_k.add(found, np.array([4.0, 3.0, 2.0, 1.0]))
    first, second, third, last = top_k.best()
    assert (first.starts.tolist(), first.is_name, first.match_count, first.atoms) == ([2], False, 1, 1)
    assert (second.starts.tolist(), second.is_name, second.boosts) == ([6], True, None)
    assert third.boosts is not None
    assert (third.starts.tolist(), third.ends.tolist(), third.boosts.tolist()) == ([4, 9], [5, 10], [2.0, 3.0])
    assert (last.starts.tolist(), last.is_name, last.match_count, last.atoms) == ([], True, 1, 4)


def test_of_many_equals_the_earliest_are_kept() -> None:
    scores = [1.0, 2.0, 2.0, 0.0, 2.0, 3.0, 2.0, 1.0]
    top_k = TopK(3)
    top_k.add(PartHits(INDEX, 0, hits(*range(8))), np.array(scores))
    assert ranking(top_k) == [(5, 3.0), (1, 2.0), (2, 2.0)]
