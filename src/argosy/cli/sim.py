"""`argosy sim`: deterministic simulations of fleets, throttles and job brokers, for tuning and for finding faults."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from argosy.base.errors import Invalid
from argosy.cli.commands import Group
from argosy.cli.output import json_option, print_table, progress

if TYPE_CHECKING:
    from argosy.sim.chaos import ChaosReport
    from argosy.sim.report import FleetReport

COUNT = click.IntRange(min=1)


@click.group(cls=Group)
def sim() -> None:
    """Simulate fleets, throttles and job brokers, with faults."""


@sim.command()
@click.option("--repos", type=COUNT, metavar="N", default=500, help="Number of repositories.")
@click.option("--nodes", type=COUNT, metavar="N", default=20, help="Number of search nodes.")
@click.option("--seed", type=int, metavar="N", default=7, help="Seed; equal seeds give identical runs.")
@click.option(
    "--ttl",
    type=float,
    metavar="SECONDS",
    default=30.0,
    help="Lease TTL in seconds: the time until a crashed node's units are unowned.",
)
@click.option(
    "--window", type=float, metavar="SECONDS", default=60.0, help="Maximum duration of an auction in seconds."
)
@click.option("--max-bids", metavar="N|live", default="live", help="Number of bids that closes an auction early.")
@click.option(
    "--kill", type=click.IntRange(min=0), metavar="N", default=1, help="Number of nodes that crash, one after another."
)
@click.option(
    "--replicas",
    type=click.IntRange(min=0, max=8),
    metavar="N",
    default=0,
    help="Additional holders of each repository.",
)
@click.option(
    "--drain",
    type=click.IntRange(min=0),
    metavar="N",
    default=1,
    help="Number of nodes that are drained and restarted.",
)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Plot the run to this SVG file.")
@json_option
def fleet(
    repos: int,
    nodes: int,
    seed: int,
    ttl: float,
    window: float,
    max_bids: str,
    kill: int,
    replicas: int,
    drain: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Simulate a fleet of search nodes. Once all repositories are served: commits, crashes, drains, memory pressure.

    Prints the measurements for tuning TTLs, windows and autoscaling.
    """
    from argosy.sim.fleet import run_fleet
    from argosy.sim.plot import draw_fleet
    from argosy.sim.report import FleetPlan

    threshold = _threshold(max_bids)
    plan = FleetPlan(
        repos, nodes, seed, ttl_s=ttl, window_s=window, max_bids=threshold, kill=kill, replicas=replicas, drain=drain
    )
    with progress("fleet") as show:
        report = run_fleet(plan, show)
    if plot is not None:
        plot.write_text(draw_fleet(report))
    if as_json:
        click.echo(report.to_json())
    else:
        print_table(("measurement", "value", "unit"), _rows(report), empty="")
    # A violated invariant fails the command, so that a script or CI can run simulations.
    if report.violations:
        click.get_current_context().exit(1)


def _threshold(text: str) -> int | Literal["live"]:
    if text == "live":
        return "live"
    if not text.isdecimal() or int(text) < 1:
        raise Invalid(f"invalid --max-bids {text!r}: expected a positive whole number or 'live'")
    return int(text)


def _rows(report: "FleetReport") -> list[tuple[str, object, str]]:
    """The report as rows for people; the whole of it is in the JSON."""
    auctions, failover, memory = report.auctions, report.failover, report.memory
    refresh, evictions, drain, provisioned = report.refresh, report.evictions, report.drain, report.provisioned
    return [
        ("first repository owned after", report.first_owned_s, "s"),
        ("all repositories owned after", report.all_owned_s, "s"),
        ("all repositories ready after", report.all_ready_s, "s"),
        ("auctions started", auctions.started, ""),
        ("auctions closed early, all bids in", auctions.short_circuited, ""),
        ("auctions closed at the window's end", auctions.timed_out, ""),
        ("auctions without a winner", auctions.no_winner, ""),
        ("bids", auctions.bids, ""),
        ("nodes killed", failover.kills, ""),
        ("failover, median", failover.p50_s, "s"),
        ("failover, p95", failover.p95_s, "s"),
        ("failover, longest", failover.max_s, "s"),
        ("repositories with new commits", refresh.commits, ""),
        ("from commit to served, median", refresh.p50_s, "s"),
        ("from commit to served, p95", refresh.p95_s, "s"),
        ("evictions for lack of memory", evictions.evictions, ""),
        ("evicted and claimed again", evictions.reclaims, ""),
        ("from eviction to served again, median", evictions.p50_s, "s"),
        ("from eviction to served again, longest", evictions.max_s, "s"),
        ("nodes drained", drain.drains, ""),
        ("drain, longest", drain.max_s, "s"),
        ("repositories not served during a drain", drain.unserved, ""),
        ("indexes built", provisioned.built, ""),
        ("indexes built incrementally", provisioned.incremental, ""),
        ("indexes streamed from another node", provisioned.received, ""),
        ("moves between nodes", report.moves, ""),
        ("memory of a node", memory.node_budget_mib, "MiB"),
        ("coefficient of variation of memory", memory.variation, ""),
        ("calls to the store per node", report.store_calls_per_node_s, "1/s"),
        ("settled", report.is_settled, ""),
        *[("violation", violation, "") for violation in report.violations],
    ]


@sim.command()
@click.option(
    "--seeds", type=COUNT, metavar="N", default=200, help="Number of seeds to run; each injects other faults."
)
@click.option("--first-seed", type=click.IntRange(min=0), metavar="N", default=1, help="First seed.")
@click.option("--jobs", type=COUNT, metavar="N", help="Number of processes; by default one per core.")
@json_option
def chaos(seeds: int, first_seed: int, jobs: int | None, as_json: bool) -> None:
    """Inject random faults into simulated fleets.

    Checkers watch the invariants; a violation is printed with the seed that replays it.
    """
    from argosy.sim.chaos import run_chaos

    with progress("chaos") as show:
        report = run_chaos(first_seed, seeds, jobs=jobs or os.cpu_count() or 1, progress=show)
    _print_chaos(report, as_json)


@sim.command()
@click.option("--seeds", type=COUNT, metavar="N", default=50, help="Number of seeds to run; each injects other faults.")
@click.option("--first-seed", type=click.IntRange(min=0), metavar="N", default=1, help="First seed.")
@click.option("--instances", type=COUNT, metavar="N", default=100, help="Number of throttle instances.")
@click.option("--jobs", type=COUNT, metavar="N", help="Number of processes; by default one per core.")
@json_option
def throttle(seeds: int, first_seed: int, instances: int, jobs: int | None, as_json: bool) -> None:
    """Simulate throttles that share state.

    Faults are clock skew, partitions and message loss. Checks THR-1 and THR-2.
    """
    from argosy.sim.throttle_chaos import run_throttle_chaos

    with progress("throttle") as show:
        report = run_throttle_chaos(
            first_seed, seeds, instances=instances, jobs=jobs or os.cpu_count() or 1, progress=show
        )
    _print_chaos(report, as_json)


@sim.command()
@click.option("--seeds", type=COUNT, metavar="N", default=50, help="Number of seeds to run; each injects other faults.")
@click.option("--first-seed", type=click.IntRange(min=0), metavar="N", default=1, help="First seed.")
@click.option("--jobs", type=COUNT, metavar="N", help="Number of processes; by default one per core.")
@json_option
def jobs(seeds: int, first_seed: int, jobs: int | None, as_json: bool) -> None:
    """Simulate job brokers with clients and workers.

    Faults are crashes, partitions and splits. Checks JOB-1 to JOB-3.
    """
    from argosy.sim.jobs_chaos import run_jobs_chaos

    with progress("jobs") as show:
        report = run_jobs_chaos(first_seed, seeds, jobs=jobs or os.cpu_count() or 1, progress=show)
    _print_chaos(report, as_json)


def _print_chaos(report: "ChaosReport", as_json: bool) -> None:
    if as_json:
        click.echo(report.to_json())
    else:
        rows = [(each.seed, text, each.replay) for each in report.violations for text in each.violations]
        summary = f"{report.seeds} seeds, no violations; slowest recovery {report.slowest_settling_s or 0:.1f} s"
        print_table(("seed", "violation", "replay"), rows, empty=summary)
    if not report.is_clean:
        click.get_current_context().exit(1)
