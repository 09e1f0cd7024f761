"""A treemap: weights become rectangles that fill a box, each as nearly square as its neighbours let it be.

Squarified, after Bruls, Huizing and van Wijk: the heaviest first, laid in strips along the shorter side, and a strip
takes one more for as long as that makes its worst rectangle squarer.
"""

from collections.abc import Sequence
from typing import NamedTuple


class TreemapBox(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def treemap(weights: Sequence[float], box: TreemapBox) -> list[TreemapBox]:
    """One rectangle for each weight, in the same order; areas are in proportion. Weights are above zero."""
    assert all(weight > 0 for weight in weights), weights
    total = sum(weights)
    order = sorted(range(len(weights)), key=lambda number: -weights[number])
    areas = [weights[number] * box.width * box.height / total for number in order] if total else []
    placed: list[TreemapBox] = []
    left, at = box, 0
    while at < len(areas):
        count = _strip(areas, at, min(left.width, left.height))
        strip, left = _laid(areas[at : at + count], left)
        placed += strip
        at += count
    found: list[TreemapBox] = [box] * len(weights)
    for number, place in zip(order, placed, strict=True):
        found[number] = place
    return found


def _strip(areas: Sequence[float], at: int, side: float) -> int:
    """How many of the areas from `at` on the next strip takes."""
    count, total, worst = 1, areas[at], _worst(areas[at], areas[at], areas[at], side)
    while at + count < len(areas):
        total += areas[at + count]
        next_worst = _worst(areas[at], areas[at + count], total, side)
        if next_worst > worst:
            break
        count, worst = count + 1, next_worst
    return count


def _worst(largest: float, smallest: float, total: float, side: float) -> float:
    """The longest shape in a strip of this area along this side, as a ratio."""
    if side <= 0 or smallest <= 0:
        return float("inf")
    return max(side * side * largest / (total * total), total * total / (side * side * smallest))


def _laid(areas: Sequence[float], box: TreemapBox) -> tuple[list[TreemapBox], TreemapBox]:
    """The strip at the box's shorter side, and what is left of the box."""
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
