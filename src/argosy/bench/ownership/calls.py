"""Leases and auctions, straight at the store: what its calls cost without a node around them."""

import asyncio
import time
from collections.abc import Iterable

from argosy.bench.harness import Values
from argosy.bench.ownership.site import Cost, Site, timed
from argosy.ownership.model import Lease, Member, Session, SessionRole, Unit
from argosy.ownership.ports import OwnershipStore

SESSIONS = 20  # holders that share the leases
RENEWALS = 5  # of each session
BIDDERS = 3  # bids per auction
LANES = 8  # auctions side by side; a node bids for one unit at a time (OWN-3)
TTL_S = 60.0  # longer than any run


async def leases(site: Site, count: int) -> Values:
    """Claims `count` units for twenty sessions, renews the sessions and releases the units.

    One renewal carries all leases of a session, so renewing is counted in leases.
    """
    async with site.opened(site.new_space(is_auctioned=False)) as store:
        sessions = [await open_session(store, f"n{n}") for n in range(SESSIONS)]
        held: list[tuple[Session, Lease]] = []

        async def claim(at: int) -> None:
            session = sessions[at % SESSIONS]
            held.append((session, await store.claim(session, Unit(f"unit-{at}"))))

        async def release(one: tuple[Session, Lease]) -> None:
            session, lease = one
            assert await store.release(session, lease.unit, lease.epoch)

        with Cost(site) as cost:
            acquire_s = await timed(claim, range(count))
            renew_s = await timed(store.renew, sessions * RENEWALS)
            release_s = await timed(release, held)
    return {
        f"lease.acquire.{site.name}": count / acquire_s,
        f"lease.renew.{site.name}": RENEWALS * count / renew_s,
        f"lease.release.{site.name}": count / release_s,
        **cost.per_operation("lease", 2 * count + RENEWALS * SESSIONS),
    }


async def auctions(site: Site, count: int) -> Values:
    """Holds `count` auctions of three bids each, in eight lanes side by side."""
    async with site.opened(site.new_space(is_auctioned=True)) as store:
        lanes = [[await open_session(store, f"n{lane}-{n}") for n in range(BIDDERS)] for lane in range(LANES)]
        units = [Unit(f"unit-{n}") for n in range(count)]
        with Cost(site) as cost:
            started = time.perf_counter()
            await asyncio.gather(*[hold(store, lane, units[n::LANES]) for n, lane in enumerate(lanes)])
            took_s = time.perf_counter() - started
    return {f"auction.close.{site.name}": count / took_s, **cost.per_operation("auction", count)}


async def hold(store: OwnershipStore, lane: list[Session], units: Iterable[Unit]) -> None:
    """One auction after the other; the last bidder offers most and must win."""
    for unit in units:
        await asyncio.gather(*[bid(store, session, unit, free_bytes=n + 1) for n, session in enumerate(lane)])
        closing = await store.close_auction(unit)
        assert closing.lease is not None
        assert closing.lease.node == lane[-1].node


async def bid(store: OwnershipStore, session: Session, unit: Unit, *, free_bytes: int) -> None:
    await store.place_bid(session, unit, free_bytes=free_bytes, min_bytes=0, max_bids=BIDDERS, window_s=TTL_S)


async def open_session(store: OwnershipStore, node: str) -> Session:
    return await store.open_session(SessionRole.HOLDER, Member(node, f"{node}:1"), ttl_s=TTL_S)
