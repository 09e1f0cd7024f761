"""Draws a fleet report: repos over time, failover times, memory per node, auctions by how they ended."""

from argosy.sim.report import FleetReport
from argosy.sim.svg import COLOURS, Panel, sheet

WIDTH, HEIGHT = 1120, 800
PANEL_WIDTH, PANEL_HEIGHT = 540, 350
BINS = 20  # of the histogram
NODE_NAMES_MAX = 10  # more names than that would overlap


def draw_fleet(report: FleetReport) -> str:
    """The report as one SVG picture."""
    plan = report.plan
    subtitle = (
        f"seed {plan.seed} · TTL {plan.ttl_s:g} s · window {plan.window_s:g} s · max bids {plan.max_bids or 'live'} · "
        f"{plan.kill} killed · {report.store_calls_per_node_s:.2f} store calls per node and second"
    )
    panels = [_draw_owned(report), _draw_failover(report), _draw_memory(report), _draw_auctions(report)]
    return sheet(WIDTH, HEIGHT, f"{plan.repos} repos on {plan.nodes} nodes", subtitle, panels)


def _draw_owned(report: FleetReport) -> Panel:
    panel = Panel(
        10,
        70,
        PANEL_WIDTH,
        PANEL_HEIGHT,
        title="Repos owned and ready",
        x_name="time (s)",
        y_name="repos",
        x_high=report.duration_s,
        y_high=report.plan.repos,
    )
    owned = [(at, float(owned)) for at, owned, _ in report.owned]
    ready = [(at, float(ready)) for at, _, ready in report.owned]
    panel.line(owned, COLOURS[0], "owned", row=0)
    panel.line(ready, COLOURS[1], "ready", row=1)
    return panel


def _draw_failover(report: FleetReport) -> Panel:
    times = report.failover.times_s
    high = max(times, default=0.0)
    counts = [0] * BINS
    for t in times:
        counts[min(BINS - 1, int(t / high * BINS)) if high else 0] += 1
    p50, p95 = report.failover.p50_s, report.failover.p95_s
    title = f"Failover: p50 {p50:.1f} s, p95 {p95:.1f} s" if p50 is not None and p95 is not None else "Failover"
    panel = Panel(
        570,
        70,
        PANEL_WIDTH,
        PANEL_HEIGHT,
        title=title,
        x_name="from a node's death to served again (s)",
        y_name="repos",
        x_high=high,
        y_high=max(counts),
    )
    for i, count in enumerate(counts):
        if count:
            panel.bar(high * i / BINS, high * (i + 1) / BINS, count, COLOURS[0])
    if not times:
        panel.note("no node was killed, or none of its repos came back")
    return panel


def _draw_memory(report: FleetReport) -> Panel:
    held = report.memory.held_mib
    names = list(held) if len(held) <= NODE_NAMES_MAX else [""] * len(held)
    panel = Panel(
        10,
        430,
        PANEL_WIDTH,
        PANEL_HEIGHT,
        title=f"Memory at the end: variation {report.memory.variation:.1%}",
        x_name="node",
        y_name="held (MiB)",
        x_high=len(held),
        x_labels=names,
        y_high=max(report.memory.node_budget_mib, *held.values(), 1.0),
    )
    for i, size in enumerate(held.values()):
        panel.bar(i + 0.1, i + 0.9, size, COLOURS[2])
    panel.rule(report.memory.node_budget_mib, COLOURS[3], "budget")
    return panel


def _draw_auctions(report: FleetReport) -> Panel:
    figures = report.auctions
    kinds = {
        "started": figures.started,
        "short-circuited": figures.short_circuited,
        "timed out": figures.timed_out,
        "no winner": figures.no_winner,
    }
    panel = Panel(
        570,
        430,
        PANEL_WIDTH,
        PANEL_HEIGHT,
        title=f"Auctions ({figures.bids:,} bids)",
        x_name="how they ended",
        y_name="auctions",
        x_high=len(kinds),
        x_labels=list(kinds),
        y_high=max(kinds.values()),
    )
    for i, (count, colour) in enumerate(zip(kinds.values(), COLOURS, strict=True)):
        panel.bar(i + 0.2, i + 0.8, count, colour, note=f"{count:,}")
    return panel
