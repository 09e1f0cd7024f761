"""Figures of the search benchmark, and their goals."""

from collections.abc import Sequence

from argosy.bench.harness import Figure
from argosy.bench.search.bench_query import FORMS, KINDS, MEASURES, Form, Kind, Measure

# CPU seconds of one thread; megabytes are millions of bytes of text.
BUILD = Figure("build.index", "MB/s per core", "higher", goal=60)
BUILD_SYMBOLS = Figure("build.index_symbols", "MB/s per core", "higher", goal=15)
BUILD_READ = Figure("build.read", "MB/s per core", "higher")
BUILD_ALL = Figure("build.read_and_index", "MB/s per core", "higher")

MEMORY = Figure("memory.ratio", "x corpus", "lower", goal=1.4)
ACCOUNT = Figure("memory.accounting_error", "%", "lower", goal=2)

COLD = Figure("cold.first_answer", "s", "lower", goal=1.5)
COLD_CPU = Figure("cold.first_answer_cpu", "s", "lower")
CANCEL = Figure("cancel.overshoot", "ms", "lower", goal=20)
AGREEMENT = Figure("files.differing_from_rg", "queries", "lower", goal=0)

# How many times more the median query of a class costs a peer than Argosy.
TIMES: dict[tuple[str, Kind], float] = {
    ("csearch", "rare"): 30,
    ("csearch", "zero"): 30,
    ("csearch", "identifier"): 20,
    ("csearch", "regex"): 5,
    ("rg", "rare"): 100,
    ("rg", "zero"): 100,
    ("rg", "identifier"): 40,
    **{("zoekt", kind): 1.0 for kind in KINDS},
}
BUILD_TIMES_ZOEKT = Figure("times.zoekt.build", "x", "higher", goal=2)
IDENTIFIER_P95_MS = 20.0  # on a gigabyte of text and two cores


def throughput(callers: int) -> Figure:
    return Figure(f"throughput.callers_{callers}", "queries/s", "higher")


def latency(form: Form, kind: Kind, measure: Measure) -> Figure:
    """The median of a class; `cpu` with one thread, `wall` with all cores."""
    return Figure(f"{form}.{kind}.{measure}", "ms", "lower")


def times(peer: str, kind: Kind, measure: Measure) -> Figure:
    return Figure(f"times.{peer}.{kind}.{measure}", "x", "higher", goal=TIMES[peer, kind])


def least_times(peer: str, form: Form, measure: Measure) -> Figure:
    """On the query where the peer does best. The goal: no query is slower than ripgrep without an index."""
    return Figure(f"least_times.{peer}.{form}.{measure}", "x", "higher", goal=1 if peer == "rg" else None)


def identifier_p95(form: Form) -> Figure:
    return Figure(f"p95.identifier.{form}", "ms", "lower", goal=IDENTIFIER_P95_MS)


def comparison_figures(form: Form, peers: Sequence[str]) -> list[Figure]:
    """All figures of the comparison in this form."""
    return [
        *(figure for kind in KINDS for figure in class_figures(form, kind, peers)),
        *least_figures(form, peers),
    ]


def class_figures(form: Form, kind: Kind, peers: Sequence[str]) -> list[Figure]:
    """The figures of one class of queries. Ratios are of counting, which is the same work for all."""
    having_goals = [peer for peer, each in TIMES if each == kind and peer in peers and form == "count"]
    return [
        *(latency(form, kind, measure) for measure in MEASURES),
        *(times(peer, kind, measure) for peer in having_goals for measure in MEASURES),
        *([identifier_p95(form)] if kind == "identifier" else []),
    ]


def least_figures(form: Form, peers: Sequence[str]) -> list[Figure]:
    return [least_times(peer, form, measure) for peer in peers for measure in MEASURES]


def corpus_figures(peers: Sequence[str], cores: int) -> list[Figure]:
    """All figures that need a corpus."""
    return [
        *(BUILD, BUILD_SYMBOLS, BUILD_READ, BUILD_ALL, BUILD_TIMES_ZOEKT, MEMORY, ACCOUNT, CANCEL, AGREEMENT),
        *(throughput(callers) for callers in {1, cores}),
        *(figure for form in FORMS for figure in comparison_figures(form, peers)),
    ]
