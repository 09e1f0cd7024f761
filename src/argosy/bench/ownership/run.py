"""The ownership benchmark: its figures, stores and goals."""

from dataclasses import dataclass

from argosy.base.backends.servers import Etcd, Server, Valkey
from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Figure
from argosy.bench.ownership import fleet, store_calls
from argosy.bench.ownership.store_calls import BenchStore


@dataclass(frozen=True)
class OwnershipSizes:
    """How much is done in one run, and the goals.

    Goals are far below what an idle machine reaches: on two busy cores they are missed only if something is wrong.
    """

    operations: int
    auctions: int
    fleet_units: int
    leases_per_s: float = 0
    renewals_per_s: float = 0
    auctions_per_s: float = 0
    cpu_us: float = 0
    fleet_s: float = 0


STORES: dict[str, type[Server] | None] = {"memory": None, "valkey": Valkey, "etcd": Etcd}
FULL = {
    "memory": OwnershipSizes(20_000, 4_000, 500, 20_000, 100_000, 2_000, cpu_us=50, fleet_s=15),
    "valkey": OwnershipSizes(4_000, 1_000, 500, 1_000, 10_000, 150, cpu_us=1_000, fleet_s=30),
    "etcd": OwnershipSizes(2_000, 400, 500, 300, 3_000, 30, cpu_us=3_000, fleet_s=60),
}
# Within 50 s in all. The fleet has its full size except on etcd, where the id of the figure has the smaller one.
QUICK = {
    "memory": OwnershipSizes(4_000, 1_000, 500, 20_000, 100_000, 2_000, cpu_us=50, fleet_s=15),
    "valkey": OwnershipSizes(1_000, 300, 500, 1_000, 10_000, 150, cpu_us=1_000, fleet_s=30),
    "etcd": OwnershipSizes(400, 100, 100, 300, 3_000, 30, cpu_us=3_000, fleet_s=15),
}


async def ownership(bench: Bench) -> None:
    """Leases, auctions and a whole fleet, on memory, Valkey and etcd; CPU per operation."""
    sizes = QUICK if bench.is_quick else FULL
    for store, server in STORES.items():
        await measure_store(bench, store, server, sizes[store])


async def measure_store(bench: Bench, name: str, server_type: type[Server] | None, sizes: OwnershipSizes) -> None:
    figures = (*lease_figures(name, sizes), *auction_figures(name, sizes), fleet_figure(name, sizes))
    if not bench.wants_any(figures):
        return
    try:
        server = None if server_type is None else server_type()
    except ArgosyError as error:
        bench.record_error(figures, error)
        return
    try:
        await measure_calls_and_fleet(bench, BenchStore(name, server), sizes)
    finally:
        if server is not None:
            server.stop()


async def measure_calls_and_fleet(bench: Bench, store: BenchStore, sizes: OwnershipSizes) -> None:
    peers = bench.load_peers()
    await bench.measure(
        *lease_figures(store.name, sizes),
        run=lambda: store_calls.run_leases(store, sizes.operations),
        peers=None if peers is None else peers.lease_runs(store, sizes.operations),
    )
    await bench.measure(
        *auction_figures(store.name, sizes), run=lambda: store_calls.run_auctions(store, sizes.auctions)
    )
    # The start of a fleet is the sum of thousands of steps, so one run is steady enough.
    await bench.measure(
        fleet_figure(store.name, sizes), run=lambda: fleet.all_owned_s(store, sizes.fleet_units), repeats=1
    )


def lease_figures(store: str, sizes: OwnershipSizes) -> tuple[Figure, ...]:
    return (
        Figure(f"lease.acquire.{store}", "leases/s", "higher", sizes.leases_per_s),
        Figure(f"lease.renew.{store}", "leases/s", "higher", sizes.renewals_per_s),
        Figure(f"lease.release.{store}", "leases/s", "higher", sizes.leases_per_s),
        *cpu_figures("lease", store, sizes.cpu_us),
    )


def auction_figures(store: str, sizes: OwnershipSizes) -> tuple[Figure, ...]:
    closed = Figure(f"auction.close.{store}", "auctions/s", "higher", sizes.auctions_per_s)
    return (closed, *cpu_figures("auction", store, sizes.cpu_us * (store_calls.BIDDERS + 1)))  # its bids, and the close


def cpu_figures(what: str, store: str, goal_us: float) -> tuple[Figure, ...]:
    own = Figure(f"{what}.cpu.{store}", "us/op", "lower", goal_us)
    return (own,) if STORES[store] is None else (own, Figure(f"{what}.server_cpu.{store}", "us/op", "lower"))


def fleet_figure(store: str, sizes: OwnershipSizes) -> Figure:
    return Figure(f"fleet.owned_{sizes.fleet_units}x{fleet.NODES}.{store}", "s", "lower", sizes.fleet_s)
