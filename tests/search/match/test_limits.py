"""Limits stop the work and are reported: an incomplete result is marked with the limits it hit (GW-1)."""

import pytest

from argosy.search.index.index import Index
from argosy.search.match import Budget
from argosy.search.model import Form, LimitHit, Options
from argosy.search.query.tree import And, Const, Not, Query, Regexp, ResultKind, Substring, Type
from tests.search.match.search_calls import (
    CountingFlag,
    build_index,
    cancelled_by,
    search_many,
    search_one,
    tree_of,
    unbounded,
)

FILES = 12
BATCH = 3  # documents


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds are met between batches: with batches of a few files, small repositories are stopped as large ones are."""
    monkeypatch.setattr("argosy.search.match.evaluate.BATCH_DOCUMENTS", BATCH)


def fleet(name: str = "fleet", rank: int = 0) -> Index:
    return build_index({f"f{i:02}.txt": b"needle and needle\nother %d\n" % i for i in range(FILES)}, name, rank)


def test_a_complete_result_has_seen_everything_and_is_marked_complete() -> None:
    answer = search_one(fleet(), "needle")
    assert answer.is_complete
    stats = answer.stats
    assert (stats.files, stats.matches) == (FILES, 2 * FILES)
    assert (stats.files_considered, stats.files_loaded, stats.files_skipped) == (FILES, FILES, 0)
    assert (stats.indexes_searched, stats.indexes_skipped, stats.indexes_excluded) == (1, 0, 0)
    assert stats.content_bytes >= FILES * len("needle and needle")


def test_enough_matches_in_one_repository_end_its_search() -> None:
    answer = search_one(fleet(), "needle", Options(index_match_limit=BATCH * 2 + 1))
    assert answer.limits_hit == (LimitHit.INDEX_MATCHES,)
    assert (answer.stats.files, answer.stats.files_loaded, answer.stats.files_skipped) == (6, 6, FILES - 6)
    assert len(answer.files) == 6


def test_a_limit_that_is_met_by_the_last_batch_cuts_nothing() -> None:
    assert search_one(fleet(), "needle", Options(index_match_limit=2 * FILES)).is_complete


def test_every_repository_has_its_own_limit() -> None:
    answer = search_many([fleet("a"), fleet("b")], "needle", Options(index_match_limit=1))
    assert answer.limits_hit == (LimitHit.INDEX_MATCHES,)
    assert answer.stats.files == 2 * BATCH
    assert {file.repository for file in answer.files} == {"a", "b"}


def test_enough_matches_in_all_start_no_further_repository() -> None:
    answer = search_many([fleet("a"), fleet("b"), fleet("c")], "needle", Options(total_match_limit=2 * FILES + 1))
    assert answer.limits_hit == (LimitHit.TOTAL_MATCHES,)
    stats = answer.stats
    assert (stats.indexes_searched, stats.indexes_skipped) == (2, 1)
    assert (stats.files, stats.files_skipped) == (FILES + BATCH, FILES - BATCH)
    assert {file.repository for file in answer.files} == {"a", "b"}


def test_fewer_files_are_shown_and_they_are_the_best() -> None:
    everything = search_one(fleet(), "needle").files
    for size in range(1, FILES):
        answer = search_one(fleet(), "needle", Options(files_max=size))
        assert answer.limits_hit == (LimitHit.FILES_SHOWN,)
        assert answer.files == everything[:size]
        assert answer.stats.files == FILES
    assert search_one(fleet(), "needle", Options(files_max=FILES)).is_complete


def test_no_bound_on_files_shows_them_all() -> None:
    assert len(search_one(fleet(), "needle", Options(files_max=0)).files) == FILES


def test_fewer_matches_are_shown_over_all_files() -> None:
    answer = search_one(fleet(), "needle", Options(matches_max=5))
    assert answer.limits_hit == (LimitHit.MATCHES_SHOWN,)
    assert [sum(len(chunk.ranges) for chunk in file.chunks) for file in answer.files] == [2, 2, 1]
    assert [file.match_count for file in answer.files] == [2, 2, 2]
    assert answer.stats.matches == 2 * FILES


def test_fewer_matches_of_one_file_are_shown() -> None:
    answer = search_one(fleet(), "needle", Options(file_matches_max=1))
    assert answer.limits_hit == (LimitHit.MATCHES_SHOWN,)
    assert {sum(len(chunk.ranges) for chunk in file.chunks) for file in answer.files} == {1}
    assert len(answer.files) == FILES
    assert search_one(fleet(), "needle", Options(file_matches_max=2)).is_complete


def test_both_display_limits_are_reported_if_both_apply() -> None:
    answer = search_one(fleet(), "needle", Options(files_max=2, matches_max=3))
    assert answer.limits_hit == (LimitHit.FILES_SHOWN, LimitHit.MATCHES_SHOWN)


def test_counting_shows_nothing_and_is_bound_by_nothing_that_is_shown() -> None:
    answer = search_one(fleet(), "needle", Options(form=Form.COUNT, files_max=1, matches_max=1))
    assert (answer.is_complete, answer.stats.matches, answer.files) == (True, 2 * FILES, ())


def test_an_estimate_reads_no_text() -> None:
    answer = search_one(fleet(), "needle", Options(estimate_only=True))
    assert (answer.files, answer.is_complete) == ((), True)
    stats = answer.stats
    assert (stats.files_considered, stats.files_loaded, stats.files_skipped, stats.content_bytes) == (FILES, 0, 0, 0)


class Ticking:
    """A clock that advances by a second at every reading."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1
        return self.now_s


def test_after_a_timeout_the_partial_result_is_returned() -> None:
    whole = Ticking()
    complete = search_one(fleet(), "needle", budget=Budget(whole, wall_time_s=1e6))
    assert complete.is_complete
    cut = set()
    for wall_time_s in range(1, int(whole.now_s)):
        answer = search_one(fleet(), "needle", budget=Budget(Ticking(), wall_time_s=wall_time_s))
        if answer.limits_hit:
            assert answer.limits_hit == (LimitHit.WALL_TIME,)
            assert answer.stats.files_loaded + answer.stats.files_skipped == answer.stats.files_considered
        assert answer.is_complete == (answer.stats.files == FILES)
        assert len(answer.files) == answer.stats.files
        cut.add(answer.stats.files)
    assert {0, BATCH, 2 * BATCH} <= cut


QUERIES: list[Query] = [
    tree_of("needle"),
    tree_of("needle other"),
    tree_of("needle -other"),
    tree_of("-nowhere"),
    tree_of("-(needle -other)"),
    tree_of(r"need\w+"),
    tree_of(r"\bneedle\b|nowhere"),
    tree_of(r"\Aneedle"),
    tree_of("x*"),
    tree_of("sym:x*"),
    tree_of("(type:repo needle) other"),
    tree_of("-(type:repo nowhere) other"),
    tree_of("-(type:repo needle) other"),
    And((Substring("needle"), Not(Regexp("other [5-9]")))),
    Type(ResultKind.FILE_NAME, Substring("needle")),
    Const(True),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_search_cut_anywhere_returns_only_true_matches_and_is_marked_as_cut(query: Query) -> None:
    """The flag is raised at each check in turn: the result is a part of the complete one, or all of it."""
    flag = CountingFlag()
    index = fleet()
    truth = {file.path: file.match_count for file in search_one(index, query, budget=cancelled_by(flag)).files}
    for at in range(1, flag.seen + 1):
        answer = search_one(index, query, budget=cancelled_by(CountingFlag(at)))
        found = {file.path: file.match_count for file in answer.files}
        assert found.keys() <= truth.keys()
        assert answer.limits_hit == (LimitHit.CANCELLED,)
    assert search_one(index, query, budget=unbounded()).is_complete
