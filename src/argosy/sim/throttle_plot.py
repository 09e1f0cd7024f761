"""Draws an evaluation: what each client got, fairness by the number of instances, and convergence."""

from math import log10

from argosy.sim.checkers.throttle import EQUAL
from argosy.sim.svg import COLOURS, Panel, sheet
from argosy.sim.throttle_eval import NONE, EvalReport, ScenarioEvaluation, Setup

WIDTH, PANEL_HEIGHT, TOP = 1120, 330, 70
RATIO_MAX = 6.0  # of an allocation: a client that got more is drawn at the edge
GROUP = 0.38  # width of one of two adjacent bars


def draw_allocation(report: EvalReport) -> str:
    """Each client's share of its entitlement, without the throttle and with it: a panel for each scenario."""
    scenarios = _scenarios(report)
    panels = [_allocation(report, name, TOP + row * PANEL_HEIGHT) for row, name in enumerate(scenarios)]
    subtitle = "each client's successes over its max-min fair share; in every class the least served stand to the left"
    return sheet(WIDTH, TOP + PANEL_HEIGHT * len(scenarios), "Who gets how much", subtitle, panels)


def _scenarios(report: EvalReport) -> list[str]:
    return list(dict.fromkeys(each.scenario for each in report.evaluations))


def _allocation(report: EvalReport, name: str, y: float) -> Panel:
    drawn = [
        (colour, found)
        for colour, setup in zip(COLOURS[1::-1], (Setup(NONE), Setup("standard")), strict=True)
        if (found := report.of(name, setup))
    ]
    high = min(RATIO_MAX, max(max(found.ratios) for _, found in drawn))
    title = f"{name}: " + ", ".join(f"Jain {found.jain:.3f} {_with(found)}" for _, found in drawn)
    panel = Panel(
        10,
        y,
        WIDTH - 20,
        PANEL_HEIGHT,
        title=title,
        x_name="client",
        y_name="part of its entitlement",
        x_high=len(drawn[0][1].ratios),
        y_high=high,
    )
    for row, (colour, found) in enumerate(drawn):
        points = [(float(place), min(ratio, high)) for place, ratio in enumerate(_by_class(report, found))]
        panel.line([*points, (float(len(points)), points[-1][1])], colour, _with(found), row=row)
    panel.rule(1.0, COLOURS[2], "")
    return panel


def _with(found: ScenarioEvaluation) -> str:
    return "without" if found.setup.preset == NONE else "with"


def _by_class(report: EvalReport, found: ScenarioEvaluation) -> list[float]:
    """The ratios, sorted within each class, so that one sees a curve and not noise."""
    sorted_ratios, start = [], 0
    for size in report.classes[found.scenario]:
        sorted_ratios += sorted(found.ratios[start : start + size])
        start += size
    return sorted_ratios


def draw_jain(report: EvalReport) -> str:
    """Jain's index by the number of instances, sharing and each for itself: a panel for each scenario."""
    scenarios = _scenarios(report)
    width = WIDTH / len(scenarios)
    panels = [_jain(report, name, width * column, width) for column, name in enumerate(scenarios)]
    subtitle = "entitlement Jain index, mean over seeds; the dashed line is without a throttle"
    return sheet(WIDTH, TOP + PANEL_HEIGHT, "Fairness by the number of instances", subtitle, panels)


def _jain(report: EvalReport, name: str, x: float, width: float) -> Panel:
    counts = sorted({each.setup.instances for each in report.evaluations if each.scenario == name})
    panel = Panel(
        x,
        TOP,
        width,
        PANEL_HEIGHT,
        title=f"{name}: sharing (left) and alone",
        x_name="instances",
        y_name="Jain's index",
        x_high=len(counts),
        x_labels=[str(count) for count in counts],
        y_high=1.0,
    )
    for place, count in enumerate(counts):
        for column, is_shared in enumerate((True, False)):
            found = report.of(name, Setup("standard", count, is_shared=is_shared and count > 1))
            if found is not None:
                low = place + 0.12 + GROUP * column
                panel.bar(low, low + GROUP, found.jain, COLOURS[column], note=f"{found.jain:.2f}")
    without = report.of(name, Setup(NONE))
    if without is not None:
        panel.rule(without.jain, COLOURS[3], "")
    return panel


def draw_convergence(report: EvalReport) -> str:
    """How far apart the instances' buckets are after the last write, by powers of ten."""
    found = report.convergence
    after = "not" if found.equal_after_s is None else f"{found.equal_after_s:.2f} s"
    deepest = -log10(EQUAL)
    # Shifted, because the axes of a panel start at 0.
    points = [(at, deepest + log10(max(width, EQUAL))) for at, width in found.spreads]
    panel = Panel(
        10,
        TOP,
        WIDTH - 20,
        PANEL_HEIGHT,
        title=f"All buckets of {found.instances} instances equal after: {after}",
        x_name="after the last write (s)",
        y_name=f"powers of ten above {EQUAL:g}",
        x_high=points[-1][0],
        y_high=deepest,
    )
    panel.line(points, COLOURS[0], "difference", row=0)
    subtitle = f"greatest difference of any bucket; flush every {found.flush_s:g} s, poll every {found.poll_s:g} s"
    return sheet(WIDTH, TOP + PANEL_HEIGHT, "Convergence", subtitle, [panel])


PICTURES = {
    "throttle-allocation.svg": draw_allocation,
    "throttle-jain.svg": draw_jain,
    "throttle-convergence.svg": draw_convergence,
}
