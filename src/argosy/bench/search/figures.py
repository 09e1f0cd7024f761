"""What is measured, and what should come out."""

from collections.abc import Sequence

from argosy.bench.harness import Figure
from argosy.bench.search.bench_query import FORMS, KINDS, Form, Kind
from argosy.bench.search.contest import MEASURES, Measure

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

# How many times more the median question of a class costs a peer than us.
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
    """On the question where the peer does best. We are never to be slower than ripgrep."""
    return Figure(f"least_times.{peer}.{form}.{measure}", "x", "higher", goal=1 if peer == "rg" else None)


def identifier_p95(form: Form) -> Figure:
    return Figure(f"p95.identifier.{form}", "ms", "lower", goal=IDENTIFIER_P95_MS)


def of_the_contest(form: Form, peers: Sequence[str]) -> list[Figure]:
    """Everything that comes out of asking everybody in this form."""
    return [
        *(figure for kind in KINDS for figure in of_a_class(form, kind, peers)),
        *of_all_classes(form, peers),
    ]


def of_a_class(form: Form, kind: Kind, peers: Sequence[str]) -> list[Figure]:
    """What comes out of the questions of one class. Ratios are of counting, the same work for all."""
    asked = [peer for peer, each in TIMES if each == kind and peer in peers and form == "count"]
    return [
        *(latency(form, kind, measure) for measure in MEASURES),
        *(times(peer, kind, measure) for peer in asked for measure in MEASURES),
        *([identifier_p95(form)] if kind == "identifier" else []),
    ]


def of_all_classes(form: Form, peers: Sequence[str]) -> list[Figure]:
    return [least_times(peer, form, measure) for peer in peers for measure in MEASURES]


def on_a_corpus(peers: Sequence[str], cores: int) -> list[Figure]:
    """Everything that needs text to search."""
    return [
        *(BUILD, BUILD_SYMBOLS, BUILD_READ, BUILD_ALL, BUILD_TIMES_ZOEKT, MEMORY, ACCOUNT, CANCEL, AGREEMENT),
        *(throughput(callers) for callers in {1, cores}),
        *(figure for form in FORMS for figure in of_the_contest(form, peers)),
    ]
