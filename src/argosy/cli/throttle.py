"""`argosy throttle`: how fair the throttle is, and what it holds against whom just now."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from argosy.base.errors import Invalid
from argosy.cli.commands import Group
from argosy.cli.output import json_option, print_json, print_table, progress
from argosy.cli.param_types import Seconds
from argosy.cli.settings import config_option, load

if TYPE_CHECKING:
    from argosy.sim.throttle_eval import EvalReport
    from argosy.throttle import ThrottleSettings

SCENARIOS = ("noisy", "flash", "surge")
COUNT = click.IntRange(min=1)
TOP_MAX = 1000


@click.group(cls=Group)
def throttle() -> None:
    """Fair admission when the resource runs short."""


@throttle.command("eval")
@click.option("--scenario", "names", type=click.Choice(SCENARIOS), multiple=True, help="Only this; may be repeated.")
@click.option("--seeds", type=COUNT, default=3, help="Runs of each, with other arrivals and other dice.")
@click.option("--instances", metavar="N,N,…", default="1,4,16", help="How many instances stand before the resource.")
@click.option("--jobs", type=COUNT, help="Processes to run in; by default one per core.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Draw the pictures into this folder.")
@json_option
def evaluate(
    names: Sequence[str], seeds: int, instances: str, jobs: int | None, out: Path | None, as_json: bool
) -> None:
    """How fairly a short resource is shared out, without the throttle and with it, on one instance and on many.

    The scenarios are those of the original's evaluator. Jain's index is 1 where every client gets the same part of
    what it is entitled to; the worst is the least part that any client got.
    """
    from argosy.sim.throttle_eval import evaluate as run
    from argosy.sim.throttle_load import scenario

    chosen, counts = [scenario(name) for name in names or SCENARIOS], _counts(instances)
    if out is not None:
        _make(out)  # now, because what cannot be drawn should not be reckoned for minutes
    with progress("eval") as told:
        report = run(chosen, seeds=seeds, instances=counts, jobs=jobs or os.cpu_count() or 1, progress=told)
    if out is not None:
        _draw(report, out)
    if as_json:
        click.echo(report.to_json())
        return
    print_table(_COLUMNS, _rows(report), empty="")
    found = report.convergence
    after = "never" if found.equal_after_s is None else f"{found.equal_after_s:.2f} s"
    click.echo(f"\nall buckets of {found.instances} instances are equal {after} after the last write")


def _counts(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise Invalid(f"--instances is a list of whole numbers above 0, such as 1,4,16, not {text!r}")
    return sorted({int(word) for word in words})


def _draw(report: "EvalReport", folder: Path) -> None:
    from argosy.sim.throttle_plot import PICTURES

    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(report))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"the folder {folder} cannot be made: {error.strerror}") from None


_COLUMNS = ("scenario", "throttle", "Jain", "±", "raw Jain", "utilisation", "worst", "failures", "throttled")
_MEANS = ("raw_jain", "utilisation", "worst_ratio", "failed", "throttled")


def _rows(report: "EvalReport") -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for each in report.evaluations:
        jain, means = each.figures["entitlement_jain"], [each.figures[name].mean for name in _MEANS]
        rows.append((each.scenario, each.setup.name, jain.mean, jain.deviation, *means))
    return rows


@throttle.command()
@click.option("--url", metavar="URL", help="The store that instances share through; as in the settings.")
@click.option("--namespace", metavar="NAME", help="First part of every key; as in the settings.")
@click.option("--count", type=click.IntRange(1, TOP_MAX), default=20, help="Buckets to show.")
@click.option("--client", "clients", metavar="ID", multiple=True, help="Show where this client stands, too.")
@click.option("--interval", "interval_s", type=Seconds(0.1, 60), default=1.0, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Look once, and end.")
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
    """The hottest buckets that the running instances share, live.

    The store knows buckets, not clients: name a client to see which buckets are its own. Window, levels and secret must
    be those of the instances, so take the same settings. With --json each look is one object.
    """
    from argosy.cli.throttle_snapshot import Watch, show, told

    watch = Watch(_settings(config, url, namespace), clients=clients, count=count)
    try:
        if as_json:
            print_json(told(watch.look()))
            while not once:
                watch.wait(interval_s)
                print_json(told(watch.look()))
        else:
            show(watch, interval_s=interval_s, is_once=once)
    finally:
        watch.close()


def _settings(config: Path | None, url: str | None, namespace: str | None) -> "ThrottleSettings":
    from argosy.throttle import ThrottleSettings

    wished = load(config).get(ThrottleSettings)
    wished = replace(wished, store=url or wished.store, namespace=namespace or wished.namespace)
    if wished.store is None:
        raise Invalid("there is no store to look at: give --url, such as redis://localhost:6379, or set throttle.store")
    return wished
