"""From what everybody's questions cost to figures: medians of classes, ratios, and the worst case."""

from collections.abc import Sequence

from argosy.bench.harness import Bench
from argosy.bench.search import figures
from argosy.bench.search.bench_query import FORMS, KINDS, Form, Kind
from argosy.bench.search.contest import MEASURES, OURS, Contest, Measure, p95


def record_latencies(bench: Bench, contest: Contest, peers: Sequence[str]) -> None:
    for form in FORMS:
        for kind in KINDS:
            for measure in MEASURES:
                _tell_class(bench, contest, form, kind, measure, peers)
        identifiers = contest.per_ask(OURS, form, "wall", "identifier")
        if identifiers:
            bench.record(figures.identifier_p95(form), [p95(list(identifiers.values()))])


def _tell_class(bench: Bench, contest: Contest, form: Form, kind: Kind, measure: Measure, peers: Sequence[str]) -> None:
    ours = contest.per_round(OURS, form, measure, kind)
    if not ours:
        return  # a small corpus may have no question of this class
    theirs = {peer: contest.per_round(peer, form, measure, kind) for peer in peers}
    bench.record(
        figures.latency(form, kind, measure), ours, {name: values for name, values in theirs.items() if values}
    )


def record_ratios(bench: Bench, contest: Contest, peers: Sequence[str]) -> None:
    """By counting, which is the same work for all; and for each peer the question on which it does best."""
    for peer, kind in figures.TIMES:
        for measure in MEASURES:
            times = contest.times(peer, "count", measure, kind) if peer in peers else None
            if times is not None:
                bench.record(figures.times(peer, kind, measure), [times])
    for peer in peers:
        for form in FORMS:
            for measure in MEASURES:
                _tell_least(bench, contest, peer, form, measure)


def _tell_least(bench: Bench, contest: Contest, peer: str, form: Form, measure: Measure) -> None:
    least = contest.least_times(peer, form, measure)
    if least is None:
        return
    times, ask = least
    bench.record(figures.least_times(peer, form, measure), [times])
    if bench.wants(figures.least_times(peer, form, measure).id):
        bench.notes.append(f"{peer} comes closest in {form} {measure} on {ask.text} ({ask.kind}): {times:.3g}x ours")
