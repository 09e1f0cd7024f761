"""The rules of an auction: ranking, thresholds, minimum bids, rivals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ownership.model import (
    BIDS_MAX,
    MINIMUM_BID_FACTOR,
    PRIMARY,
    SUCCESSOR,
    Bid,
    Unit,
    minimum_bid,
    rank,
    rivals,
    threshold,
)


def bid(node: str, free_bytes: int, order: int) -> Bid:
    return Bid(node, f"http://{node}", "run-1", free_bytes, order)


def test_most_memory_comes_first() -> None:
    assert [b.node for b in rank([bid("a", 1, 1), bid("b", 3, 2), bid("c", 2, 3)])] == ["b", "c", "a"]


def test_of_equal_bids_the_earlier_comes_first() -> None:
    assert [b.node for b in rank([bid("a", 5, 2), bid("b", 5, 1)])] == ["b", "a"]


def test_of_bids_alike_in_all_the_name_decides() -> None:
    assert [b.node for b in rank([bid("b", 5, 1), bid("a", 5, 1)])] == ["a", "b"]


BIDS = st.lists(
    st.builds(bid, st.sampled_from("abcdef"), st.integers(0, 3), st.integers(0, 3)), unique_by=lambda b: b.node
)


@given(BIDS, st.randoms())
def test_the_order_in_which_bids_are_read_does_not_matter(bids: list[Bid], random: object) -> None:
    shuffled = list(bids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rank(shuffled) == rank(bids)


@pytest.mark.parametrize(
    ("max_bids", "bidding", "expected"),
    [(3, 99, 3), (None, 7, 7), (None, 0, 1), (None, BIDS_MAX + 1, BIDS_MAX), (BIDS_MAX + 1, 0, BIDS_MAX)],
)
def test_a_threshold_is_the_given_number_or_the_number_of_bidders(
    max_bids: int | None, bidding: int, expected: int
) -> None:
    assert threshold(max_bids, bidding) == expected


@pytest.mark.parametrize("max_bids", [0, -1])
def test_a_threshold_below_one_is_rejected(max_bids: int) -> None:
    with pytest.raises(Invalid, match="at least 1"):
        threshold(max_bids, 3)


def test_the_minimum_bid_leaves_room_to_grow() -> None:
    assert minimum_bid(1000) == 1000 * MINIMUM_BID_FACTOR > 1000


def test_a_unit_never_held_has_no_minimum_bid() -> None:
    assert minimum_bid(None) == 0


def test_the_holder_of_a_slot_may_not_acquire_a_replica() -> None:
    assert set(rivals(Unit("a", 1))) == set(Unit("a", 1).siblings())
    assert set(rivals(Unit("a", SUCCESSOR))) == set(Unit("a", SUCCESSOR).siblings())


def test_the_holder_of_a_replica_may_acquire_the_primary() -> None:
    assert rivals(Unit("a", PRIMARY)) == ()
