"""The alert rules use existing metrics according to their types and labels."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.base import metrics
from argosy.base.metrics import Metric
from argosy.gateway import telemetry as _gateway
from argosy.ownership import telemetry as _ownership
from argosy.search.fleet import telemetry as _search

RULES = Path(__file__).resolve().parents[2] / "deploy" / "alerts" / "argosy.rules.yaml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = [rule for group in GROUPS for rule in group["rules"]]
OF_PROMETHEUS = {"instance", "job", "le"}
PACKAGES = (_gateway, _ownership, _search)


def exposed_metrics() -> dict[str, Metric]:
    """Every name at /metrics."""
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    return {each.name + suffix: each for each in metrics.declared_metrics() for suffix in suffixes[each.kind]}


def metric_names(rule: dict[str, Any]) -> list[str]:
    return re.findall(r"\bargosy_\w+", rule["expr"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_a_rule_names_what_is_measured(rule: dict[str, Any]) -> None:
    assert metric_names(rule)
    assert [name for name in metric_names(rule) if name not in exposed_metrics()] == []


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_a_rule_uses_labels_that_its_metrics_have(rule: dict[str, Any]) -> None:
    had = {label for name in metric_names(rule) for label in exposed_metrics()[name].labels} | OF_PROMETHEUS
    grouped = {each.strip() for inside in re.findall(r"by \(([^)]*)\)", rule["expr"]) for each in inside.split(",")}
    chosen = set(re.findall(r"[{,]\s*(\w+)\s*[=!]~?", rule["expr"]))
    labels = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert grouped | chosen | labels <= had
    if "sum(" in rule["expr"] or "by (" in rule["expr"]:
        assert labels <= grouped, "a label that was summed over is empty"


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_counters_are_queried_by_rate_or_increase(rule: dict[str, Any]) -> None:
    for name in metric_names(rule):
        if exposed_metrics()[name].kind != "gauge":
            assert re.search(rf"(rate|increase)\({name}[^)]*\[\w+\]\)", rule["expr"]), name
    assert rule["expr"].count("(") == rule["expr"].count(")")


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_a_rule_has_a_severity_and_a_remedy(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "action"}
    page = (RULES.parents[2] / "docs" / "operate.md").read_text()
    assert f"`{rule['alert']}`" in page


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_compared_series_have_the_same_labels(rule: dict[str, Any]) -> None:
    """Prometheus matches no pair, silently, if one side was summed over more labels than the other."""
    sides = [side for side in re.split(r" (?:/|>|==) ", rule["expr"]) if "argosy_" in side]
    grouping = [re.findall(r"by \(([^)]*)\)", side) or bool(re.match(r"\w+\(", side)) for side in sides]
    assert all(each == grouping[0] for each in grouping)


def test_the_outcomes_of_queries_are_those_the_gateway_counts() -> None:
    found = [words for rule in ALERTS for words in re.findall(r'outcome=~?"([^"]+)"', rule["expr"])]
    used = {word for words in found for word in words.split("|")}
    source = Path(_gateway.__file__).with_name("service.py").read_text()
    assert used <= {"partial", "unserved", "overloaded"}
    assert all(f'"{word}"' in source for word in used)
