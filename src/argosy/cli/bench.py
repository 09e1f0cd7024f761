"""`argosy bench`: the one harness for all planes."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import Invalid
from argosy.cli.commands import Command
from argosy.cli.output import json_option, print_json, print_table, status

if TYPE_CHECKING:
    from argosy.bench.harness import Bench

RESULTS = Path("bench/results")  # beneath where one stands, which is the repository when a result is to be kept
ON_A_CORPUS = {"search"}


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Smaller runs, about a minute (search, fleet: six; jobs: three).")
@click.option("--only", metavar="TEXT", default="", help="Only the figures whose id contains this.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the JSON to this file as well.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the peers, as SVG, to this file.")
@click.option("--save", is_flag=True, help=f"Keep the JSON under {RESULTS}, named after bench and corpus.")
@click.option("--corpus", metavar="PATH", default="", help="search: the tree to index and search.")
@click.option("--queries", type=click.IntRange(min=1), metavar="N", help="search: so many queries of each class.")
@json_option
def bench(
    name: str | None,
    quick: bool,
    only: str,
    out: Path | None,
    plot: Path | None,
    save: bool,
    corpus: str,
    queries: int | None,
    as_json: bool,
) -> None:
    """Measure, beside peers in the same run.

    Without a NAME: list the benches. A goal that is missed is shown and is no failure; a figure that could not be
    measured at all is one.
    """
    from argosy.bench import harness

    if name is None:
        rows = [(each, harness.summary(each)) for each in sorted(harness.BENCHES)]
        if as_json:
            print_json([{"bench": each, "measures": line} for each, line in rows])
        else:
            print_table(("bench", "measures"), rows, empty="no benches")
        return
    if (corpus or queries) and name not in ON_A_CORPUS:
        raise Invalid(f"the bench {name} has no corpus and no queries: leave out --corpus and --queries")
    asked = harness.Bench(name, is_quick=quick, only=only, corpus=corpus, queries=queries or 0)
    _run(asked, only)
    told = _told(asked)
    for path in [*([out] if out else []), *([_kept(asked)] if save else [])]:
        path.write_text(json.dumps(told, indent=2) + "\n")
    if as_json:
        print_json(told)
    else:
        _show(asked, told)
    if plot:
        plot.write_text(_picture(told))
    if any(result.value is None for result in asked.results):
        click.get_current_context().exit(1)


def _run(bench: "Bench", only: str) -> None:
    from argosy.bench import harness

    function = harness.find(bench.name)
    with status(f"bench {bench.name}") as say, _stopping_in_order():
        bench.say = say
        asyncio.run(function(bench))
    if not bench.results:
        raise Invalid(f"no figure of {bench.name} contains {only!r}: leave out --only to see them all")


def _kept(bench: "Bench") -> Path:
    """Where a result is kept: one file for each bench and corpus, so that git shows what has changed."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    parts = [bench.name, Path(bench.corpus).resolve().name if bench.corpus else "", "quick" if bench.is_quick else ""]
    return RESULTS / f"{'-'.join(part for part in parts if part)}.json"


@contextmanager
def _stopping_in_order() -> Iterator[None]:
    """A bench that is told to stop still ends the servers it has started."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(bench: "Bench") -> dict[str, Any]:
    from argosy.bench import machine, report

    told = report.as_json(bench.name, machine.describe(), machine.commit(), bench.results)
    return report.with_background(told, bench)


def _picture(told: dict[str, Any]) -> str:
    from argosy.bench.plot import picture

    drawn = picture(told)
    if drawn is None:
        raise Invalid(f"no figure that was measured of {told['bench']} has a peer to draw: leave out --plot")
    return drawn


def _show(bench: "Bench", told: dict[str, Any]) -> None:
    from argosy.bench import report

    print_table(report.COLUMNS, report.as_rows(bench.results), empty="nothing was measured")
    load = ", ".join(str(part) for part in told["machine"]["load"])
    click.echo(f"\n{told['commit']} on {told['machine']['cpu']}, {told['machine']['cores']} cores, load {load}")
    for note in bench.notes:
        click.echo(f"- {note}")
