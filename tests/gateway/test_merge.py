"""Merged results: ranked, summed and limited as if one index set had all indexes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from argosy.base.errors import Unavailable
from argosy.gateway.merge import merge_listings, merge_results, select_repositories, sum_stats
from argosy.search.fleet.model import ListResult, RepoListing
from argosy.search.model import (
    FileMatch,
    Form,
    LimitHit,
    Missing,
    MissingReason,
    Options,
    Repository,
    SearchResult,
    Stats,
)
from tests.gateway.world import NAMES, comparable, oracle


def file(repository: str, path: str, score: float, rank: int = 0) -> FileMatch:
    return FileMatch(repository, path, score=score, repository_rank=rank, match_count=1)


def answer(*files: FileMatch, **stats: int) -> SearchResult:
    return SearchResult(files, Stats(files=len(files), **stats))


def shown(found: SearchResult) -> list[str]:
    return [f"{each.repository}:{each.path}" for each in found.files]


def test_higher_scores_come_first_then_ranks_then_names_then_index_order() -> None:
    one = answer(file("b", "2", 9.0), file("b", "1", 9.0), file("b", "3", 1.0))
    two = answer(file("c", "1", 9.0, rank=5), file("a", "9", 9.0), file("a", "1", 8.0))
    assert shown(merge_results([one, two], Options())) == ["c:1", "a:9", "b:2", "b:1", "a:1", "b:3"]
    assert merge_results([two, one], Options()) == merge_results([one, two], Options())


def test_the_best_files_of_all_nodes_are_shown_and_the_limit_is_reported() -> None:
    one, two = answer(file("a", "1", 3.0), file("a", "2", 2.0)), answer(file("b", "1", 2.5))
    found = merge_results([one, two], Options(files_max=2))
    assert shown(found) == ["a:1", "b:1"]
    assert found.limits_hit == (LimitHit.FILES_SHOWN,)
    assert found.stats.files == 3


def test_a_limit_hit_by_one_node_and_not_by_the_merged_result_is_not_reported() -> None:
    cut = SearchResult((FileMatch("a", "1", score=1.0, match_count=9),), Stats(files=1), (LimitHit.MATCHES_SHOWN,))
    better = answer(file("b", "1", 2.0))
    assert merge_results([cut, better], Options(files_max=1, file_matches_max=2)).limits_hit == (LimitHit.FILES_SHOWN,)
    whole = merge_results([cut, better], Options(files_max=2, file_matches_max=2))
    assert whole.limits_hit == (LimitHit.MATCHES_SHOWN,)


def test_sums_are_sums_and_the_time_is_the_longest() -> None:
    one = Stats(files=1, matches=2, content_bytes=3, indexes_searched=1, duration_s=0.5)
    two = Stats(files=10, matches=20, content_bytes=30, indexes_searched=4, duration_s=0.2, wait_s=0.1)
    assert sum_stats([one, two], excluded=3) == Stats(
        files=11,
        matches=22,
        content_bytes=33,
        indexes_searched=5,
        indexes_excluded=3,
        duration_s=0.5,
        wait_s=0.1,
    )


def test_merging_no_results_gives_an_empty_result() -> None:
    assert merge_results([], Options()) == SearchResult()
    assert merge_results([], Options(), excluded=2).stats == Stats(indexes_excluded=2)


def test_missing_repositories_are_sorted_and_metadata_is_only_of_files_shown() -> None:
    known = {name: Repository(name) for name in "ab"}
    one = SearchResult((file("a", "1", 3.0), file("b", "1", 2.0)), Stats(files=2), repositories=known)
    missing = [Missing("z", MissingReason.WARMING), Missing("c", MissingReason.UNOWNED)]
    found = merge_results([one], Options(files_max=1), missing=missing)
    assert [each.repository for each in found.missing] == ["c", "z"]
    assert found.repositories == {"a": Repository("a")}


def test_only_files_that_are_shown_are_opened() -> None:
    broken = b"these are no chunks"
    best = oracle(NAMES[:1], "needle", Options(pre_encoded=True, files_max=1)).files[0]
    least = FileMatch("z", "1", score=-1.0, match_count=1, encoded_matches=broken)
    [shown] = merge_results([answer(best), answer(least)], Options(files_max=1)).files
    assert shown == oracle(NAMES[:1], "needle", Options(files_max=1)).files[0]
    assert len(merge_results([answer(best), answer(least)], Options(matches_max=1)).files) == 1
    with pytest.raises(Unavailable):
        merge_results([answer(best), answer(least)], Options(files_max=2))


def test_a_part_of_a_result_is_incomplete() -> None:
    encoded = oracle(NAMES[:2], "needle", Options(pre_encoded=True))
    part = select_repositories(encoded, NAMES[:1])
    assert part.files == oracle(NAMES[:1], "needle").files
    assert all(file.encoded_matches for file in encoded.files)


def test_lists_are_merged_by_name() -> None:
    one, two = (ListResult(tuple(RepoListing(Repository(name)) for name in names)) for names in ("ac", "b"))
    found = merge_listings([one, two], [Missing("z", MissingReason.FAILED), Missing("y", MissingReason.FAILED)])
    assert [entry.repository.name for entry in found.entries] == ["a", "b", "c"]
    assert [each.repository for each in found.missing] == ["y", "z"]


@given(
    share=st.lists(st.integers(0, 3), min_size=len(NAMES), max_size=len(NAMES)),
    text=st.sampled_from(["needle", "launch", "return.*n", r"\n\ndef", "file:src", "-thread"]),
    options=st.builds(
        Options,
        files_max=st.sampled_from([0, 1, 4, 50]),
        matches_max=st.sampled_from([0, 1, 3, 8, 30]),
        file_matches_max=st.sampled_from([0, 1, 3]),
        context_lines=st.sampled_from([0, 1, 5]),
        form=st.sampled_from(Form),
    ),
)
@settings(max_examples=150, deadline=None)
def test_the_merged_result_does_not_depend_on_the_distribution_of_repositories(
    share: list[int], text: str, options: Options
) -> None:
    parts = [[name for name, node in zip(NAMES, share, strict=True) if node == i] for i in range(4)]
    found = merge_results([oracle(part, text, options) for part in parts if part], options)
    assert comparable(found) == comparable(oracle(NAMES, text, options))
    # A node can ignore the option, or have nothing that it can encode.
    how_encoded = [structs.replace(options, pre_encoded=bool(i % 2)) for i in range(4)]
    mixed = merge_results(
        [oracle(part, text, how) for part, how in zip(parts, how_encoded, strict=True) if part], options
    )
    assert comparable(mixed) == comparable(found)


@pytest.mark.parametrize("form", [Form.CHUNKS, Form.LINES])
def test_the_bound_on_matches_may_fall_within_a_file(form: Form) -> None:
    for matches_max in range(1, 25):
        options = Options(matches_max=matches_max, form=form)
        found = merge_results([oracle(NAMES[:3], "needle", options), oracle(NAMES[3:], "needle", options)], options)
        shown_matches = sum(len(c.ranges) for f in found.files for c in f.chunks)
        shown_matches += sum(len(line.fragments) for f in found.files for line in f.lines)
        assert shown_matches == matches_max
        assert comparable(found) == comparable(oracle(NAMES, "needle", options))
