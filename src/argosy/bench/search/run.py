"""The search benchmark: a corpus, queries on it, and all programs that can run them."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.bench import machine
from argosy.bench.harness import Bench, Figure, load_peers
from argosy.bench.search import figures, server_measures
from argosy.bench.search.bench_query import FORMS, KINDS, BenchQuery, Kind
from argosy.bench.search.comparison import OURS, ComparedSearcher, Comparison, record_latencies, record_ratios
from argosy.bench.search.corpus import Corpus, environment_roots, prepare_corpus, tree_roots
from argosy.bench.search.engine import OPTIONS, Engine, build_index, private_bytes
from argosy.bench.search.peers import PeerOpener, SearchPeer, compare_files, open_peers, record_background
from argosy.bench.search.query_selection import sample_index, select_queries
from argosy.search.index.index import Index
from argosy.search.index.sections import memory_bytes, section_bytes
from argosy.search.skip_policy import Policy

# Queries that take long enough to be cancelled; and those that people run most, for the throughput.
LONG_KINDS: tuple[Kind, ...] = ("common", "short", "regex")
FREQUENT_KINDS: tuple[Kind, ...] = ("rare", "identifier", "and", "filter", "zero")

AGREEING = ("rg", "csearch")  # peers whose files are compared with Argosy's


@dataclass(frozen=True)
class SearchSizes:
    """How much is measured."""

    queries: int  # of each class
    identifiers: int  # of this class, whose 95th percentile is a figure: it takes twenty values to have one
    rounds: int
    builds: int
    cold_starts: int
    cancellations: int  # of each query and moment
    throughput_s: float


FULL = SearchSizes(queries=10, identifiers=20, rounds=3, builds=3, cold_starts=5, cancellations=5, throughput_s=10.0)
# Within six minutes on two idle cores.
QUICK = SearchSizes(queries=3, identifiers=20, rounds=2, builds=2, cold_starts=3, cancellations=3, throughput_s=3.0)


async def search(bench: Bench) -> None:
    """Queries by class beside ripgrep, git grep, csearch and zoekt; building, memory, cold start, cancellation."""
    sizes = QUICK if bench.is_quick else FULL
    if bench.queries:
        sizes = replace(sizes, queries=bench.queries, identifiers=bench.queries)
    needs_corpus = bench.wants_any(corpus_figures())
    if needs_corpus and not bench.corpus and not bench.is_quick:
        raise Invalid("no corpus; pass a large tree with --corpus PATH, or --quick to search the installed packages")
    measure_cold_start(bench, sizes)
    if needs_corpus:
        measure_on_corpus(bench, sizes)


def measure_on_corpus(bench: Bench, sizes: SearchSizes) -> None:
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch, ExitStack() as stack:
        bench.progress("preparing the corpus")
        corpus = prepare_bench_corpus(bench, Path(scratch) / "corpus")
        index, symbols_s = measure_memory(bench, corpus)
        engine = Engine(index, cores())
        stack.callback(engine.close)
        bench.progress("building the peers' indexes")
        peers, absent = open_peers(peer_openers(bench), corpus.directory, Path(scratch))
        for peer in peers:
            stack.callback(peer.close)
        record_background(bench, corpus, peers, absent)
        record_memory(bench, corpus, engine, peers)
        measure_builds(bench, sizes, corpus, symbols_s, peers)
        queries = select_bench_queries(bench, sizes, engine, corpus)
        if bench.wants(figures.AGREEMENT.id):
            measure_agreement(bench, engine, peers, queries)
        measure_comparison(bench, sizes, engine, peers, queries)
        measure_server(bench, sizes, engine, queries)


def corpus_figures() -> Sequence[Figure]:
    """All figures that need a corpus, with those of peers that may turn out to be absent."""
    peers = load_peers("search")
    return figures.corpus_figures([] if peers is None else list(peers.PEERS), cores())


def peer_openers(bench: Bench) -> Mapping[str, PeerOpener]:
    peers = bench.load_peers()
    return {} if peers is None else dict(peers.PEERS)


def cores() -> int:
    return int(machine.describe()["cores"] or 1)


def measure_cold_start(bench: Bench, sizes: SearchSizes) -> None:
    if not bench.wants(figures.COLD.id, figures.COLD_CPU.id):
        return
    bench.progress("cold start")
    try:
        with tempfile.TemporaryDirectory(prefix="argosy-bench-") as bytecode:
            server_measures.cold_start(Path(bytecode))  # not counted: it compiles and stores the bytecode
            spent = [server_measures.cold_start(Path(bytecode)) for _ in range(sizes.cold_starts)]
    except ArgosyError as error:
        bench.record_error((figures.COLD, figures.COLD_CPU), error)
        return
    bench.record(figures.COLD, [each.wall_s for each in spent])
    bench.record(figures.COLD_CPU, [each.cpu_s for each in spent])


def prepare_bench_corpus(bench: Bench, directory: Path) -> Corpus:
    roots = tree_roots(bench.corpus) if bench.corpus else environment_roots()
    name = next(iter(roots.values())).name if bench.corpus else "this Python's library and packages"
    return prepare_corpus(name, roots, directory, Policy())


def measure_memory(bench: Bench, corpus: Corpus) -> tuple[Index, list[float]]:
    """Build the index that all queries run on; returns it with the CPU seconds of each build with symbols.

    What the very first build leaves behind (compiled patterns, the interpreter's pools) is no part of an index, so the
    growth of the process is that of the second build.
    """
    bench.progress("building the index")
    builds_s = []
    if bench.wants(figures.ACCOUNT.id, figures.BUILD_SYMBOLS.id):
        builds_s.append(build_index(corpus.directory, with_symbols=True).index_cpu_s)
    # Private and not resident bytes: pages of shared libraries are not part of an index.
    before = private_bytes()
    built = build_index(corpus.directory, with_symbols=True)
    builds_s.append(built.index_cpu_s)
    after = private_bytes()
    account, growth = memory_bytes(built.index), None if before is None or after is None else after - before
    bench.details["memory"] = {
        "memory_bytes": account,
        "process_growth_bytes": growth,
        "sections": section_bytes(built.index),
    }
    if growth is None:
        bench.record_error([figures.ACCOUNT], Unavailable("the memory of a process is measured on Linux only"))
    else:
        bench.record(figures.ACCOUNT, [abs(growth - account) / account * 100])
    return built.index, builds_s


def record_memory(bench: Bench, corpus: Corpus, engine: Engine, peers: Sequence[SearchPeer]) -> None:
    """Compared with zoekt's shards only, which contain the text as Argosy's index does; csearch's index does not."""
    built = {peer.name: peer.index_cost for peer in peers if peer.index_cost}
    shards = {name: [each.index_bytes / corpus.text_bytes] for name, each in built.items() if name == "zoekt"}
    bench.record(figures.MEMORY, [memory_bytes(engine.index) / corpus.text_bytes], shards)


def measure_builds(
    bench: Bench, sizes: SearchSizes, corpus: Corpus, symbols_s: Sequence[float], peers: Sequence[SearchPeer]
) -> None:
    """Builds without symbols, which csearch and zoekt do not extract either; `symbols_s` has the builds with
    symbols."""
    megabytes = corpus.text_bytes / 1e6
    bench.record(figures.BUILD_SYMBOLS, [megabytes / each for each in symbols_s])
    if not bench.wants_any((figures.BUILD, figures.BUILD_READ, figures.BUILD_ALL, figures.BUILD_TIMES_ZOEKT)):
        return
    index, read, whole = [], [], []
    for number in range(sizes.builds):
        bench.progress(f"building, {number + 1} of {sizes.builds}")
        built = build_index(corpus.directory, with_symbols=False)
        index.append(megabytes / built.index_cpu_s)
        read.append(megabytes / built.read_cpu_s)
        whole.append(megabytes / built.whole.cpu_s)
    rates = {peer.name: [megabytes / peer.index_cost.spent.cpu_s] for peer in peers if peer.index_cost}
    bench.record(figures.BUILD, index)
    bench.record(figures.BUILD_READ, read)
    bench.record(figures.BUILD_ALL, whole, rates)
    if "zoekt" in rates:
        bench.record(figures.BUILD_TIMES_ZOEKT, [each / rates["zoekt"][0] for each in whole])


def select_bench_queries(
    bench: Bench, sizes: SearchSizes, engine: Engine, corpus: Corpus
) -> dict[Kind, list[BenchQuery]]:
    bench.progress("selecting the queries")
    sample = sample_index(engine.index)

    def files_of(query: BenchQuery) -> int:
        return engine.search(query, OPTIONS["count"]).stats.files

    queries: dict[Kind, list[BenchQuery]] = {}
    for kind in KINDS:
        count = sizes.identifiers if kind == "identifier" else sizes.queries
        queries[kind] = select_queries(kind, count, sample, files_of, corpus.files)
        if len(queries[kind]) < count:
            bench.notes.append(f"class {kind}: this corpus has {len(queries[kind])} of {count} queries")
    bench.details["queries"] = [
        {"class": kind, "query": query.text, "files": stats.files, "matches": stats.matches}
        for kind, found in queries.items()
        for query in found
        for stats in [engine.search(query, OPTIONS["count"]).stats]
    ]
    return queries


def measure_agreement(
    bench: Bench, engine: Engine, peers: Sequence[SearchPeer], queries: Mapping[Kind, list[BenchQuery]]
) -> None:
    bench.progress("comparing files")
    agreeing = [peer for peer in peers if peer.name in AGREEING]
    found = compare_files(engine, agreeing, (query for each in queries.values() for query in each))
    for name, count in found.compared.items():
        differing = found.of(name)
        bench.notes.append(f"{name}: the same files as ours for {count - len(differing)} of {count} queries")
        bench.notes += [f"  {each.as_text()}" for each in differing]
    bench.details["agreement"] = found.as_json()
    if "rg" in found.compared:
        bench.record(figures.AGREEMENT, [len(found.of("rg"))])


def measure_comparison(
    bench: Bench,
    sizes: SearchSizes,
    engine: Engine,
    peers: Sequence[SearchPeer],
    queries: Mapping[Kind, list[BenchQuery]],
) -> None:
    names = [peer.name for peer in peers]
    forms = [form for form in FORMS if bench.wants_any(figures.comparison_figures(form, names))]
    selected = {kind: queries[kind] if _wants_class(bench, kind, names) else [] for kind in KINDS}
    comparison = Comparison(selected, engine.cores)
    searchers: dict[str, ComparedSearcher] = {OURS: engine, **{peer.name: peer for peer in peers}}
    for number in range(sizes.rounds):
        for form in forms:
            comparison.run_round(form, searchers, partial(_report, bench, f"round {number + 1} of {sizes.rounds}"))
    record_latencies(bench, comparison, names)
    record_ratios(bench, comparison, names)
    bench.notes += comparison.failures
    if forms:
        bench.details["samples"] = comparison.raw()


def _wants_class(bench: Bench, kind: Kind, peers: Sequence[str]) -> bool:
    """Whether a selected figure needs the queries of this class."""
    needing = [each for form in FORMS for each in figures.class_figures(form, kind, peers)]
    needing += [each for form in FORMS for each in figures.least_figures(form, peers)]
    return bench.wants_any(needing)


def _report(bench: Bench, prefix: str, text: str) -> None:
    bench.progress(f"{prefix}, {text}")


def measure_server(bench: Bench, sizes: SearchSizes, engine: Engine, queries: Mapping[Kind, list[BenchQuery]]) -> None:
    if bench.wants(figures.CANCEL.id):
        bench.progress("cancelling")
        long = [query for kind in LONG_KINDS for query in queries[kind]]
        late_ms = server_measures.overshoot_ms(engine, long, sizes.cancellations)
        bench.details["cancellations_ms"] = late_ms
        if late_ms:
            bench.record(figures.CANCEL, [max(late_ms.values())])
        else:
            bench.notes.append("no query took long enough to be cancelled")
    classes = zip_longest(*(queries[kind] for kind in FREQUENT_KINDS))
    mix = [query for one_of_each in classes for query in one_of_each if query is not None]
    for callers in sorted({1, engine.cores}):
        figure = figures.throughput(callers)
        if mix and bench.wants(figure.id):
            bench.progress(f"{callers} concurrent callers")
            bench.record(figure, [server_measures.searches_per_s(engine, mix, callers, sizes.throughput_s)])
