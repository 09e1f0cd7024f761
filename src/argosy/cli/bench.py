"""`argosy bench`: the one harness for all planes."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from argosy.base.errors import Invalid
from argosy.cli.output import json_option, print_json, print_table, status

if TYPE_CHECKING:
    from argosy.bench.harness import Result


@click.command()
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Smaller runs, under a minute in all; the figures are the same.")
@click.option("--only", metavar="TEXT", default="", help="Only the figures whose id contains this.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the JSON to this file as well.")
@json_option
def bench(name: str | None, quick: bool, only: str, out: Path | None, as_json: bool) -> None:
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
    results = _run(name, quick, only)
    _tell(name, results, as_json=as_json, out=out)
    if any(result.value is None for result in results):
        click.get_current_context().exit(1)


def _run(name: str, quick: bool, only: str) -> "list[Result]":
    from argosy.bench import harness

    function = harness.find(name)
    with status(f"bench {name}") as say, _stopping_in_order():
        bench = harness.Bench(name, is_quick=quick, only=only, on_result=lambda result: say(result.figure.id))
        asyncio.run(function(bench))
    if not bench.results:
        raise Invalid(f"no figure of {name} contains {only!r}: leave out --only to see them all")
    return bench.results


@contextmanager
def _stopping_in_order() -> Iterator[None]:
    """A bench that is told to stop still ends the servers it has started."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(name: str, results: "list[Result]", *, as_json: bool, out: Path | None) -> None:
    from argosy.bench import machine, report

    measured_on = machine.describe()
    told = report.as_json(name, measured_on, machine.commit(), results)
    if out is not None:
        out.write_text(json.dumps(told, indent=2) + "\n")
    if as_json:
        print_json(told)
        return
    print_table(report.COLUMNS, report.as_rows(results), empty="nothing was measured")
    load = ", ".join(str(part) for part in measured_on["load"])
    click.echo(f"\n{told['commit']} on {measured_on['cpu']}, {measured_on['cores']} cores, load {load}")
