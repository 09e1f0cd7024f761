"""A squarified treemap (Bruls, Huizing and van Wijk): lays out weights as nearly square rectangles that fill a box.

The largest weights come first, in strips along the shorter side; a strip grows while that improves its worst aspect
ratio.
"""

from collections.abc import Sequence
from typing import NamedTuple


class TreemapBox(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def treemap(weights: Sequence[float], box: TreemapBox) -> list[TreemapBox]:
    """One rectangle per weight, in the same order, with proportional area. Weights must be positive."""
    assert all(weight > 0 for weight in weights), weights
    total = sum(weights)
    order = sorted(range(len(weights)), key=lambda number: -weights[number])
    areas = [weights[number] * box.width * box.height / total for number in order] if total else []
    placed: list[TreemapBox] = []
    left, at = box, 0
    while at < len(areas):
        count = _strip(areas, at, min(left.width, left.height))
        strip, left = _lay_out(areas[at : at + count], left)
        placed += strip
        at += count
    found: list[TreemapBox] = [box] * len(weights)
    for number, place in zip(order, placed, strict=True):
        found[number] = place
    return found


def _strip(areas: Sequence[float], at: int, side: float) -> int:
    """The number of areas in the next strip, starting at `at`."""
    count, total, worst = 1, areas[at], _worst(areas[at], areas[at], areas[at], side)
    while at + count < len(areas):
        total += areas[at + count]
        next_worst = _worst(areas[at], areas[at + count], total, side)
        if next_worst > worst:
            break
        count, worst = count + 1, next_worst
    return count


def _worst(largest: float, smallest: float, total: float, side: float) -> float:
    """The worst aspect ratio in a strip of this total area along this side."""
    if side <= 0 or smallest <= 0:
        return float("inf")
    return max(side * side * largest / (total * total), total * total / (side * side * smallest))


def _lay_out(areas: Sequence[float], box: TreemapBox) -> tuple[list[TreemapBox], TreemapBox]:
    """Lay out a strip along the shorter side; returns its boxes and the rest of the box."""
    total, placed = sum(areas), []
    if box.width >= box.height:
        depth, y = total / box.height if box.height else 0.0, box.y
        for area in areas:
            length = area / depth if depth else 0.0
            placed.append(TreemapBox(box.x, y, depth, length))
            y += length
        return placed, TreemapBox(box.x + depth, box.y, max(0.0, box.width - depth), box.height)
    depth, x = total / box.width, box.x
    for area in areas:
        length = area / depth if depth else 0.0
        placed.append(TreemapBox(x, box.y, length, depth))
        x += length
    return placed, TreemapBox(box.x, box.y + depth, box.width, max(0.0, box.height - depth))
