"""A small writer of charts as SVG: enough for a few honest figures, and no library to install.

A `Panel` is one chart with axes; its methods draw in the chart's own units.
"""

from collections.abc import Sequence
from html import escape
from math import floor, log10
from typing import Protocol

INK, FAINT, PAPER = "#1f2933", "#d9dee4", "#ffffff"
COLOURS = ("#2463a6", "#d9822b", "#2f855a", "#b83280")
FONT = "font-family='system-ui, sans-serif'"
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 40, 46  # room inside a panel for title, ticks and axis names


def ticks(high: float, about: int = 5) -> list[float]:
    """Round numbers from 0 up to at least `high`, roughly `about` of them."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / about
    magnitude = 10.0 ** floor(log10(raw))
    # 0.999, so that rounding does not select the next larger step.
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * 0.999)
    count = int(-(-high // step))
    return [round(i * step, 10) for i in range(max(1, count) + 1)]


def label(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


class Panel:
    """A chart at (x, y) of the sheet, whose axes run from 0 to `x_high` and `y_high`."""

    def __init__(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        title: str,
        x_name: str,
        y_name: str,
        x_high: float,
        y_high: float,
        x_labels: Sequence[str] | None = None,
    ) -> None:
        self._left, self._top = x + LEFT, y + TOP
        self._width, self._height = width - LEFT - RIGHT, height - TOP - BOTTOM
        self._x_ticks = ticks(x_high) if x_labels is None else [float(len(x_labels))]
        self._y_ticks = ticks(y_high)
        self.parts: list[str] = []
        self._text(x + LEFT, y + 22, title, size=14, weight=600)
        self._axes(x_name, y_name, x_labels)

    def line(self, points: Sequence[tuple[float, float]], colour: str, name: str, *, row: int) -> None:
        """A line held level from each point to the next; its name goes into row `row` of the legend."""
        path: list[str] = []
        for i, (x, y) in enumerate(points):
            if i:
                path.append(f"{self._x(x):.1f},{self._y(points[i - 1][1]):.1f}")
            path.append(f"{self._x(x):.1f},{self._y(y):.1f}")
        self.parts.append(f"<polyline points='{' '.join(path)}' fill='none' stroke='{colour}' stroke-width='2'/>")
        at_y = self._top + self._height - 32 + 18 * row
        at_x = self._left + self._width - 110
        self.parts.append(
            f"<line x1='{at_x}' y1='{at_y}' x2='{at_x + 18}' y2='{at_y}' stroke='{colour}' stroke-width='3'/>"
        )
        self._text(at_x + 24, at_y + 4, name)

    def bar(self, low: float, high: float, value: float, colour: str, note: str = "") -> None:
        """A bar from `low` to `high` along the x axis."""
        x, y = self._x(low), self._y(value)
        width = max(1.0, self._x(high) - x - 1)
        self.parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{self._y(0) - y:.1f}' fill='{colour}'/>"
        )
        if note:
            self._text(x + width / 2, y - 5, note, anchor="middle")

    def rule(self, value: float, colour: str, name: str) -> None:
        """A dashed level across the chart."""
        y = self._y(value)
        x2 = self._left + self._width
        self.parts.append(
            f"<line x1='{self._left}' y1='{y:.1f}' x2='{x2}' y2='{y:.1f}' stroke='{colour}' stroke-dasharray='6 4'/>"
        )
        self._text(x2, y - 5, name, anchor="end")

    def note(self, text: str) -> None:
        """Words in the middle, for a chart with nothing to show."""
        self._text(self._left + self._width / 2, self._top + self._height / 2, text, anchor="middle", size=13)

    def _axes(self, x_name: str, y_name: str, x_labels: Sequence[str] | None) -> None:
        right, floor_y = self._left + self._width, self._top + self._height
        for value in self._y_ticks:
            y = self._y(value)
            self.parts.append(f"<line x1='{self._left}' y1='{y:.1f}' x2='{right}' y2='{y:.1f}' stroke='{FAINT}'/>")
            self._text(self._left - 6, y + 4, label(value), anchor="end")
        if x_labels is None:
            for value in self._x_ticks:
                self._text(self._x(value), floor_y + 16, label(value), anchor="middle")
        else:
            for i, text in enumerate(x_labels):
                self._text(self._x(i + 0.5), floor_y + 16, text, anchor="middle")
        self.parts.append(f"<path d='M{self._left} {self._top}V{floor_y}H{right}' fill='none' stroke='{INK}'/>")
        self._text(self._left + self._width / 2, floor_y + 36, x_name, anchor="middle")
        x, y = self._left - 48, self._top + self._height / 2
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' transform='rotate(-90 {x:.1f} {y:.1f})' text-anchor='middle' "
            f"font-size='11' fill='{INK}' {FONT}>{escape(y_name)}</text>"
        )

    def _x(self, value: float) -> float:
        return self._left + self._width * value / self._x_ticks[-1]

    def _y(self, value: float) -> float:
        return self._top + self._height * (1 - value / self._y_ticks[-1])

    def _text(self, x: float, y: float, text: str, *, anchor: str = "start", size: int = 11, weight: int = 400) -> None:
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' font-weight='{weight}' "
            f"fill='{INK}' {FONT}>{escape(text)}</text>"
        )


class Drawn(Protocol):
    """Elements of a picture, ready to be put on a sheet."""

    parts: list[str]


def sheet(width: int, height: int, title: str, subtitle: str, panels: Sequence[Drawn]) -> str:
    """The whole picture."""
    body = "\n".join(part for panel in panels for part in panel.parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"role='img' aria-label='{escape(title, quote=True)}'>\n"
        f"<rect width='100%' height='100%' fill='{PAPER}'/>\n"
        f"<text x='24' y='34' font-size='20' font-weight='600' fill='{INK}' {FONT}>{escape(title)}</text>\n"
        f"<text x='24' y='56' font-size='12' fill='{INK}' {FONT}>{escape(subtitle)}</text>\n{body}\n</svg>\n"
    )
