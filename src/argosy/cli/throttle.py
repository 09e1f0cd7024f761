"""`argosy throttle`: evaluates the throttle in simulation, and shows the buckets of running instances."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from argosy.base.errors import Invalid
from argosy.cli.commands import Group, Seconds
from argosy.cli.config import config_option, load
from argosy.cli.output import json_option, print_json, print_table, progress

if TYPE_CHECKING:
    from argosy.sim.throttle_eval import EvalReport
    from argosy.throttle import ThrottleSettings


SCENARIOS = ("noisy", "flash", "surge")
COUNT = click.IntRange(min=1)
TOP_MAX = 1000


@click.group(cls=Group)
def throttle() -> None:
    """Inspect and evaluate the throttle."""


@throttle.command("eval")
@click.option(
    "--scenario", "names", type=click.Choice(SCENARIOS), multiple=True, help="Run only this scenario; repeatable."
)
@click.option(
    "--seeds", type=COUNT, metavar="N", default=3, help="Runs of each scenario, each with another random seed."
)
@click.option("--instances", metavar="N,N,…", default="1,4,16", help="Numbers of throttle instances to evaluate.")
@click.option("--jobs", type=COUNT, metavar="N", help="Number of processes; by default one per core.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Directory for the plots.")
@json_option
def evaluate(
    names: Sequence[str], seeds: int, instances: str, jobs: int | None, out: Path | None, as_json: bool
) -> None:
    """Evaluate the fairness of the throttle.

    Compares how fairly a scarce resource is shared without and with the throttle, on one or more instances. The
    scenarios are those of the original throttle's evaluator. Jain's index is 1 if every client gets the same fraction
    of its entitlement; `worst` is the smallest fraction that any client got.
    """
    from argosy.sim.throttle_eval import evaluate as run
    from argosy.sim.throttle_load import scenario

    # Evaluated before any run: a wrong option should not show after minutes.
    chosen, counts = [scenario(name) for name in names or SCENARIOS], _counts(instances)
    if out is not None:
        _create_dir(out)  # before the runs, which take minutes
    with progress("eval") as show:
        report = run(chosen, seeds=seeds, instances=counts, jobs=jobs or os.cpu_count() or 1, progress=show)
    if out is not None:
        _draw(report, out)
    if as_json:
        click.echo(report.to_json())
        return
    print_table(_COLUMNS, _rows(report), empty="")
    found = report.convergence
    after = "never" if found.equal_after_s is None else f"{found.equal_after_s:.2f} s"
    click.echo(f"\nall buckets of {found.instances} instances converge {after} after the last write")


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise Invalid(f"invalid --instances {text!r}: expected positive whole numbers, such as 1,4,16")
    return sorted({int(word) for word in words})


def _draw(report: "EvalReport", folder: Path) -> None:
    from argosy.sim.throttle_plot import PICTURES

    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(report))


def _create_dir(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot create directory {folder}: {error.strerror}") from None


_COLUMNS = ("scenario", "throttle", "Jain", "±", "raw Jain", "utilisation", "worst", "failures", "throttled")
_MEANS = ("raw_jain", "utilisation", "worst_ratio", "failed", "throttled")


def _rows(report: "EvalReport") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for each in report.evaluations:
        jain, means = each.figures["entitlement_jain"], [each.figures[name].mean for name in _MEANS]
        rows.append((each.scenario, each.setup.name, jain.mean, jain.deviation, *means))
    return rows


@throttle.command()
@click.option("--url", metavar="URL", help="Shared store of the instances; overrides the setting throttle.store.")
@click.option("--namespace", metavar="NAME", help="First part of every key; overrides the setting throttle.namespace.")
@click.option("--count", type=click.IntRange(1, TOP_MAX), metavar="N", default=20, help="Number of buckets to show.")
@click.option("--client", "clients", metavar="ID", multiple=True, help="Also show the buckets of this client.")
@click.option("--interval", "interval_s", type=Seconds(0.1, 60), default=1.0, help="Seconds between updates.")
@click.option("--once", is_flag=True, help="Print one snapshot and exit.")
@config_option
@json_option
def top(
    url: str | None,
    namespace: str | None,
    count: int,
    clients: Sequence[str],
    interval_s: float,
    once: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Show the hottest buckets, live.

    The store contains buckets, not clients: pass --client to see the buckets of a client. Window, levels and secret
    must be those of the instances, so use their settings. With --json each snapshot is one object.
    """
    from argosy.cli.throttle_snapshot import WindowReader, show, to_json

    reader = WindowReader(_settings(config, url, namespace), clients=clients, count=count)
    try:
        if as_json:
            print_json(to_json(reader.read()))
            while not once:
                reader.wait(interval_s)
                print_json(to_json(reader.read()))
        else:
            show(reader, interval_s=interval_s, is_once=once)
    finally:
        reader.close()


def _settings(config: Path | None, url: str | None, namespace: str | None) -> "ThrottleSettings":
    from argosy.throttle import ThrottleSettings

    effective = load(config).get(ThrottleSettings)
    effective = replace(effective, store=url or effective.store, namespace=namespace or effective.namespace)
    if effective.store is None:
        raise Invalid("no shared store configured; pass --url, such as redis://localhost:6379, or set throttle.store")
    return effective
