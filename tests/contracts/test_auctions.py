"""Auctions, on every backend: the exclusive way to a first lease."""

import asyncio

import pytest

from argosy.base.errors import Fenced, Invalid
from argosy.ownership.model import BIDS_MAX, BidOutcome, CloseOutcome, LeaseState, Session, Unit
from argosy.ownership.ports import OwnershipStore
from tests.contracts.stage import (
    AUCTIONED,
    SHORT_TTL_S,
    SHORT_WINDOW_S,
    TTL_S,
    WINDOW_S,
    OpenStore,
    bid,
    close_when_due,
    eventually,
    holder,
    holders,
    member,
    snapshot,
    win_lease,
)

UNIT = Unit("example/repo")
OTHER = Unit("example/other")
CLOSERS = 20
GRACE_S = 1.0
SLACK_S = 1.0  # etcd has a resolution of one second


async def open_bidders(store: OwnershipStore, count: int) -> list[Session]:
    return [await holder(store, f"n{n}") for n in range(count)]


async def test_the_first_bid_starts_the_clock(open_store: OpenStore) -> None:
    """ "The first bid for a repo starts the auction clock. The auction window is 60 seconds after the first bid." """
    store = await open_store(AUCTIONED)
    first, second = await open_bidders(store, 2)
    receipt = await bid(store, first, UNIT, max_bids=3)
    assert (receipt.outcome, receipt.has_opened, receipt.is_full) == (BidOutcome.PLACED, True, False)
    [auction] = (await snapshot(store)).auctions
    assert (auction.unit, auction.max_bids) == (UNIT, 3)
    assert 0 < auction.closes_in_s <= WINDOW_S
    receipt = await bid(store, second, UNIT, max_bids=3)
    assert (receipt.outcome, receipt.has_opened, receipt.is_full) == (BidOutcome.PLACED, False, False)
    assert [each.id for each in (await snapshot(store)).auctions] == [auction.id]


async def test_a_second_bid_while_one_is_pending_is_rejected(open_store: OpenStore) -> None:
    """ "Only one unaccepted bid per holder (node) is allowed at a time; attempts to bid while another bid is pending
    will be rejected." """
    store = await open_store(AUCTIONED)
    session, _ = await open_bidders(store, 2)
    await bid(store, session, UNIT, max_bids=2)
    for unit in (UNIT, OTHER):
        assert (await bid(store, session, unit)).outcome is BidOutcome.ALREADY_PENDING
    assert [auction.unit for auction in (await snapshot(store)).auctions] == [UNIT]


async def test_concurrent_bids_of_one_node_leave_one(open_store: OpenStore) -> None:
    """ "place a single outstanding bid" """
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    receipts = await asyncio.gather(*(bid(store, session, Unit(f"u{n}"), max_bids=2) for n in range(10)))
    outcomes = [receipt.outcome for receipt in receipts]
    assert outcomes.count(BidOutcome.PLACED) == 1  # OWN-3
    assert outcomes.count(BidOutcome.ALREADY_PENDING) == 9
    assert len((await snapshot(store)).auctions) == 1


async def test_a_bid_below_the_minimum_is_rejected_and_opens_nothing(open_store: OpenStore) -> None:
    """ "Enforce a minimum bid for a previously-indexed repo based on its historical memory footprint." """
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    receipt = await bid(store, session, UNIT, 99, min_bytes=100)
    assert receipt.outcome is BidOutcome.BELOW_MINIMUM
    assert (await snapshot(store)).auctions == ()
    assert (await bid(store, session, UNIT, 100, min_bytes=100)).outcome is BidOutcome.PLACED


async def test_a_bid_for_a_held_unit_is_rejected(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    first, second = await open_bidders(store, 2)
    lease = await win_lease(store, first, UNIT)
    assert (await bid(store, second, UNIT)).outcome is BidOutcome.NOT_OPEN
    await store.release(first, UNIT, lease.epoch)
    assert (await bid(store, second, UNIT)).outcome is BidOutcome.PLACED


async def test_a_bid_needs_a_live_session(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    await store.end_session(session)
    with pytest.raises(Fenced):
        await bid(store, session, UNIT)


@pytest.mark.parametrize(
    ("offers", "winner"),
    [
        ((100, 300, 200), "n1"),
        ((100, 200, 200), "n1"),
        ((7, 7, 7), "n0"),
        ((9, 10, 8), "n1"),  # numbers, not text
        (((1 << 53) - 2, (1 << 53) - 1, (1 << 53) - 3), "n1"),
        ((1 << 53, (1 << 53) - 1, 1), "n0"),
    ],
)
async def test_most_memory_wins_then_the_earliest_bid(
    open_store: OpenStore, offers: tuple[int, ...], winner: str
) -> None:
    """ "Bids are ranked by available memory (higher is better). Ties are broken by bid time (earlier wins)." """
    store = await open_store(AUCTIONED)
    for session, free_bytes in zip(await open_bidders(store, len(offers)), offers, strict=True):
        await bid(store, session, UNIT, free_bytes, max_bids=len(offers))
    closing = await close_when_due(store, UNIT)
    assert closing.outcome is CloseOutcome.WON
    assert closing.lease is not None
    assert (closing.lease.node, closing.lease.state) == (winner, LeaseState.WARMING)
    assert closing.lease.address == f"http://{winner}"
    assert closing.bids == len(offers)
    assert await holders(store) == {UNIT: winner}


async def test_the_window_ends_an_auction_that_never_fills(open_store: OpenStore) -> None:
    """ "always keep the auction wall-clock window (60s) as a hard upper bound even when `MAX_BIDS` is large or
    misconfigured" """
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    await bid(store, session, UNIT, max_bids=BIDS_MAX, window_s=SHORT_WINDOW_S)
    closing = await close_when_due(store, UNIT)
    assert (closing.outcome, closing.is_short_circuit, closing.bids) == (CloseOutcome.WON, False, 1)
    assert closing.open_for_s >= SHORT_WINDOW_S


async def test_a_running_auction_is_not_closed_early(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    await bid(store, session, UNIT, max_bids=2)
    closing = await store.close_auction(UNIT)
    assert (closing.outcome, closing.lease) == (CloseOutcome.NOT_DUE, None)
    assert 0 < closing.wait_s <= WINDOW_S
    assert len((await snapshot(store)).auctions) == 1


async def test_enough_bids_end_an_auction_at_once(open_store: OpenStore) -> None:
    """ "when a configured number of bids for a repo is reached, the auction evaluation is triggered immediately instead
    of waiting for the full 60s window" """
    store = await open_store(AUCTIONED)
    sessions = await open_bidders(store, 3)
    receipts = [await bid(store, session, UNIT, max_bids=3) for session in sessions]
    assert [receipt.is_full for receipt in receipts] == [False, False, True]
    closing = await store.close_auction(UNIT)
    assert (closing.outcome, closing.is_short_circuit, closing.bids) == (CloseOutcome.WON, True, 3)
    assert closing.open_for_s < WINDOW_S


async def test_the_threshold_is_the_number_of_bidding_members(open_store: OpenStore) -> None:
    """ "counts the number of indexers that have heartbeated within the last epoch […] Use that count as the effective
    `max_bids`." """
    store = await open_store(AUCTIONED)
    session, other, third = await open_bidders(store, 3)
    members = [await member(store, holding.node) for holding in (session, other, third)]
    await holder(store, "full")
    await member(store, "full", is_bidding=False)
    assert (await bid(store, session, UNIT)).max_bids == 3
    await store.end_session(members[0])
    assert (await bid(store, other, OTHER)).max_bids == 2
    [running] = [auction for auction in (await snapshot(store)).auctions if auction.unit == UNIT]
    assert running.max_bids == 3, "a running auction keeps its threshold"


async def test_members_without_a_heartbeat_are_not_counted(open_store: OpenStore) -> None:
    """ "remove old entries and count the remainder" """
    store = await open_store(AUCTIONED)
    alive, *_ = await open_bidders(store, 3)
    for node, ttl_s in (("n0", TTL_S), ("n1", SHORT_TTL_S), ("n2", TTL_S)):
        await member(store, node, ttl_s=ttl_s)

    async def one_member_left() -> bool:
        return len(await store.sessions()) == 5

    await eventually(one_member_left)
    assert (await bid(store, alive, UNIT)).max_bids == 2


async def test_a_member_without_a_holder_session_is_not_waited_for(open_store: OpenStore) -> None:
    """A crashed node's two sessions end at different times; an auction in between must not wait for its bid."""
    store = await open_store(AUCTIONED)
    alive, crashed = await open_bidders(store, 2)
    await member(store, alive.node)
    await member(store, crashed.node)
    await store.end_session(crashed)
    receipt = await bid(store, alive, UNIT)
    assert (receipt.max_bids, receipt.is_full) == (1, True)


async def test_an_auction_without_members_needs_one_bid(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    receipt = await bid(store, await holder(store, "n1"), UNIT)
    assert (receipt.max_bids, receipt.is_full) == (1, True)


@pytest.mark.parametrize("pushed", [1, 50])
async def test_a_new_threshold_does_not_affect_a_running_auction(open_store: OpenStore, pushed: int) -> None:
    """ "when `MAX_BIDS` decreases, nodes that already placed bids should still be honored for the current auction
    window. […] Ongoing auctions continue to completion, new auctions use the updated threshold." """
    store = await open_store(AUCTIONED)
    first, second, third = await open_bidders(store, 3)
    await bid(store, first, UNIT, 100, max_bids=2)
    await store.push_max_bids(pushed)
    assert (await snapshot(store)).max_bids == pushed
    assert (await store.close_auction(UNIT)).outcome is CloseOutcome.NOT_DUE
    receipt = await bid(store, second, UNIT, 50, max_bids=pushed)
    assert (receipt.max_bids, receipt.is_full) == (2, True)
    closing = await store.close_auction(UNIT)
    assert closing.lease is not None
    assert (closing.lease.node, closing.bids) == ("n0", 2)
    assert (await bid(store, third, OTHER, max_bids=pushed)).max_bids == pushed


async def test_a_pushed_threshold_can_be_cleared(open_store: OpenStore) -> None:
    store, other = await open_store(AUCTIONED), await open_store(AUCTIONED)
    assert (await snapshot(other)).max_bids is None
    await store.push_max_bids(5)
    assert (await snapshot(other)).max_bids == 5
    await store.push_max_bids(None)
    assert (await snapshot(other)).max_bids is None


async def test_a_threshold_is_at_least_one_and_at_most_the_bids_an_auction_takes(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    with pytest.raises(Invalid):
        await bid(store, session, UNIT, max_bids=0)
    with pytest.raises(Invalid):
        await store.push_max_bids(0)
    assert (await bid(store, session, UNIT, max_bids=10 * BIDS_MAX)).max_bids == BIDS_MAX


async def test_an_auction_accepts_at_most_bids_max_and_closes(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    sessions = await open_bidders(store, BIDS_MAX)
    receipts = [await bid(store, each, UNIT, n, max_bids=BIDS_MAX) for n, each in enumerate(sessions)]
    assert [receipt.is_full for receipt in receipts] == [False] * (BIDS_MAX - 1) + [True]
    closing = await store.close_auction(UNIT)
    assert closing.lease is not None
    assert (closing.lease.node, closing.bids) == (f"n{BIDS_MAX - 1}", BIDS_MAX)


async def test_concurrent_closes_have_one_winner(open_store: OpenStore) -> None:
    """ "A production design should use a distributed leader/election or a Redis-based lock (SETNX with TTL) to ensure
    exactly-one evaluator." """
    stores = [await open_store(AUCTIONED) for _ in range(4)]
    for session in await open_bidders(stores[0], 3):
        await bid(stores[0], session, UNIT, max_bids=3)
    closings = await asyncio.gather(*(stores[n % 4].close_auction(UNIT) for n in range(CLOSERS)))
    outcomes = [closing.outcome for closing in closings]
    assert outcomes.count(CloseOutcome.WON) == 1  # OWN-6
    assert outcomes.count(CloseOutcome.ALREADY_CLOSED) == CLOSERS - 1
    assert len(await holders(stores[0])) == 1


async def test_concurrent_closes_of_an_empty_auction_have_one_winner(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    await bid(store, session, UNIT, max_bids=2, window_s=SHORT_WINDOW_S)
    await store.end_session(session)
    assert (await close_when_due(store, UNIT)).outcome is CloseOutcome.NO_WINNER
    closings = await asyncio.gather(*(store.close_auction(UNIT) for _ in range(CLOSERS)))
    assert {closing.outcome for closing in closings} == {CloseOutcome.ALREADY_CLOSED}


async def test_closing_without_an_auction_does_nothing(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    assert (await store.close_auction(UNIT)).outcome is CloseOutcome.ALREADY_CLOSED


async def test_the_next_best_bid_wins_if_the_best_bidder_left(open_store: OpenStore) -> None:
    """ "Consider allowing a secondary pass to try the next-best bid if the top bid fails SET NX" """
    store = await open_store(AUCTIONED)
    best, second, third = await open_bidders(store, 3)
    for session, free_bytes in ((best, 300), (second, 200), (third, 100)):
        await bid(store, session, UNIT, free_bytes, max_bids=9, window_s=SHORT_WINDOW_S)
    await store.end_session(best)
    closing = await close_when_due(store, UNIT)
    assert closing.lease is not None
    assert closing.lease.node == second.node


async def test_the_next_best_bid_wins_if_the_best_bidder_expired(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    best, second = await holder(store, "best", ttl_s=SHORT_TTL_S), await holder(store, "second")
    await bid(store, best, UNIT, 300, max_bids=9, window_s=SHORT_WINDOW_S)
    await bid(store, second, UNIT, 200, max_bids=9, window_s=SHORT_WINDOW_S)

    async def best_bidder_left() -> bool:
        return len(await store.sessions()) == 1

    await eventually(best_bidder_left)
    closing = await close_when_due(store, UNIT)
    assert closing.lease is not None
    assert closing.lease.node == "second"


async def test_a_namesake_does_not_inherit_a_bid(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    first = await holder(store, "n1")
    await bid(store, first, UNIT, max_bids=9, window_s=SHORT_WINDOW_S)
    await store.end_session(first)
    await holder(store, "n1")
    assert (await close_when_due(store, UNIT)).outcome is CloseOutcome.NO_WINNER
    assert await holders(store) == {}


async def test_without_live_bidders_there_is_no_winner_and_the_unit_is_unowned(open_store: OpenStore) -> None:
    """ "This is a benign race — the repo will be available for future auctions." """
    store = await open_store(AUCTIONED)
    sessions = await open_bidders(store, 2)
    for session in sessions:
        await bid(store, session, UNIT, max_bids=9, window_s=SHORT_WINDOW_S)
    for session in sessions:
        await store.end_session(session)
    closing = await close_when_due(store, UNIT)
    assert (closing.outcome, closing.lease) == (CloseOutcome.NO_WINNER, None)
    again = await bid(store, await holder(store, "n1"), UNIT)
    assert (again.outcome, again.has_opened) == (BidOutcome.PLACED, True)


async def test_a_closed_auction_leaves_no_pending_markers(open_store: OpenStore) -> None:
    """ "In failure scenarios it's possible a holder's pending marker remains set briefly and prevents new bids" """
    store = await open_store(AUCTIONED)
    sessions = await open_bidders(store, 4)
    for session in sessions:
        await bid(store, session, UNIT, max_bids=4)
    await store.close_auction(UNIT)
    receipts = [await bid(store, session, OTHER, max_bids=4) for session in sessions]
    assert {receipt.outcome for receipt in receipts} == {BidOutcome.PLACED}  # OWN-6


async def test_each_auction_has_a_new_id_and_each_lease_a_higher_epoch(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    ids_and_epochs = []
    for _ in range(3):
        await bid(store, session, UNIT, max_bids=1)
        [auction] = (await snapshot(store)).auctions
        lease = (await store.close_auction(UNIT)).lease
        assert lease is not None
        ids_and_epochs.append((auction.id, lease.epoch))
        await store.release(session, UNIT, lease.epoch)
    assert ids_and_epochs == sorted(ids_and_epochs)
    assert len({number for number, _ in ids_and_epochs}) == len({epoch for _, epoch in ids_and_epochs}) == 3


async def test_one_node_holds_one_slot_of_a_unit(open_store: OpenStore) -> None:
    """ "implement N-way replication: a repo can be owned by N nodes (primary + replicas)" """
    store = await open_store(AUCTIONED)
    primary, replica = await open_bidders(store, 2)
    await win_lease(store, primary, UNIT)
    await win_lease(store, replica, Unit(UNIT.name, 1))
    for session in (primary, replica):
        assert (await bid(store, session, Unit(UNIT.name, 2))).outcome is BidOutcome.NOT_OPEN
    assert (await bid(store, primary, Unit(OTHER.name, 2))).outcome is BidOutcome.PLACED


async def test_the_holder_of_a_replica_may_win_the_primary(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    await win_lease(store, session, Unit(UNIT.name, 1))
    assert (await win_lease(store, session, UNIT)).node == "n1"


@pytest.mark.parametrize("name", ["a|1763212345", "a:b", "{a}", "'\"\\", "名前 🚢", "%s", "a b"])
async def test_bidder_names_may_contain_any_characters(open_store: OpenStore, name: str) -> None:
    """ "Member encoding: the Redis prototype encodes bid members as `holder|ts`." """
    store = await open_store(AUCTIONED)
    odd, plain = await holder(store, name), await holder(store, "plain")
    unit = Unit(name)
    await bid(store, odd, unit, 2, max_bids=2)
    await bid(store, plain, unit, 1, max_bids=2)
    closing = await store.close_auction(unit)
    assert closing.lease is not None
    assert (closing.lease.node, closing.lease.unit) == (name, unit)
    assert (await bid(store, odd, OTHER)).outcome is BidOutcome.PLACED


async def test_a_store_that_may_have_lost_leases_takes_bids_and_closes_later(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED, GRACE_S)
    session = await holder(store, "n1")
    assert (await bid(store, session, UNIT, max_bids=1)).is_full
    closing = await store.close_auction(UNIT)
    assert closing.outcome is CloseOutcome.NOT_DUE
    assert 0 < closing.wait_s <= GRACE_S + SLACK_S
    assert (await close_when_due(store, UNIT)).outcome is CloseOutcome.WON
