"""The bench of the search engine: a corpus, questions about it, and everybody who can answer them."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.bench import machine
from argosy.bench.harness import Bench, Figure
from argosy.bench.search import agreement, figures, index_build, server_measures
from argosy.bench.search.background import record_background
from argosy.bench.search.bench_query import FORMS, KINDS, Ask, Kind
from argosy.bench.search.contest import OURS, Contender, Contest
from argosy.bench.search.corpus import Corpus, named, own_environment, set_out
from argosy.bench.search.engine import OPTIONS, Engine
from argosy.bench.search.latency_figures import record_latencies, record_ratios
from argosy.bench.search.peers import Csearch, GitGrep, Opener, Peer, Ripgrep, present
from argosy.bench.search.query_sampler import chosen, sampled
from argosy.bench.search.zoekt import Zoekt
from argosy.search.index.index import Index
from argosy.search.index.sections import memory_bytes, section_bytes
from argosy.search.skip_policy import Policy

# Questions that take long, to be told to stop; and those that people ask most, to be asked at once.
HARD: tuple[Kind, ...] = ("common", "short", "regex")
MIXED: tuple[Kind, ...] = ("rare", "identifier", "and", "filter", "zero")

PEERS: Mapping[str, Opener] = {
    "csearch": Csearch.open,
    "rg": Ripgrep.open,
    "git grep": GitGrep.open,
    "zoekt": Zoekt.open,
}
AGREEING = ("rg", "csearch")  # whose files are compared with ours


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    queries: int  # of each class
    identifiers: int  # but of this one, of which a percentile is told: it takes twenty to have a 95th
    rounds: int
    builds: int
    cold_starts: int
    cancellations: int  # of each question and moment
    throughput_s: float


FULL = Plan(queries=10, identifiers=20, rounds=3, builds=3, cold_starts=5, cancellations=5, throughput_s=10.0)
# Within six minutes on two quiet cores.
QUICK = Plan(queries=3, identifiers=20, rounds=2, builds=2, cold_starts=3, cancellations=3, throughput_s=3.0)


async def search(bench: Bench) -> None:
    """Queries by class beside ripgrep, git grep, csearch and zoekt; building, memory, cold start, cancellation."""
    plan = QUICK if bench.is_quick else FULL
    if bench.queries:
        plan = replace(plan, queries=bench.queries, identifiers=bench.queries)
    needs_corpus = bench.wants(*[figure.id for figure in on_a_corpus()])
    if needs_corpus and not bench.corpus and not bench.is_quick:
        raise Invalid("name a large tree with --corpus PATH, or say --quick to search this environment's own packages")
    measure_cold_start(bench, plan)
    if needs_corpus:
        measure_on_a_corpus(bench, plan)


def measure_on_a_corpus(bench: Bench, plan: Plan) -> None:
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as scratch, ExitStack() as closing:
        bench.say("setting out the corpus")
        corpus = set_out_for(bench, Path(scratch) / "corpus")
        index, symbols_s = measure_memory(bench, corpus)
        engine = Engine(index, cores())
        closing.callback(engine.close)
        bench.say("the peers' own indexes")
        peers, absent = present(PEERS, corpus.folder, Path(scratch))
        for peer in peers:
            closing.callback(peer.close)
        record_background(bench, corpus, peers, absent)
        record_memory(bench, corpus, engine, peers)
        measure_building(bench, plan, corpus, symbols_s, peers)
        asks = questions(bench, plan, engine, corpus)
        if bench.wants(figures.AGREEMENT.id):
            measure_agreement(bench, engine, peers, asks)
        measure_contest(bench, plan, engine, peers, asks)
        measure_serving(bench, plan, engine, asks)


def on_a_corpus() -> Sequence[Figure]:
    """Every figure that needs one, whoever is here."""
    return figures.on_a_corpus(list(PEERS), cores())


def cores() -> int:
    return int(machine.describe()["cores"] or 1)


def measure_cold_start(bench: Bench, plan: Plan) -> None:
    if not bench.wants(figures.COLD.id, figures.COLD_CPU.id):
        return
    bench.say("cold start")
    try:
        with tempfile.TemporaryDirectory(prefix="argosy-bench-") as bytecode:
            server_measures.cold_start(Path(bytecode))  # the first of all compiles, and keeps what it has compiled
            spent = [server_measures.cold_start(Path(bytecode)) for _ in range(plan.cold_starts)]
    except ArgosyError as error:
        bench.give_up((figures.COLD, figures.COLD_CPU), error)
        return
    bench.record(figures.COLD, [each.wall_s for each in spent])
    bench.record(figures.COLD_CPU, [each.cpu_s for each in spent])


def set_out_for(bench: Bench, folder: Path) -> Corpus:
    roots = named(bench.corpus) if bench.corpus else own_environment()
    name = next(iter(roots.values())).name if bench.corpus else "this Python's library and packages"
    return set_out(name, roots, folder, Policy())


def measure_memory(bench: Bench, corpus: Corpus) -> tuple[Index, list[float]]:
    """Builds the index that is asked from here on; tells what it takes, and the CPU seconds of building with symbols.

    What the first build of all leaves behind (compiled patterns, the interpreter's pools) is no part of an index, so
    growth is told of the second.
    """
    bench.say("building the index")
    builds_s = []
    if bench.wants(figures.ACCOUNT.id, figures.BUILD_SYMBOLS.id):
        builds_s.append(index_build.made(corpus.folder, with_symbols=True).index_cpu_s)
    before = index_build.private_bytes()
    making = index_build.made(corpus.folder, with_symbols=True)
    builds_s.append(making.index_cpu_s)
    after = index_build.private_bytes()
    account, growth = memory_bytes(making.index), None if before is None or after is None else after - before
    bench.details["memory"] = {
        "memory_bytes": account,
        "process_growth_bytes": growth,
        "sections": section_bytes(making.index),
    }
    if growth is None:
        bench.give_up([figures.ACCOUNT], Unavailable("this system does not tell what a process takes: use Linux"))
    else:
        bench.record(figures.ACCOUNT, [abs(growth - account) / account * 100])
    return making.index, builds_s


def record_memory(bench: Bench, corpus: Corpus, engine: Engine, peers: Sequence[Peer]) -> None:
    """Beside zoekt's shards, which hold the text as our index does; csearch's index does without."""
    built = {peer.name: peer.built for peer in peers if peer.built}
    shards = {name: [each.index_bytes / corpus.text_bytes] for name, each in built.items() if name == "zoekt"}
    bench.record(figures.MEMORY, [memory_bytes(engine.index) / corpus.text_bytes], shards)


def measure_building(
    bench: Bench, plan: Plan, corpus: Corpus, symbols_s: Sequence[float], peers: Sequence[Peer]
) -> None:
    """Without symbols; those with symbols have been built already, in so many seconds each."""
    megabytes = corpus.text_bytes / 1e6
    bench.record(figures.BUILD_SYMBOLS, [megabytes / each for each in symbols_s])
    own = (figures.BUILD, figures.BUILD_READ, figures.BUILD_ALL, figures.BUILD_TIMES_ZOEKT)
    if not bench.wants(*[figure.id for figure in own]):
        return
    index, read, whole = [], [], []
    for turn in range(plan.builds):
        bench.say(f"building, {turn + 1} of {plan.builds}")
        making = index_build.made(corpus.folder, with_symbols=False)
        index.append(megabytes / making.index_cpu_s)
        read.append(megabytes / making.read_cpu_s)
        whole.append(megabytes / making.whole.cpu_s)
    rates = {peer.name: [megabytes / peer.built.spent.cpu_s] for peer in peers if peer.built}
    bench.record(figures.BUILD, index)
    bench.record(figures.BUILD_READ, read)
    bench.record(figures.BUILD_ALL, whole, rates)
    if "zoekt" in rates:
        bench.record(figures.BUILD_TIMES_ZOEKT, [each / rates["zoekt"][0] for each in whole])


def questions(bench: Bench, plan: Plan, engine: Engine, corpus: Corpus) -> dict[Kind, list[Ask]]:
    """Those of every class, each checked to be one."""
    bench.say("choosing the questions")
    sample = sampled(engine.index)

    def files_of(ask: Ask) -> int:
        return engine.answer(ask, OPTIONS["count"]).stats.files

    asks: dict[Kind, list[Ask]] = {}
    for kind in KINDS:
        wanted = plan.identifiers if kind == "identifier" else plan.queries
        asks[kind] = chosen(kind, wanted, sample, files_of, corpus.files)
        if len(asks[kind]) < wanted:
            bench.notes.append(f"class {kind}: this corpus has {len(asks[kind])} of {wanted} questions")
    bench.details["queries"] = [
        {"class": kind, "query": ask.text, "files": stats.files, "matches": stats.matches}
        for kind, found in asks.items()
        for ask in found
        for stats in [engine.answer(ask, OPTIONS["count"]).stats]
    ]
    return asks


def measure_agreement(bench: Bench, engine: Engine, peers: Sequence[Peer], asks: Mapping[Kind, list[Ask]]) -> None:
    bench.say("comparing files")
    asked = [peer for peer in peers if peer.name in AGREEING]
    found = agreement.compared(engine, asked, (ask for each in asks.values() for ask in each))
    for name, count in found.compared.items():
        differing = found.of(name)
        bench.notes.append(f"{name}: the same files as ours for {count - len(differing)} of {count} queries")
        bench.notes += [f"  {each.as_text()}" for each in differing]
    bench.details["agreement"] = found.as_json()
    if "rg" in found.compared:
        bench.record(figures.AGREEMENT, [len(found.of("rg"))])


def measure_contest(
    bench: Bench, plan: Plan, engine: Engine, peers: Sequence[Peer], asks: Mapping[Kind, list[Ask]]
) -> None:
    names = [peer.name for peer in peers]
    forms = [form for form in FORMS if bench.wants(*[each.id for each in figures.of_the_contest(form, names)])]
    contest = Contest({kind: asks[kind] if _wants_class(bench, kind, names) else [] for kind in KINDS}, engine.cores)
    contenders: dict[str, Contender] = {OURS: engine, **{peer.name: peer for peer in peers}}
    for turn in range(plan.rounds):
        for form in forms:
            contest.round(form, contenders, partial(_say_turn, bench, f"round {turn + 1} of {plan.rounds}"))
    record_latencies(bench, contest, names)
    record_ratios(bench, contest, names)
    bench.notes += contest.failures
    if forms:
        bench.details["samples"] = contest.raw()


def _wants_class(bench: Bench, kind: Kind, peers: Sequence[str]) -> bool:
    """Whether the questions of this class have to be asked for what was asked for."""
    wanted = [each for form in FORMS for each in figures.of_a_class(form, kind, peers)]
    wanted += [each for form in FORMS for each in figures.of_all_classes(form, peers)]
    return bench.wants(*[each.id for each in wanted])


def _say_turn(bench: Bench, turn: str, text: str) -> None:
    bench.say(f"{turn}, {text}")


def measure_serving(bench: Bench, plan: Plan, engine: Engine, asks: Mapping[Kind, list[Ask]]) -> None:
    if bench.wants(figures.CANCEL.id):
        bench.say("cancelling")
        hard = [ask for kind in HARD for ask in asks[kind]]
        late_ms = server_measures.overshoot_ms(engine, hard, plan.cancellations)
        bench.details["cancellations_ms"] = late_ms
        if late_ms:
            bench.record(figures.CANCEL, [max(late_ms.values())])
        else:
            bench.notes.append("no question took long enough to be cancelled")
    mix = [ask for asked in zip_longest(*(asks[kind] for kind in MIXED)) for ask in asked if ask is not None]
    for callers in sorted({1, engine.cores}):
        figure = figures.throughput(callers)
        if mix and bench.wants(figure.id):
            bench.say(f"{callers} callers at once")
            bench.record(figure, [server_measures.answers_per_s(engine, mix, callers, plan.throughput_s)])
