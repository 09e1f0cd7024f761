"""`argosy bench`: runs the benchmarks of all packages."""

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

RESULTS = Path("bench/results")  # below the working directory, which is the repository when a result is saved
ON_A_CORPUS = {"search"}


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Smaller runs, about a minute (search, fleet: six; jobs: three).")
@click.option(
    "--only", metavar="TEXT", default="", show_default=False, help="Run only measurements whose id contains this."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write the JSON to this file.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Plot the comparison with peers to this SVG file."
)
@click.option("--save", is_flag=True, help=f"Save the JSON under {RESULTS}, named after benchmark and corpus.")
@click.option("--corpus", metavar="PATH", default="", show_default=False, help="search: directory to index and search.")
@click.option("--queries", type=click.IntRange(min=1), metavar="N", help="search: number of queries per class.")
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
    """Run benchmarks, with peers in the same run.

    Without NAME, lists the benchmarks. A missed goal is reported but is not a failure; a measurement that could not be
    taken is.
    """
    from argosy.bench import harness

    if name is None:
        rows = [(each, harness.summary(each)) for each in sorted(harness.BENCHES)]
        if as_json:
            print_json([{"bench": each, "measures": line} for each, line in rows])
        else:
            print_table(("bench", "measures"), rows, empty="no benchmarks found")
        return
    if (corpus or queries) and name not in ON_A_CORPUS:
        raise Invalid(f"benchmark {name} takes no --corpus and no --queries; omit them")
    bench = harness.Bench(name, is_quick=quick, only=only, corpus=corpus, queries=queries or 0)
    _run(bench, only)
    results = _to_json(bench)
    for path in [*([out] if out else []), *([_result_path(bench)] if save else [])]:
        path.write_text(json.dumps(results, indent=2) + "\n")
    if as_json:
        print_json(results)
    else:
        _show(bench, results)
    if plot:
        plot.write_text(_plot(results))
    # A missed goal depends on the machine; a measurement that failed does not.
    if any(result.value is None for result in bench.results):
        click.get_current_context().exit(1)


def _run(bench: "Bench", only: str) -> None:
    from argosy.bench import harness

    function = harness.load_bench(bench.name)
    with status(f"bench {bench.name}") as show, _exit_on_sigterm():
        bench.progress = show
        asyncio.run(function(bench))
    if not bench.results:
        raise Invalid(f"no measurement of {bench.name} matches {only!r}; omit --only to run all")


def _result_path(bench: "Bench") -> Path:
    """The file of a saved result: one for each benchmark and corpus, so that git shows the changes."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    parts = [bench.name, Path(bench.corpus).resolve().name if bench.corpus else "", "quick" if bench.is_quick else ""]
    return RESULTS / f"{'-'.join(part for part in parts if part)}.json"


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Turns SIGTERM into SystemExit, so that the benchmark stops the servers it has started."""
    # Servers are stopped by context managers, which run on an exception but not on a signal.
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _to_json(bench: "Bench") -> dict[str, Any]:
    from argosy.bench import machine, report

    results = report.to_json(bench.name, machine.describe(), machine.commit(), bench.results)
    return report.with_background(results, bench)


def _plot(results: dict[str, Any]) -> str:
    from argosy.bench.plot import draw_bench

    drawn = draw_bench(results)
    if drawn is None:
        raise Invalid(f"no measurement of {results['bench']} has a peer to plot; omit --plot")
    return drawn


def _show(bench: "Bench", results: dict[str, Any]) -> None:
    from argosy.bench import report

    print_table(report.COLUMNS, report.to_rows(bench.results), empty="no measurements found")
    load = ", ".join(str(part) for part in results["machine"]["load"])
    click.echo(
        f"\n{results['commit']} on {results['machine']['cpu']}, {results['machine']['cores']} cores, load {load}"
    )
    for note in bench.notes:
        click.echo(f"- {note}")
