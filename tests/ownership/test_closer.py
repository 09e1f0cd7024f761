"""Closing auctions: when they are due, within a rate limit, by the first node to try."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.ownership.auction import CLOSING_SPREAD, Closer
from argosy.ownership.effects import CloseAuction
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    BidAnswered,
    CloseAnswered,
    CloseFailed,
    Snapshot,
)
from argosy.ownership.model import BidOutcome, BidResult, CloseOutcome, CloseResult, Unit
from tests.ownership.builders import Bench, auction

A, B = Unit("a"), Unit("b")
FULL = BidResult(BidOutcome.PLACED, is_full=True)
NO_WINNER = CloseResult(CloseOutcome.NO_WINNER)


def closer_bench(**changes: object) -> Bench:
    bench = Bench("a", "b", **changes)
    bench.machine = Closer(bench.settings, bench.view, bench.random)
    return bench


def test_an_auction_is_closed_when_its_window_ends_with_a_spread() -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a", closes_in_s=60.0)), 10.0)
    due = 70.0 + 60.0 * CLOSING_SPREAD * 0.5
    assert bench.machine.deadline() == pytest.approx(due)
    assert bench.handle(None, 70.0) == []
    assert bench.handle(None, due) == [CloseAuction(A)]


def test_nodes_spread_their_attempts() -> None:
    deadlines = []
    for fraction in (0.0, 1.0):
        bench = closer_bench()
        bench.random.fraction = fraction
        bench.handle(AuctionOpened(auction("a", closes_in_s=60.0)), 0.0)
        deadlines.append(bench.machine.deadline())
    assert deadlines == pytest.approx([60.0, 60.0 * (1 + CLOSING_SPREAD)])


def test_whose_bid_filled_the_auction_closes_it_at_once() -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a")), 0.0)
    assert bench.handle(BidAnswered(A, FULL), 3.0) == [CloseAuction(A)]


def test_a_bid_below_the_threshold_closes_nothing() -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a")), 0.0)
    assert bench.handle(BidAnswered(A, BidResult(BidOutcome.PLACED)), 3.0) == []
    assert bench.handle(BidAnswered(A, BidResult(BidOutcome.NOT_OPEN, is_full=True)), 3.0) == []


def test_an_auction_closed_by_another_is_dropped() -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a")), 0.0)
    bench.handle(AuctionClosed(A, 1, "n2"), 59.0)
    assert bench.machine.deadline() is None
    assert bench.handle(None, 100.0) == []


def test_no_auction_is_closed_twice_at_once() -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a")), 0.0)
    assert bench.handle(BidAnswered(A, FULL), 1.0) == [CloseAuction(A)]
    assert bench.handle(BidAnswered(A, FULL), 1.0) == []
    assert bench.machine.deadline() is None


def test_an_auction_not_due_is_retried_at_the_time_the_store_returns() -> None:
    bench = closer_bench()
    bench.handle(BidAnswered(A, FULL), 1.0)
    bench.handle(CloseAnswered(A, CloseResult(CloseOutcome.NOT_DUE, wait_s=20.0)), 2.0)
    assert 22.0 <= bench.machine.deadline() <= 22.0 + 60.0 * CLOSING_SPREAD
    assert bench.handle(None, 24.0) == [CloseAuction(A)]


@pytest.mark.parametrize("outcome", [CloseOutcome.WON, CloseOutcome.NO_WINNER, CloseOutcome.ALREADY_CLOSED])
def test_a_closed_auction_is_not_closed_again(outcome: CloseOutcome) -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a")), 0.0)
    bench.handle(BidAnswered(A, FULL), 1.0)
    bench.handle(CloseAnswered(A, CloseResult(outcome)), 1.1)
    assert bench.machine.deadline() is None


def test_a_store_that_is_unreachable_is_retried_ever_more_rarely() -> None:
    bench, now, waits = closer_bench(), 1.0, []
    bench.handle(BidAnswered(A, FULL), now)
    for _ in range(6):
        assert bench.handle(CloseFailed(A), now) == []
        waits.append(bench.machine.deadline() - now)
        now = bench.machine.deadline()
        assert bench.handle(None, now) == [CloseAuction(A)]
    assert waits == sorted(waits)
    assert 0 < waits[0] <= 0.2
    assert 2.5 <= waits[-1] <= 5.0


def test_a_late_answer_does_not_make_it_miss_the_next_auction() -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a", id=1)), 0.0)
    bench.handle(BidAnswered(A, FULL), 1.0)
    bench.handle(AuctionClosed(A, 1, None), 1.1)
    bench.handle(AuctionOpened(auction("a", id=2)), 1.2)
    bench.handle(CloseAnswered(A, NO_WINNER), 1.3)  # about the first
    assert bench.handle(None, 63.0) == [CloseAuction(A)]


def test_the_next_auction_that_fills_while_an_answer_is_on_its_way_is_closed_after_it() -> None:
    bench = closer_bench()
    bench.handle(BidAnswered(A, FULL), 1.0)
    bench.handle(AuctionClosed(A, 1, None), 1.1)
    bench.handle(AuctionOpened(auction("a", id=2)), 1.2)
    assert bench.handle(BidAnswered(A, FULL), 1.25) == []
    assert bench.machine.deadline() is None  # nothing to do until the answer
    assert bench.handle(CloseAnswered(A, NO_WINNER), 1.3) == [CloseAuction(A)]


def test_a_snapshot_replaces_all_auctions() -> None:
    bench = closer_bench()
    bench.handle(AuctionOpened(auction("a")), 0.0)
    bench.handle(Snapshot(auctions=(auction("b", closes_in_s=5.0),)), 10.0)
    assert bench.handle(None, 15.0 + 60.0 * CLOSING_SPREAD) == [CloseAuction(B)]
    assert bench.machine.deadline() is None


def test_one_node_closes_no_faster_than_its_rate() -> None:
    bench = closer_bench(closings_per_s=2.0)
    for i in range(10):
        bench.handle(AuctionOpened(auction(f"u{i}", closes_in_s=0.0)), 0.0)
    done = bench.wait(0.0, until=100.0)
    instants = [at for at, _ in done]
    assert len({effect for _, effect in done}) == 10
    for start in instants:
        assert sum(start <= at < start + 1.0 for at in instants) <= 2 + 2  # saved up, and the rate
    assert instants[-1] >= (10 - 2) / 2.0


def test_the_earliest_due_auction_is_closed_first_when_the_rate_limit_is_reached() -> None:
    bench = closer_bench(closings_per_s=1.0)
    bench.random.fraction = 0.0
    for name, closes_in_s in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
        bench.handle(AuctionOpened(auction(name, closes_in_s=closes_in_s)), 0.0)
    names = [
        effect.unit.name for effect in bench.handle(None, 10.0) + bench.handle(None, 11.0) + bench.handle(None, 12.0)
    ]
    assert names == ["early", "middle", "late"]


RATES = st.sampled_from([0.1, 0.3, 0.7, 3.0, 7.0, 200.0])


@given(RATES, st.lists(st.tuples(st.floats(0, 90), st.floats(0, 60)), min_size=1, max_size=30))
def test_every_auction_is_closed_once_and_the_closer_becomes_idle(
    rate: float, auctions: list[tuple[float, float]]
) -> None:
    bench, now, done = closer_bench(closings_per_s=rate), 0.0, []
    for i, (span, closes_in_s) in enumerate(auctions):
        done += bench.wait(now, until=now + span)
        now += span
        done += [(now, e) for e in bench.handle(AuctionOpened(auction(f"u{i}", closes_in_s=closes_in_s)), now)]
    done += bench.wait(now, until=now + 10_000)
    assert sorted(e.unit.name for _, e in done) == sorted(f"u{i}" for i in range(len(auctions)))
    assert bench.machine.deadline() is None
