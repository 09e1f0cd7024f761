"""A finished benchmark as an SVG: how many times better than each peer, one row for each figure.

The scale is logarithmic, because ratios to peers range from one half to thousands and 2x and 0.5x should be equally far
from 1. The thick line is 1: a peer whose dot is to the left of it is better than Argosy. Figures without peers, and
those where one side is zero, are left out.
"""

from collections.abc import Mapping
from html import escape
from math import ceil, floor, log10
from typing import Any

from argosy.bench.report import ratio
from argosy.sim.svg import COLOURS, FAINT, FONT, INK, sheet

WIDTH = 820
LABELS = 230  # width of the column with the names of the figures
RIGHT, TOP, ROW, BOTTOM = 60, 112, 22, 44
DOT = 5.5

Rows = list[tuple[str, dict[str, float]]]


def draw_bench(results: Mapping[str, Any], only: str = "") -> str | None:
    """The JSON of a benchmark as an SVG of the figures whose id contains `only`; None if no peer was measured."""
    rows = _rows(results, only)
    if not rows:
        return None
    machine = results["machine"]
    subtitle = f"{machine['cpu']}, {machine['cores']} cores, at {results['commit']}; medians, further right is better"
    chart = _Chart(rows)
    title = f"{results['bench']}: how many times better than its peers"
    return sheet(WIDTH, TOP + ROW * len(rows) + BOTTOM, title, subtitle, [chart])


def _rows(results: Mapping[str, Any], only: str) -> Rows:
    """Every figure that has peers, and the ratio to each of them."""
    rows = []
    for result in results["results"]:
        if result["value"] is None or only not in result["id"]:
            continue
        times = {name: ratio(result["value"], peer, result["better"]) for name, peer in result["peers"].items()}
        dots = {name: each for name, each in times.items() if each is not None and each > 0}
        if dots:
            rows.append((f"{result['id']} ({result['value']:g} {result['unit']})", dots))
    return rows


class _Chart:
    def __init__(self, rows: Rows) -> None:
        self.parts: list[str] = []
        values = [value for _, dots in rows for value in dots.values()]
        self._low = min(0, floor(log10(min(values))))
        self._high = max(1, ceil(log10(max(values))))
        peers = list(dict.fromkeys(name for _, dots in rows for name in dots))
        colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(peers)}
        self._axis(TOP + ROW * len(rows))
        self._legend(colours)
        for number, (label, dots) in enumerate(rows):
            self._row(TOP + ROW * (number + 0.5), label, dots, colours)

    def _x(self, power: float) -> float:
        return LABELS + (WIDTH - LABELS - RIGHT) * (power - self._low) / (self._high - self._low)

    def _axis(self, floor_y: float) -> None:
        for power in range(self._low, self._high + 1):
            x, is_equal = self._x(power), power == 0
            colour, width = (INK, 2) if is_equal else (FAINT, 1)
            self.parts.append(
                f"<line x1='{x:.1f}' y1='{TOP}' x2='{x:.1f}' y2='{floor_y}' stroke='{colour}' stroke-width='{width}'/>"
            )
            self._text(x, floor_y + 18, f"{10.0**power:g}×", anchor="middle")

    def _legend(self, colours: Mapping[str, str]) -> None:
        x = float(LABELS)
        for name, colour in colours.items():
            self.parts.append(f"<circle cx='{x:.1f}' cy='84' r='{DOT}' fill='{colour}'/>")
            self._text(x + 11, 88, name)
            x += 34 + 7 * len(name)

    def _row(self, y: float, label: str, dots: Mapping[str, float], colours: Mapping[str, str]) -> None:
        self._text(LABELS - 12, y + 4, label, anchor="end")
        powers = [log10(value) for value in dots.values()]
        self.parts.append(
            f"<line x1='{self._x(min(0, *powers, 0)):.1f}' y1='{y}' x2='{self._x(max(0, *powers, 0)):.1f}' y2='{y}' "
            f"stroke='{FAINT}' stroke-width='2'/>"
        )
        for name, value in dots.items():
            self.parts.append(
                f"<circle cx='{self._x(log10(value)):.1f}' cy='{y}' r='{DOT}' fill='{colours[name]}'>"
                f"<title>{escape(name)}: {value:.3g}×</title></circle>"
            )

    def _text(self, x: float, y: float, text: str, *, anchor: str = "start") -> None:
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='11' fill='{INK}' {FONT}>"
            f"{escape(text)}</text>"
        )
