"""The bench of the fleet: real processes on this machine, each measure with the fleet it needs."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.base.errors import ArgosyError
from argosy.bench.fleet import figures
from argosy.bench.fleet.catalog_import import measure_import
from argosy.bench.fleet.drain import measure_handing
from argosy.bench.fleet.load import measure_load
from argosy.bench.fleet.members import NODES, fleet_in
from argosy.bench.fleet.node_loss import Pace, measure_loss
from argosy.bench.fleet.origins import CORPUS_BYTES, Parts, identifiers, parts
from argosy.bench.fleet.overhead import measure_overhead
from argosy.bench.fleet.query_load import as_fast_as_they_go, session, to_door
from argosy.bench.harness import Bench, Figure

READY_S_MAX = 600.0
WARM_S = 5.0  # before anything is measured, kernels are compiled and pools are filled


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    corpus_bytes: int
    words: int  # different queries
    overhead_words: int
    rounds: int
    load_s: float
    repositories: int
    pace: Pace
    large_parts: int  # of the corpus, that make up one large repository
    drains: int
    nodes: int = NODES


FULL = Plan(CORPUS_BYTES, 2_000, 200, 3, 30.0, 500, Pace(ttl_s=30.0, renew_s=8.0, window_s=60.0), 8, 3)
QUICK = Plan(CORPUS_BYTES, 1_000, 60, 3, 8.0, 100, Pace(ttl_s=5.0, renew_s=1.5, window_s=5.0), 8, 3)


async def fleet(bench: Bench) -> None:
    """A front door and four nodes: its overhead, 200 queries/s, hundreds of repositories, a node killed, a drain."""
    plan = QUICK if bench.is_quick else FULL
    ready = figures.import_ready(plan.repositories)
    asked = (*figures.OVERHEADS, *figures.LOADS)
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        scratch = Path(folder)
        corpus: Parts | None = None
        if _wants(bench, asked + figures.DRAINS):
            bench.say("setting out the corpus")
            corpus = await asyncio.to_thread(parts, scratch / "corpus", bytes_max=plan.corpus_bytes)
            bench.notes.append(
                f"corpus: this Python's library and packages, {corpus.text_bytes / 1e6:,.0f} MB in "
                f"{len(corpus.names)} repositories (folders); 1 front door and {plan.nodes} nodes on this machine"
            )
        if corpus is not None:
            of_corpus = corpus
            await _tried(bench, asked, lambda: measure_answers(bench, plan, of_corpus, scratch))
        imports = (ready, *figures.IMPORTS)
        await _tried(bench, imports, lambda: measure_import(bench, scratch, plan.repositories, plan.nodes))
        losses = (figures.FAILED_WITH_REPLICA, figures.BACK, figures.FAILED_OF_OTHERS)
        await _tried(bench, losses, lambda: measure_loss(bench, scratch, plan.pace, plan.nodes))
        if corpus is not None:
            large = _joined(corpus, scratch / "large", plan.large_parts)
            await _tried(bench, figures.DRAINS, lambda: measure_handing(bench, scratch, large, plan.drains))


async def measure_answers(bench: Bench, plan: Plan, corpus: Parts, scratch: Path) -> None:
    """Overhead and load, of one fleet that has the corpus in memory."""
    words = await asyncio.to_thread(identifiers, corpus.folder, plan.words)
    with fleet_in(scratch / "answers", {"search_refresh_s": 3600}, nodes=plan.nodes) as fleet:
        await fleet.up()
        bench.say("indexing the corpus")
        fleet.wish([{"url": str(corpus.folder / name), "name": name} for name in corpus.names])
        repositories = await fleet.settled(len(corpus.names), READY_S_MAX)
        await warm(fleet.door.address, words)
        if _wants(bench, figures.OVERHEADS):
            await measure_overhead(bench, fleet, repositories, words[: plan.overhead_words], plan.rounds)
        if _wants(bench, figures.LOADS):
            await measure_load(
                bench,
                fleet,
                words,
                corpus=corpus.folder,
                scratch=scratch,
                seconds=plan.load_s,
                rounds=plan.rounds,
            )


async def warm(door: str, words: Sequence[str]) -> None:
    async with session() as opened:
        await as_fast_as_they_go(opened, [to_door(door, word) for word in words], WARM_S)


def _wants(bench: Bench, wanted: Sequence[Figure]) -> bool:
    return bench.wants(*[figure.id for figure in wanted])


async def _tried(bench: Bench, wanted: Sequence[Figure], measure: Callable[[], Awaitable[None]]) -> None:
    """Measures if it is asked for; what could not be measured says why."""
    if not _wants(bench, wanted):
        return
    try:
        await measure()
    except ArgosyError as error:
        told = {result.figure.id for result in bench.results}
        bench.give_up([figure for figure in wanted if figure.id not in told], error)


def _joined(corpus: Parts, place: Path, count: int) -> Path:
    """Some parts of the corpus as one tree; the fleet that searched them is gone."""
    place.mkdir()
    for name in corpus.names[:count]:
        (corpus.folder / name).rename(place / name)
    return place
