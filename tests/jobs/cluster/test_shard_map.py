"""The shard map covers every hash, after any operation and from any writer."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from argosy.base.errors import Invalid, NotFound
from argosy.jobs.cluster.shard_map import (
    SHARDS_MAX,
    HashRange,
    ShardMap,
    SplitRequest,
    decode_map,
    encode_map,
    first_map,
    validate,
)


def new_map(shards: int = 2) -> ShardMap:
    ids = count(1)
    return first_map(shards, lambda: f"shard-{next(ids)}", 1000)


def test_children_replace_their_parent_in_place() -> None:
    split = new_map().after_split("shard-1", "4000000000000000", "left", "right", 2000)
    assert split.version == 2
    assert [(spec.id, spec.range.start, spec.parent) for spec in split.shards] == [
        ("left", "", "shard-1"),
        ("right", "4000000000000000", "shard-1"),
        ("shard-2", "8000000000000000", ""),
    ]
    assert split.by_id("left").created_at == 2000
    with pytest.raises(NotFound):
        split.by_id("shard-1")


@given(st.text(min_size=1, max_size=20), st.lists(st.integers(0, 30), max_size=12))
def test_after_any_splits_a_tenant_has_one_shard_descended_from_its_first(tenant: str, choices: list[int]) -> None:
    shards, ids = new_map(), count(100)
    first = shards.of_tenant(tenant).id
    parents: dict[str, str] = {}
    for choice in choices:
        spec = shards.shards[choice % len(shards.shards)]
        left, right = str(next(ids)), str(next(ids))
        shards = shards.after_split(spec.id, spec.range.middle(), left, right, 0)
        parents[left] = parents[right] = spec.id
    at = shards.of_tenant(tenant).id
    while at in parents:
        at = parents[at]
    assert at == first


def test_cancelling_a_split_changes_only_the_attempt_count() -> None:
    before = new_map()
    after = before.with_split_aborted("shard-2")
    assert after.version == before.version + 1
    assert [spec.aborted_splits for spec in after.shards] == [0, 1]
    assert [replace(spec, aborted_splits=0) for spec in after.shards] == list(before.shards)


def test_a_split_request_changes_nothing_else_and_ends_with_the_shard() -> None:
    before, split_request = new_map(), SplitRequest("4000000000000000", 1500, "n1")
    after = before.with_split_request("shard-1", split_request)
    assert after.version == before.version + 1
    assert [spec.split_request for spec in after.shards] == [split_request, None]
    assert after.with_split_request("shard-1", None).shards == before.shards
    assert after.with_split_aborted("shard-1").by_id("shard-1").split_request == split_request
    assert {spec.split_request for spec in after.after_split("shard-1", split_request.point, "l", "r", 0).shards} == {
        None
    }
    assert decode_map(encode_map(after)) == after


def test_a_map_without_split_requests_is_read() -> None:
    shards = new_map()
    text = encode_map(shards).replace(b',\n   "split_request": null', b"")
    assert b"split_request" not in text
    assert decode_map(text) == shards


def test_a_map_round_trips() -> None:
    shards = new_map(5).after_split("shard-3", "7000000000000000", "l", "r", 7)
    assert decode_map(encode_map(shards)) == shards


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'{"version":1,"shards":[]}', b"\xff\xfe"])
def test_an_invalid_map_is_rejected(text: bytes) -> None:
    with pytest.raises(Invalid):
        decode_map(text)


def test_a_map_of_a_later_format_is_rejected() -> None:
    with pytest.raises(Invalid, match="format 3"):
        decode_map(encode_map(replace(new_map(), format=3)))


@pytest.mark.parametrize(
    "ranges",
    [
        [HashRange("", "4000000000000000"), HashRange("8000000000000000", "")],
        [HashRange("", "8000000000000000"), HashRange("4000000000000000", "")],
        [HashRange("", "8000000000000000")],
        [HashRange("", ""), HashRange("", "")],
    ],
)
def test_gaps_and_overlaps_are_rejected(ranges: list[HashRange]) -> None:
    spec = new_map().shards[0]
    with pytest.raises(Invalid, match="gaps or overlaps"):
        validate(ShardMap(1, tuple(replace(spec, id=str(n), range=part) for n, part in enumerate(ranges))))


@pytest.mark.parametrize("shards", [0, SHARDS_MAX + 1])
def test_the_number_of_shards_is_bounded(shards: int) -> None:
    with pytest.raises(Invalid, match=str(SHARDS_MAX)):
        new_map(shards)
