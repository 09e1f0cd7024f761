"""The evaluation: with and without a throttle, alone and shared, and its plot."""

import math
import xml.etree.ElementTree as xml
from dataclasses import replace

import pytest

from argosy.base.errors import Invalid
from argosy.sim.throttle_eval import NONE, EvalReport, Setup, converge, evaluate, run_once, setups
from argosy.sim.throttle_load import SCENARIOS, arrivals
from argosy.sim.throttle_plot import PICTURES
from argosy.throttle import ThrottleSettings

SHORT = replace(SCENARIOS["noisy"], duration_s=40)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report() -> EvalReport:
    return evaluate([SHORT], seeds=1, instances=[1, 4])


def test_every_setup_is_reported_once(report: EvalReport) -> None:
    assert [each.setup for each in report.evaluations] == list(setups([1, 4]))
    assert [setup.name for setup in setups([1, 4])] == [
        "none",
        "standard",
        "strict",
        "standard, 4 alone",
        "standard, 4 sharing",
    ]


def test_the_throttle_is_fairer_than_none_and_sharing_is_fairer_still(report: EvalReport) -> None:
    jains = {each.setup.name: each.jain for each in report.evaluations}
    assert jains["none"] < jains["standard, 4 alone"] < jains["standard"]
    assert jains["standard, 4 sharing"] == pytest.approx(jains["standard"], abs=0.05)
    assert all(each.figures["utilisation"].mean > 0.98 for each in report.evaluations)


def test_figures_of_the_original_are_reproduced() -> None:
    """The evaluator of the original gives 0.2184 without and 0.6673 with, and 0.994 for the surge; seeds differ."""
    noisy, surge = SCENARIOS["noisy"], SCENARIOS["surge"]
    requests = arrivals(noisy, noisy.seed)
    assert run_once(noisy, requests, Setup(NONE), noisy.seed).entitlement_jain == pytest.approx(0.2184, abs=0.01)
    assert run_once(noisy, requests, Setup("standard"), noisy.seed).entitlement_jain == pytest.approx(0.66, abs=0.03)
    drowned = run_once(surge, arrivals(surge, surge.seed), Setup("standard"), surge.seed)
    assert drowned.entitlement_jain == pytest.approx(0.9944, abs=0.005)


def test_the_same_run_gives_the_same_bytes_in_other_processes_too(report: EvalReport) -> None:
    assert evaluate([SHORT], seeds=1, instances=[1, 4], jobs=2).to_json() == report.to_json()


def test_progress_ends_at_one() -> None:
    lines: list[tuple[float, str]] = []
    short = replace(SHORT, duration_s=2)
    evaluate([short], seeds=1, instances=[1], progress=lambda part, text: lines.append((part, text)))
    assert lines[-1][0] == pytest.approx(1.0)
    assert [text for _, text in lines] == ["noisy: none", "noisy: standard", "noisy: strict"]


@pytest.mark.parametrize(("seeds", "instances"), [(0, [1]), (1, [0]), (1, [1, 1_000_000]), (5000, [1])])
def test_invalid_parameters_are_rejected(seeds: int, instances: list[int]) -> None:
    with pytest.raises(Invalid, match="must be 1 to 1000"):
        evaluate([SHORT], seeds=seeds, instances=instances)


def test_instances_agree_within_a_flush_and_a_poll() -> None:
    found = converge(8, settings=ThrottleSettings(flush_s=0.25, poll_s=1.0))
    assert found.equal_after_s is not None
    assert found.equal_after_s <= 0.25 * 1.1 + 1.0 * 1.1 + 0.1
    assert found.spreads[0][1] > 0.01  # they were not equal to begin with


def test_pictures_are_drawn_within_their_frames(report: EvalReport) -> None:
    for name, draw in PICTURES.items():
        picture = xml.fromstring(draw(report))
        width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
        points = [
            tuple(map(float, point.split(",")))
            for line in picture.iter(f"{SVG}polyline")
            for point in line.attrib["points"].split()
        ]
        drawn = [bar.attrib for bar in picture.iter(f"{SVG}rect") if "x" in bar.attrib]
        bars = [(float(bar["x"]), float(bar["y"])) for bar in drawn]
        assert points or bars, name
        assert all(0 <= x <= width and 0 <= y <= height for x, y in (*points, *bars)), name
        assert all(math.isfinite(x + y) for x, y in (*points, *bars)), name


def test_a_plot_has_titles_and_labels(report: EvalReport) -> None:
    texts = {name: draw(report) for name, draw in PICTURES.items()}
    assert f"Jain {report.evaluations[0].jain:.3f} without" in texts["throttle-allocation.svg"]
    assert "noisy: sharing (left) and alone" in texts["throttle-jain.svg"]
    assert "All buckets of 16 instances equal after" in texts["throttle-convergence.svg"]
