"""Requests as Go's decoder reads them, and the meaning of their limits."""

import msgspec
import pytest

from argosy.base.errors import Invalid
from argosy.gateway.zoekt.requests import (
    INDEX_MATCH_LIMIT,
    WALL_TIME_S,
    WALL_TIME_S_MAX,
    SearchOpts,
    ZoektListRequest,
    ZoektSearchRequest,
    decode_request,
    needs_estimate,
    options_of,
    with_zoekt_limits,
)
from argosy.search.model import Form, Options


def test_keys_match_whatever_their_case_and_unknown_ones_are_ignored() -> None:
    body = b'{"q":"x","oPTS":{"chunkmatches":true,"NUMCONTEXTLINES":3,"UseDocumentRanks":true,"Weight":0.5},"x":[{}]}'
    request = decode_request(body, ZoektSearchRequest)
    assert request.q == "x"
    assert (request.opts.chunk_matches, request.opts.num_context_lines) == (True, 3)


def test_null_is_the_same_as_absent() -> None:
    assert (
        decode_request(b'{"Q":null,"RepoIDs":null,"Opts":{"Whole":null}}', ZoektSearchRequest) == ZoektSearchRequest()
    )
    assert decode_request(b'{"Opts":null}', ZoektListRequest) == ZoektListRequest()


def test_an_empty_list_of_repositories_is_not_the_same_as_none() -> None:
    assert decode_request(b'{"Q":"x","RepoIDs":[]}', ZoektSearchRequest).repo_ids == []
    assert decode_request(b'{"Q":"x"}', ZoektSearchRequest).repo_ids is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b'"Q"',
        b'{"Q":1}',
        b'{"Q":"\xff"}',
        b'{"Q":"x","RepoIDs":[-1]}',
        b'{"Q":"x","RepoIDs":[4294967296]}',
        b'{"Q":"x","RepoIDs":["1"]}',
        b'{"Q":"x","Opts":[]}',
        b'{"Q":"x","Opts":{"Whole":1}}',
        b'{"Q":"x","Opts":{"MaxDocDisplayCount":"5"}}',
        b'{"Q":"x","Opts":{"MaxDocDisplayCount":1.5}}',
        b'{"Q":"x","Opts":{"MaxDocDisplayCount":99999999999999999999}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_an_invalid_request_is_rejected(body: bytes) -> None:
    with pytest.raises(Invalid, match="body"):
        decode_request(body, ZoektSearchRequest)


def test_the_bounds_of_a_request_that_names_none() -> None:
    options = options_of(SearchOpts())
    assert (options.files_max, options.matches_max, options.total_match_limit) == (0, 0, 0)
    assert options.index_match_limit == INDEX_MATCH_LIMIT
    assert options.wall_time_s == WALL_TIME_S
    assert options.form is Form.LINES


@pytest.mark.parametrize(
    ("opts", "limit"),
    [
        ({"shardmaxmatchcount": -1}, 0),
        ({"shardmaxmatchcount": 7}, 7),
        ({"shardmaxmatchcount": -1, "shardrepomaxmatchcount": 5}, 5),
        ({"shardmaxmatchcount": 7, "shardrepomaxmatchcount": 5}, 5),
        ({"shardrepomaxmatchcount": 5}, 5),
    ],
)
def test_a_negative_shard_limit_is_none_and_the_tighter_one_counts(opts: dict[str, int], limit: int) -> None:
    assert options_of(msgspec.convert(opts, SearchOpts)).index_match_limit == limit


def test_durations_are_nanoseconds_and_have_a_ceiling() -> None:
    assert options_of(SearchOpts(max_wall_time=1_500_000_000)).wall_time_s == 1.5
    assert options_of(SearchOpts(max_wall_time=2**62)).wall_time_s == WALL_TIME_S_MAX
    assert options_of(SearchOpts(max_wall_time=-1)).wall_time_s == WALL_TIME_S


@pytest.mark.parametrize(
    ("documents", "index_limit", "total_limit"),
    [(0, 5000, 5000), (10_000, 15_000, 15_000), (10_001, 250 + 25, 0), (1_000_000, 250, 0)],
)
def test_the_limits_of_a_display_count_follow_the_number_of_documents(
    documents: int, index_limit: int, total_limit: int
) -> None:
    options = with_zoekt_limits(Options(files_max=50), documents)
    assert (options.index_match_limit, options.total_match_limit) == (index_limit, total_limit)


def test_only_a_display_count_without_a_shard_limit_needs_an_estimate() -> None:
    assert needs_estimate(SearchOpts(max_doc_display_count=5))
    assert not needs_estimate(SearchOpts())
    assert not needs_estimate(SearchOpts(max_doc_display_count=5, shard_max_match_count=-1))
    assert not needs_estimate(SearchOpts(max_doc_display_count=5, estimate_doc_count=True))
