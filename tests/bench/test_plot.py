"""A benchmark as a picture: where the dots are, and what is left out."""

from typing import Any
from xml.etree import ElementTree

from argosy.bench.plot import draw_bench

SVG = "{http://www.w3.org/2000/svg}"


def results_of(*results: dict[str, Any]) -> dict[str, Any]:
    filled = [{"unit": "ms", "better": "lower", "peers": {}, **result} for result in results]
    return {"bench": "b", "machine": {"cpu": "a <fast> one", "cores": 2}, "commit": "0123abc", "results": filled}


def dots(svg: str | None) -> dict[str, float]:
    """Where each peer's dot is, from left to right, by what it says."""
    assert svg is not None
    circles = ElementTree.fromstring(svg).iter(f"{SVG}circle")
    return {title.text or "": float(each.get("cx") or 0) for each in circles for title in each.iter(f"{SVG}title")}


def test_a_greater_ratio_is_further_right_whichever_direction_is_better() -> None:
    found = dots(
        draw_bench(
            results_of(
                {"id": "latency", "value": 2.0, "peers": {"slow": 200.0, "even": 2.0, "fast": 1.0}},
                {"id": "rate", "value": 100.0, "better": "higher", "peers": {"tenth": 10.0}},
            )
        )
    )
    assert sorted(found, key=lambda name: found[name]) == ["fast: 0.5×", "even: 1×", "tenth: 10×", "slow: 100×"]
    decades = found["slow: 100×"] - found["tenth: 10×"], found["tenth: 10×"] - found["even: 1×"]
    assert round(decades[0]) == round(decades[1])


def test_figures_without_peers_with_zero_or_not_selected_are_left_out() -> None:
    results = (
        {"id": "alone", "value": 1.0},
        {"id": "zero", "value": 0.0, "peers": {"p": 1.0}},
        {"id": "failed", "value": None, "peers": {}},
        {"id": "good", "value": 1.0, "peers": {"p": 3.0}},
    )
    assert list(dots(draw_bench(results_of(*results)))) == ["p: 3×"]
    assert draw_bench(results_of(*results), only="zero") is None
    assert draw_bench(results_of(*results), only="good") == draw_bench(results_of(results[3]))
