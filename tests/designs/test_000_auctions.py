"""Document 000, "Bidding-based lease allocation": auctions and MAX_BIDS. Each test quotes the sentence it proves."""

import asyncio
from typing import Any

import pytest

from argosy.base.metrics import declared_metrics
from argosy.ownership import telemetry
from argosy.ownership.auction import Bidder, Closer
from argosy.ownership.autoscale import Autoscaler
from argosy.ownership.events import AuctionClosed, AuctionOpened, LeaseGone, Snapshot
from argosy.ownership.model import BidOutcome, BidResult, CloseOutcome, Lease, Session, Unit, UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView
from tests.contracts.stage import bid as place
from tests.contracts.stage import holder as opened
from tests.contracts.stage import member as joined
from tests.ownership.builders import Bench, auction, catalog, member
from tests.ownership.world import MIB, World, in_virtual_time

REPO, OTHER = Unit("repo"), Unit("other")
DEFAULTS = OwnershipSettings()


async def bid(world: World, session: Session, free_bytes: int = 100, *, unit: Unit = REPO, **how: Any) -> BidResult:
    return await place(world.store, session, unit, free_bytes, **how)


async def holders(world: World, count: int, **how: Any) -> list[Session]:
    return [await opened(world.store, f"n{i}", ttl_s=how.get("ttl_s", 3600.0)) for i in range(count)]


async def winner(world: World) -> str | None:
    lease: Lease | None = (await world.store.close_auction(REPO)).lease
    return None if lease is None else lease.node


@in_virtual_time()
async def test_one_pending_bid_per_holder(world: World) -> None:
    """Only one unaccepted bid per holder (node) is allowed at a time; attempts to bid while another bid is pending
    will be rejected."""
    (session,) = await holders(world, 1)
    assert (await bid(world, session, max_bids=2)).outcome is BidOutcome.PLACED
    assert (await bid(world, session, unit=OTHER)).outcome is BidOutcome.ALREADY_PENDING
    assert (await bid(world, session)).outcome is BidOutcome.ALREADY_PENDING


@in_virtual_time()
async def test_the_first_bid_starts_the_clock(world: World) -> None:
    """The first bid for a repo starts the auction clock."""
    first, second = await holders(world, 2)
    assert (await bid(world, first, max_bids=9)).has_opened
    await world.pass_time(20.0)
    assert not (await bid(world, second, max_bids=9)).has_opened
    assert (await world.store.close_auction(REPO)).wait_s == pytest.approx(40.0)


@in_virtual_time()
async def test_the_window_is_sixty_seconds(world: World) -> None:
    """The auction window is 60 seconds after the first bid. After the window elapses the system evaluates all bids for
    the repo."""
    (session,) = await holders(world, 1)
    await bid(world, session, max_bids=9, window_s=DEFAULTS.window_s)
    await world.pass_time(59.9)
    assert (await world.store.close_auction(REPO)).outcome is CloseOutcome.NOT_DUE
    await world.pass_time(0.1)
    assert (await world.store.close_auction(REPO)).outcome is CloseOutcome.WON


@in_virtual_time()
async def test_the_bid_with_most_memory_wins(world: World) -> None:
    """Bids are ranked by available memory (higher is better)."""
    for session, free_bytes in zip(await holders(world, 3), (5, 9, 7), strict=True):
        await bid(world, session, free_bytes, max_bids=3)
    assert await winner(world) == "n1"


@in_virtual_time()
async def test_ties_go_to_the_earlier_bid(world: World) -> None:
    """Ties are broken by bid time (earlier wins)."""
    for session in reversed(await holders(world, 3)):
        await bid(world, session, 7, max_bids=3)
    assert await winner(world) == "n2"


@in_virtual_time()
async def test_the_evaluator_creates_the_lease_for_the_winner(world: World) -> None:
    """The evaluator attempts an atomic SET NX of the lease key on behalf of the winning holder."""
    for session in await holders(world, 2):
        await bid(world, session, max_bids=2)
    await world.store.close_auction(REPO)  # evaluated without a session
    assert world.holder("repo") == "n0"
    (late,) = [await opened(world.store, "late")]
    assert (await bid(world, late)).outcome is BidOutcome.NOT_OPEN


@in_virtual_time()
async def test_enough_bids_end_the_auction_at_once(world: World) -> None:
    """when a configured number of bids for a repo is reached, the auction evaluation is triggered immediately instead
    of waiting for the full 60s window."""
    world.settings = OwnershipSettings(max_bids="2")
    world.add_units("repo")
    world.start("n1")
    await world.pass_time(10.0)
    assert world.holder("repo") is None
    world.start("n2")
    assert await world.until(lambda: world.holder("repo") is not None) < 15.0


@in_virtual_time()
async def test_the_default_threshold_is_the_number_of_live_nodes(world: World) -> None:
    """counts the number of indexers that have heartbeated within the last epoch"""
    session, *_ = await holders(world, 3)
    members = [await joined(world.store, f"n{i}", ttl_s=30.0) for i in range(3)]
    await world.pass_time(20.0)
    for live_nodes in members[:2]:
        await world.store.renew(live_nodes)
    await world.pass_time(15.0)
    assert (await bid(world, session)).max_bids == 2


@in_virtual_time(max_bids="pushed")
async def test_a_pushed_threshold_reaches_every_node(world: World) -> None:
    """nodes subscribe and update their in-memory `max_bids` immediately on message receipt."""
    world.start("n1")
    await world.pass_time(5.0)
    await world.store.push_max_bids(7)
    world.add_units("repo")
    await world.until(lambda: world.value("n1", telemetry.CONFIGURED_MAX_BIDS) == 7, within_s=10.0)
    assert world.nodes["n1"].members()


@in_virtual_time()
async def test_a_lower_threshold_does_not_affect_running_auctions(world: World) -> None:
    """when `MAX_BIDS` decreases, nodes that already placed bids should still be honored for the current auction
    window."""
    first, second, third = await holders(world, 3)
    await bid(world, first, 5, max_bids=3)
    await world.store.push_max_bids(1)
    assert (await bid(world, second, 9, max_bids=1)).max_bids == 3
    assert (await world.store.close_auction(REPO)).outcome is CloseOutcome.NOT_DUE
    assert (await bid(world, third, 7, max_bids=1)).is_full
    assert await winner(world) == "n1"


@in_virtual_time()
async def test_new_auctions_use_the_new_threshold(world: World) -> None:
    """Ongoing auctions continue to completion, new auctions use the updated threshold."""
    first, second = await holders(world, 2)
    await bid(world, first, max_bids=5)
    assert (await bid(world, second, unit=OTHER, max_bids=2)).max_bids == 2
    await world.pass_time(60.0)
    assert (await world.store.close_auction(REPO)).outcome is CloseOutcome.WON


@in_virtual_time(max_bids="100")
async def test_an_unreached_threshold_delays_only_until_the_window_ends(world: World) -> None:
    """always keep the auction wall-clock window (60s) as a hard upper bound even when `MAX_BIDS` is large or
    misconfigured."""
    world.add_units("repo")
    world.start("n1")
    assert 60.0 <= await world.until(lambda: world.holder("repo") == "n1") <= 65.0


@in_virtual_time(max_bids="100")
async def test_a_repo_may_override_the_threshold(world: World) -> None:
    """allow an optional per-repo max-bids override (configurable in the catalog) for special cases"""
    world.add_units("repo", max_bids=1)
    world.start("n1")
    assert await world.until(lambda: world.holder("repo") == "n1") < 10.0


def test_the_metrics_are_named_as_in_the_document() -> None:
    """emit metrics for configured_max_bids, bids_received, auctions_short_circuited, auctions_timed_out."""
    kinds = {metric.name.removeprefix("argosy_"): metric.kind for metric in declared_metrics()}
    assert kinds["configured_max_bids"] == "gauge"
    assert {kinds[name] for name in ("bids_received", "auctions_short_circuited", "auctions_timed_out")} == {"counter"}


def test_the_recommended_metrics_exist() -> None:
    """Add metrics: auctions_started, auctions_won, auctions_no_winner, bids_placed, bids_rejected_already_pending,
    bid_window_ms (histogram)."""
    kinds = {metric.name.removeprefix("argosy_"): metric.kind for metric in declared_metrics()}
    names = ["auctions_started", "auctions_won", "auctions_no_winner", "bids_placed", "bids_rejected_already_pending"]
    assert {kinds[name] for name in names} == {"counter"}
    assert kinds["bid_window_ms"] == "histogram"


@in_virtual_time()
async def test_a_repo_indexed_before_has_a_minimum_bid(world: World) -> None:
    """Enforce a minimum bid for a previously-indexed repo based on its historical memory footprint."""
    world.add_units("repo", footprint_bytes=900 * MIB)
    world.start("small", budget_bytes=1000 * MIB)
    await world.pass_time(100.0)
    assert world.links["small"].calls["place_bid"] == 0
    world.start("large", budget_bytes=2000 * MIB)
    await world.until(lambda: world.holder("repo") == "large")


def test_five_epochs_without_a_lease_trigger_the_autoscaler() -> None:
    """Trip an autoscaler if a repo remains unleased for more than N bidding epochs (e.g., 5 auctions) to trigger
    cluster scale-up."""
    view, scaler = FleetView(), Autoscaler(DEFAULTS)
    view.apply(Snapshot(members=(member("n1"),)), 0.0)
    view.apply(catalog("repo"), 0.0)
    assert scaler.signal(view, 5 * 60.0 - 1).desired_nodes == 1
    assert scaler.signal(view, 5 * 60.0).desired_nodes == 2


def test_empty_auctions_are_counted() -> None:
    """This can be detected by counting empty auctions and triggering autoscaling or operator alerts."""
    view, scaler = FleetView(), Autoscaler(DEFAULTS)
    view.apply(Snapshot(members=(member("n1"),)), 0.0)
    view.apply(catalog("repo"), 0.0)
    for number in range(5):
        view.apply(AuctionClosed(REPO, number, None), 1.0)
    assert scaler.signal(view, 1.0).starved_units == 1


@in_virtual_time()
async def test_exactly_one_evaluator_succeeds(world: World) -> None:
    """ensure exactly-one evaluator."""
    for session in await holders(world, 3):
        await bid(world, session, max_bids=3)
    closings = await asyncio.gather(*(world.store.close_auction(REPO) for _ in range(20)))
    assert [closing.outcome for closing in closings].count(CloseOutcome.WON) == 1
    assert {c.outcome for c in closings} == {CloseOutcome.WON, CloseOutcome.ALREADY_CLOSED}


@in_virtual_time()
async def test_a_holder_id_may_contain_separators(world: World) -> None:
    """avoid parsing issues when holder ids contain the separator."""
    session = await opened(world.store, "a|b|1700000000")
    await bid(world, session, max_bids=1)
    assert await winner(world) == "a|b|1700000000"


@in_virtual_time()
async def test_pending_markers_are_deleted_with_their_auction(world: World) -> None:
    """if an auction is canceled or a winner accepted, the implementation attempts to delete the pending marker."""
    sessions = await holders(world, 3)
    for session in sessions:
        await bid(world, session, max_bids=3)
    await world.store.close_auction(REPO)
    assert world.store.pending_marks() == {}
    for session in sessions[1:]:
        assert (await bid(world, session, unit=OTHER)).outcome is BidOutcome.PLACED


@in_virtual_time()
async def test_a_pending_marker_expires_with_its_owners_session(world: World) -> None:
    """In failure scenarios it's possible a holder's pending marker remains set briefly and prevents new bids; the
    expiry ensures eventual recovery."""
    session = await opened(world.store, "n1", ttl_s=30.0)
    await bid(world, session, max_bids=2)
    await world.pass_time(30.0)
    new_session = await opened(world.store, "n1")
    assert (await bid(world, new_session, unit=OTHER)).outcome is BidOutcome.PLACED


def test_evaluations_are_rate_limited() -> None:
    """Ensure these operations are rate-limited and monitored to avoid creating load on Redis during large-scale
    bidding."""
    bench = Bench(closings_per_s=5.0)
    bench.machine = Closer(bench.settings, bench.view, bench.random)
    for i in range(100):
        bench.handle(AuctionOpened(auction(f"u{i}", closes_in_s=0.0)), 0.0)
    assert len(bench.wait(0.0, until=10.0)) <= 5 + 5 * 10


@in_virtual_time()
async def test_the_next_best_bid_wins_if_the_best_bidder_is_gone(world: World) -> None:
    """Consider allowing a secondary pass to try the next-best bid if the top bid fails SET NX"""
    best, second = await holders(world, 2)
    await bid(world, best, 9, max_bids=3)
    await bid(world, second, 5, max_bids=3)
    await world.store.end_session(best)
    await world.pass_time(60.0)
    assert await winner(world) == "n1"


@in_virtual_time(window_s=5.0, max_bids="9")
async def test_the_window_is_configurable(world: World) -> None:
    """it can be tuned or made configurable per-cluster."""
    world.add_units("repo")
    world.start("n1")
    assert 5.0 <= await world.until(lambda: world.holder("repo") == "n1") < 7.0


@in_virtual_time()
async def test_a_bid_advertises_free_memory_less_pending_builds(world: World) -> None:
    """it may place a single outstanding bid for that repo advertising its currently available free memory (bytes)."""
    world.add_units("first", footprint_bytes=800 * MIB)
    world.add_units("second", footprint_bytes=500 * MIB)
    world.start("n1", budget_bytes=1000 * MIB, warm_s=30.0)
    await world.until(lambda: world.holder("first") == "n1")
    await world.pass_time(20.0)  # still warming: the memory is free but promised
    assert world.shelves["n1"].free_bytes() == 1000 * MIB
    assert world.holder("second") is None


def test_every_node_may_join_a_running_auction() -> None:
    """allow a short window where nodes can advertise capacity before a winner is chosen."""
    bench = Bench(UnitSpec("repo"), "other")
    bench.machine = Bidder(bench.settings, bench.view, bench.keeper, bench.member, bench.random)
    bench.measure(MIB, 0.0)
    placed = bench.handle(AuctionOpened(auction("repo")), 0.01)
    assert [effect.unit for effect in placed] == [REPO]  # type: ignore[union-attr]


@in_virtual_time(max_bids="9", window_s=5.0)
async def test_leases_outlive_auctions(world: World) -> None:
    """One-pending-bid-per-node reduces noisy re-bidding and keeps the bookkeeping small."""
    world.add_units(*(f"r{i}" for i in range(20)))
    world.start("n1")
    world.start("n2")
    most = 0
    while not world.all_ready():
        await world.pass_time(0.05)
        most = max(most, len(world.store.pending_marks()))
    assert most == 2
    assert world.store.snapshot().auctions == ()
    assert not any(isinstance(fact, LeaseGone) for _, fact in world.events)
