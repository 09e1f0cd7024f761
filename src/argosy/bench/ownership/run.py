"""The bench of ownership: which figures, on which stores, with which goals."""

from dataclasses import dataclass

from argosy.base.backends.servers import Etcd, Server, Valkey
from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Figure
from argosy.bench.ownership import calls, fleet, peers
from argosy.bench.ownership.site import Site


@dataclass(frozen=True)
class Plan:
    """How much is done in one run, and what should come out.

    Goals are modest: on two busy cores they are missed only when something has gone wrong.
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
    "memory": Plan(20_000, 4_000, 500, 20_000, 100_000, 2_000, cpu_us=50, fleet_s=15),
    "valkey": Plan(4_000, 1_000, 500, 1_000, 10_000, 150, cpu_us=1_000, fleet_s=30),
    "etcd": Plan(2_000, 400, 500, 300, 3_000, 30, cpu_us=3_000, fleet_s=60),
}
# Everything within 50 s in all. The fleet keeps its size where it can; on etcd it is smaller, and its figure says so.
QUICK = {
    "memory": Plan(4_000, 1_000, 500, 20_000, 100_000, 2_000, cpu_us=50, fleet_s=15),
    "valkey": Plan(1_000, 300, 500, 1_000, 10_000, 150, cpu_us=1_000, fleet_s=30),
    "etcd": Plan(400, 100, 100, 300, 3_000, 30, cpu_us=3_000, fleet_s=15),
}


async def ownership(bench: Bench) -> None:
    """Leases, auctions and a whole fleet, on memory, Valkey and etcd; CPU per operation."""
    plans = QUICK if bench.is_quick else FULL
    for store, server in STORES.items():
        await on_store(bench, store, server, plans[store])


async def on_store(bench: Bench, store: str, kind: type[Server] | None, plan: Plan) -> None:
    figures = (*lease_figures(store, plan), *auction_figures(store, plan), fleet_figure(store, plan))
    if not bench.wants(*[figure.id for figure in figures]):
        return
    try:
        server = None if kind is None else kind()
    except ArgosyError as error:
        bench.give_up(figures, error)
        return
    try:
        await measure(bench, Site(store, server), plan)
    finally:
        if server is not None:
            server.stop()


async def measure(bench: Bench, site: Site, plan: Plan) -> None:
    await bench.measure(
        *lease_figures(site.name, plan),
        run=lambda: calls.leases(site, plan.operations),
        peers=peers.of_leases(site, plan.operations),
    )
    await bench.measure(*auction_figures(site.name, plan), run=lambda: calls.auctions(site, plan.auctions))
    # A fleet's start is the sum of thousands of steps: once is enough to be steady.
    await bench.measure(fleet_figure(site.name, plan), run=lambda: fleet.all_owned_s(site, plan.fleet_units), repeats=1)


def lease_figures(store: str, plan: Plan) -> tuple[Figure, ...]:
    return (
        Figure(f"lease.acquire.{store}", "leases/s", "higher", plan.leases_per_s),
        Figure(f"lease.renew.{store}", "leases/s", "higher", plan.renewals_per_s),
        Figure(f"lease.release.{store}", "leases/s", "higher", plan.leases_per_s),
        *cpu_figures("lease", store, plan.cpu_us),
    )


def auction_figures(store: str, plan: Plan) -> tuple[Figure, ...]:
    closed = Figure(f"auction.close.{store}", "auctions/s", "higher", plan.auctions_per_s)
    return (closed, *cpu_figures("auction", store, plan.cpu_us * (calls.BIDDERS + 1)))  # its bids, and the closing


def cpu_figures(what: str, store: str, goal_us: float) -> tuple[Figure, ...]:
    own = Figure(f"{what}.cpu.{store}", "us/op", "lower", goal_us)
    return (own,) if STORES[store] is None else (own, Figure(f"{what}.server_cpu.{store}", "us/op", "lower"))


def fleet_figure(store: str, plan: Plan) -> Figure:
    return Figure(f"fleet.owned_{plan.fleet_units}x{fleet.NODES}.{store}", "s", "lower", plan.fleet_s)
