"""A treemap fills its box, in proportion, without overlaps."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.gateway.ui.fleet import TreemapBox, treemap

BOX = TreemapBox(0.0, 0.0, 440.0, 130.0)


@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=40))
def test_areas_are_in_proportion_and_inside_the_box(weights: list[float]) -> None:
    boxes = treemap(weights, BOX)
    scale = BOX.width * BOX.height / sum(weights)
    for weight, box in zip(weights, boxes, strict=True):
        assert box.width * box.height == pytest.approx(weight * scale, rel=1e-6)
        assert box.x >= -1e-6
        assert box.y >= -1e-6
        assert box.x + box.width <= BOX.width + 1e-6
        assert box.y + box.height <= BOX.height + 1e-6


@given(st.lists(st.floats(1.0, 1e4), min_size=2, max_size=15))
def test_no_two_overlap(weights: list[float]) -> None:
    for one, two in combinations(treemap(weights, BOX), 2):
        wide = min(one.x + one.width, two.x + two.width) - max(one.x, two.x)
        high = min(one.y + one.height, two.y + two.height) - max(one.y, two.y)
        assert wide <= 1e-6 or high <= 1e-6


def test_equal_weights_are_nearly_square() -> None:
    boxes = treemap([1.0] * 12, TreemapBox(0, 0, 400, 300))
    assert max(max(box.width / box.height, box.height / box.width) for box in boxes) < 1.5


def test_nothing_needs_no_room() -> None:
    assert treemap([], BOX) == []
