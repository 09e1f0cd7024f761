"""Deterministic simulation: production code on simulated networks, clocks and stores, all from one seed.

Entry points
    fleet               `argosy sim fleet`: a fleet through its life, with figures for tuning
    chaos, jobs_chaos,  `argosy sim chaos`, `jobs` and `throttle`: many small worlds with faults, in search of a broken
    throttle_chaos      invariant
    throttle_eval       `argosy throttle eval`: fairness of the throttle in load scenarios
    throttle_reference  the same evaluation with the random numbers of the Go original

Foundations
    loop                virtual time, processes that can be paused and killed, clocks
    link, network       links with latency, loss and partitions; the ownership store and its watches behind them
    plan                what a world is made of, and its schedule of faults
    trace               the trace of a run with its fingerprint, and the violations
    checkers            check the invariants, from outside

Worlds
    world, space, node  machines with ownership nodes, spaces with their stores and checkers, and the faults
    repositories, index_executor, search_node    simulated origins, catalog and indexes; the real search node on them
    jobs_world, jobs_node, jobs_load             brokers on shared storage, with clients and workers
    throttle_world, throttle_load                throttles in front of one resource, and their load

Reports
    report, fleet_counters, plot, throttle_plot, svg

What breaks determinism is listed in `loop`: sets of tasks, `id()`, the salted hash of a string, `uuid`, threads.
"""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.sim.chaos import ChaosReport, run_chaos
    from argosy.sim.fleet import run_fleet
    from argosy.sim.jobs_chaos import run_jobs_chaos
    from argosy.sim.loop import SimClock, SimLoop, SimProcess, run
    from argosy.sim.report import FleetPlan, FleetReport
    from argosy.sim.throttle_chaos import run_throttle_chaos
    from argosy.sim.throttle_eval import EvalReport, evaluate
    from argosy.sim.world import World

__all__ = [
    "ChaosReport",
    "EvalReport",
    "FleetPlan",
    "FleetReport",
    "SimClock",
    "SimLoop",
    "SimProcess",
    "World",
    "evaluate",
    "run",
    "run_chaos",
    "run_fleet",
    "run_jobs_chaos",
    "run_throttle_chaos",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "argosy.sim.chaos": ("ChaosReport", "run_chaos"),
        "argosy.sim.fleet": ("run_fleet",),
        "argosy.sim.jobs_chaos": ("run_jobs_chaos",),
        "argosy.sim.loop": ("SimClock", "SimLoop", "SimProcess", "run"),
        "argosy.sim.report": ("FleetPlan", "FleetReport"),
        "argosy.sim.throttle_chaos": ("run_throttle_chaos",),
        "argosy.sim.throttle_eval": ("EvalReport", "evaluate"),
        "argosy.sim.world": ("World",),
    },
)
