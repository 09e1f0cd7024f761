"""The bench of the content index: each measure with the processes it needs, everything in a folder that is removed."""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Figure
from argosy.bench.ipni import figures
from argosy.bench.ipni.chains import Shape
from argosy.bench.ipni.find_rate import measure_finds
from argosy.bench.ipni.gateway_overhead import measure_gateway
from argosy.bench.ipni.growth import measure_growth
from argosy.bench.ipni.ingest_rate import measure_ingest
from argosy.bench.ipni.store_rate import measure_stores


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    cbor: Shape  # what is taken in by each run
    json: Shape
    ingests: int  # runs
    found: Shape
    find_s: float
    stored: int
    stores: int  # runs
    millions: int  # that an index grows to
    chunk: int
    has_growth_goal: bool
    spread: int  # finds by way of the gateway, a run
    spreads: int  # runs


FULL = Plan(
    cbor=Shape(4, 61, figures.CHUNK), json=Shape(4, 31, figures.CHUNK), ingests=3, found=Shape(2, 61, figures.CHUNK),
    find_s=5.0, stored=4_000_000, stores=3, millions=50, chunk=figures.CHUNK, has_growth_goal=True,
    spread=3_000, spreads=5,
)  # fmt: skip
QUICK = Plan(
    cbor=Shape(4, 15, figures.CHUNK), json=Shape(4, 8, figures.CHUNK), ingests=3, found=Shape(1, 20, figures.CHUNK),
    find_s=2.0, stored=500_000, stores=1, millions=3, chunk=figures.CHUNK, has_growth_goal=False,
    spread=600, spreads=3,
)  # fmt: skip


async def ipni(bench: Bench) -> None:
    """The content index: ingest with finds meanwhile, finds on one core, its store beside others, growth, gateway."""
    plan = QUICK if bench.is_quick else FULL
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        at = Path(folder)
        parts: list[tuple[Sequence[Figure], Callable[[], Awaitable[None]]]] = [
            (
                (*figures.ingest("cbor"), figures.DISK),
                lambda: measure_ingest(bench, at, "cbor", plan.cbor, plan.ingests),
            ),
            (figures.ingest("json"), lambda: measure_ingest(bench, at, "json", plan.json, plan.ingests)),
            (figures.FINDS, lambda: measure_finds(bench, at, plan.found, plan.find_s)),
            (figures.STORES, lambda: measure_stores(bench, at, plan.stored, plan.stores)),
            (
                figures.grown(plan.millions, has_goal=plan.has_growth_goal),
                lambda: measure_growth(bench, at, plan.millions, plan.chunk, has_goal=plan.has_growth_goal),
            ),
            (
                (*figures.SPREADS, *figures.LOSSES),
                lambda: measure_gateway(bench, at, plan.spread, plan.spreads),
            ),
        ]
        for wanted, measure in parts:
            await _tried(bench, wanted, measure)


async def _tried(bench: Bench, wanted: Sequence[Figure], measure: Callable[[], Awaitable[None]]) -> None:
    """Measures if it is asked for; what could not be measured says why."""
    if not bench.wants(*[figure.id for figure in wanted]):
        return
    try:
        await measure()
    except ArgosyError as error:
        told = {result.figure.id for result in bench.results}
        bench.give_up([figure for figure in wanted if figure.id not in told], error)
