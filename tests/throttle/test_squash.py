"""How a fetched value and our own become one."""

import pytest

from argosy.base.errors import Invalid
from argosy.throttle.rows import SQUASHES, squash


@pytest.mark.parametrize(
    ("name", "with_changes", "without"),
    [("rebase", 0.45, 0.4), ("overwrite", 0.4, 0.4), ("max", 0.6, 0.6), ("skip", 0.6, 0.4), ("weighted", 0.5, 0.5)],
)
def test_each_strategy_in_one_line(name: str, with_changes: float, without: float) -> None:
    chosen = squash(name)
    assert chosen(0.6, 0.4, 0.05) == pytest.approx(with_changes)
    assert chosen(0.6, 0.4, 0.0) == pytest.approx(without)
    assert name in SQUASHES


def test_the_weight_is_the_stores_part() -> None:
    assert squash("weighted", weight=0.25)(0.6, 0.4, 0.0) == pytest.approx(0.55)
    assert squash("weighted", weight=1.0)(0.6, 0.4, 0.0) == pytest.approx(0.4)
    with pytest.raises(Invalid, match="0 to 1"):
        squash("weighted", weight=1.5)


def test_the_greater_may_be_the_fetched_one() -> None:
    assert squash("max")(0.4, 0.6, 0.0) == 0.6


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(Invalid, match="rebase, overwrite, max, skip, weighted"):
        squash("min")
