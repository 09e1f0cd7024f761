"""The content index benchmark: each measurement with its processes, everything in a directory that is then removed."""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.bench.harness import Bench, Figure
from argosy.bench.ipni import figures
from argosy.bench.ipni.chains import ChainShape
from argosy.bench.ipni.finds import measure_finds, measure_gateway
from argosy.bench.ipni.ingest import measure_growth, measure_ingest
from argosy.bench.ipni.stores import measure_stores


@dataclass(frozen=True)
class IpniSizes:
    """How much is measured."""

    cbor: ChainShape  # ingested by each run
    json: ChainShape
    ingests: int  # runs
    findable: ChainShape
    find_s: float
    stored: int
    stores: int  # runs
    millions: int  # that an index grows to
    chunk: int
    has_growth_goal: bool
    gateway_finds: int  # of a run
    gateway_runs: int


FULL = IpniSizes(
    cbor=ChainShape(4, 61, figures.CHUNK),
    json=ChainShape(4, 31, figures.CHUNK),
    ingests=3,
    findable=ChainShape(2, 61, figures.CHUNK),
    find_s=5.0,
    stored=4_000_000,
    stores=3,
    millions=50,
    chunk=figures.CHUNK,
    has_growth_goal=True,
    gateway_finds=3_000,
    gateway_runs=5,
)
# Without a goal for growth: an index of three millions has hardly been compacted.
QUICK = IpniSizes(
    cbor=ChainShape(4, 15, figures.CHUNK),
    json=ChainShape(4, 8, figures.CHUNK),
    ingests=3,
    findable=ChainShape(1, 20, figures.CHUNK),
    find_s=2.0,
    stored=500_000,
    stores=1,
    millions=3,
    chunk=figures.CHUNK,
    has_growth_goal=False,
    gateway_finds=600,
    gateway_runs=3,
)


async def ipni(bench: Bench) -> None:
    """The content index: ingest with concurrent finds, finds on one core, its store beside others, growth, gateway."""
    sizes = QUICK if bench.is_quick else FULL
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as directory:
        at = Path(directory)
        parts: list[tuple[Sequence[Figure], Callable[[], Awaitable[None]]]] = [
            (
                (*figures.ingest("cbor"), figures.DISK),
                lambda: measure_ingest(bench, at, "cbor", sizes.cbor, sizes.ingests),
            ),
            (figures.ingest("json"), lambda: measure_ingest(bench, at, "json", sizes.json, sizes.ingests)),
            (figures.FINDS, lambda: measure_finds(bench, at, sizes.findable, sizes.find_s)),
            (figures.STORES, lambda: measure_stores(bench, at, sizes.stored, sizes.stores)),
            (
                figures.growth(sizes.millions, has_goal=sizes.has_growth_goal),
                lambda: measure_growth(bench, at, sizes.millions, sizes.chunk, has_goal=sizes.has_growth_goal),
            ),
            (
                (*figures.OVERHEADS, *figures.LOSSES),
                lambda: measure_gateway(bench, at, sizes.gateway_finds, sizes.gateway_runs),
            ),
        ]
        for part_figures, measure in parts:
            await bench.attempt(part_figures, measure)
