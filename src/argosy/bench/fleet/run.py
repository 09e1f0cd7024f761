"""The fleet benchmark: real processes on this machine, for each measurement the fleet that it needs."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.bench.fleet import figures
from argosy.bench.fleet.catalog_import import measure_import
from argosy.bench.fleet.departures import FailoverSettings, measure_drain, measure_node_loss
from argosy.bench.fleet.fleet_processes import NODES, start_fleet
from argosy.bench.fleet.latency import measure_load, measure_overhead
from argosy.bench.fleet.query_load import gateway_query, open_connections, run_at_full_speed
from argosy.bench.fleet.repositories import CORPUS_BYTES, SplitCorpus, sample_identifiers, split_corpus
from argosy.bench.harness import Bench

READY_S_MAX = 600.0
WARM_S = 5.0  # of load before anything is measured: kernels are loaded and connection pools filled


@dataclass(frozen=True)
class FleetSizes:
    """How much is measured."""

    corpus_bytes: int
    words: int  # different queries
    overhead_words: int
    rounds: int
    load_s: float
    repositories: int
    failover: FailoverSettings
    large_parts: int  # of the corpus, that make up one large repository
    drains: int
    nodes: int = NODES


# The full run kills a node with the default TTL and window. The quick one shortens them, because otherwise a minute and
# a half of it would be waiting for leases to expire and windows to end.
FULL = FleetSizes(
    CORPUS_BYTES, 2_000, 200, 3, 30.0, 500, FailoverSettings(ttl_s=30.0, renew_s=8.0, window_s=60.0), 8, 3
)
QUICK = FleetSizes(CORPUS_BYTES, 1_000, 60, 3, 8.0, 100, FailoverSettings(ttl_s=5.0, renew_s=1.5, window_s=5.0), 8, 3)


async def fleet(bench: Bench) -> None:
    """A gateway and four nodes: overhead, 200 queries/s, hundreds of repositories, a node killed, a drain."""
    sizes = QUICK if bench.is_quick else FULL
    latencies = (*figures.OVERHEADS, *figures.LOADS)
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as directory:
        scratch = Path(directory)
        corpus: SplitCorpus | None = None
        if bench.wants_any((*latencies, *figures.DRAINS)):
            bench.progress("preparing the corpus")
            corpus = await asyncio.to_thread(split_corpus, scratch / "corpus", bytes_max=sizes.corpus_bytes)
            bench.notes.append(
                f"corpus: this Python's library and packages, {corpus.text_bytes / 1e6:,.0f} MB in "
                f"{len(corpus.names)} repositories (directories); 1 gateway and {sizes.nodes} nodes on this machine"
            )
        if corpus is not None:
            of_corpus = corpus
            await bench.attempt(latencies, lambda: measure_latencies(bench, sizes, of_corpus, scratch))
        imports = (figures.import_ready(sizes.repositories), *figures.IMPORTS)
        await bench.attempt(imports, lambda: measure_import(bench, scratch, sizes.repositories, sizes.nodes))
        losses = (figures.FAILED_WITH_REPLICA, figures.OUTAGE, figures.FAILED_OF_OTHERS)
        await bench.attempt(losses, lambda: measure_node_loss(bench, scratch, sizes.failover, sizes.nodes))
        if corpus is not None:
            tree = _join_parts(corpus, scratch / "large", sizes.large_parts)
            await bench.attempt(figures.DRAINS, lambda: measure_drain(bench, scratch, tree, sizes.drains))


async def measure_latencies(bench: Bench, sizes: FleetSizes, corpus: SplitCorpus, scratch: Path) -> None:
    """Overhead and load, of one fleet that has the corpus in memory."""
    words = await asyncio.to_thread(sample_identifiers, corpus.directory, sizes.words)
    # Without refreshes: a check of the origins in the middle of a run would be part of some latencies and not of
    # others.
    with start_fleet(scratch / "latencies", {"search_refresh_s": 3600}, nodes=sizes.nodes) as fleet:
        await fleet.wait_up()
        bench.progress("indexing the corpus")
        fleet.import_repositories([{"url": str(corpus.directory / name), "name": name} for name in corpus.names])
        repositories = await fleet.wait_settled(len(corpus.names), READY_S_MAX)
        await warm_up(fleet.gateway.address, words)
        if bench.wants_any(figures.OVERHEADS):
            await measure_overhead(bench, fleet, repositories, words[: sizes.overhead_words], sizes.rounds)
        if bench.wants_any(figures.LOADS):
            await measure_load(
                bench,
                fleet,
                words,
                corpus=corpus.directory,
                scratch=scratch,
                seconds=sizes.load_s,
                rounds=sizes.rounds,
            )


async def warm_up(address: str, words: Sequence[str]) -> None:
    async with open_connections() as connections:
        await run_at_full_speed(connections, [gateway_query(address, word) for word in words], WARM_S)


def _join_parts(corpus: SplitCorpus, target: Path, count: int) -> Path:
    """Some parts of the corpus as one tree. They are moved: the fleet that searched them has ended."""
    target.mkdir()
    for name in corpus.names[:count]:
        (corpus.directory / name).rename(target / name)
    return target
