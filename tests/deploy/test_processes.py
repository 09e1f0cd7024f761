"""Every deployment starts processes with existing settings, existing roles, and time to drain."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.app import SECTIONS
from argosy.base import settings
from argosy.cli.serve import ROLES
from argosy.ownership.settings import OwnershipSettings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "argosy"
TEMPLATES = sorted((CHART / "templates").iterdir())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
DRAIN_S = OwnershipSettings().drain_timeout_s
COMPOSE_VARIABLES = {"ARGOSY_ADMIN_TOKEN"}  # read by compose itself, from its environment


def files() -> list[Path]:
    return [path for path in DEPLOY.rglob("*") if path.is_file()]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(path: Path) -> None:
    known = {each.env for each in settings.describe(SECTIONS)}
    assert set(re.findall(r"\bARGOSY_[A-Z0-9_]+", path.read_text())) - COMPOSE_VARIABLES <= known


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_every_role_that_is_named_exists(path: Path) -> None:
    assert set(re.findall(r"--role\W+(\w+)", path.read_text())) <= set(ROLES)


def test_the_chart_uses_only_values_that_it_has() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def has(path: str) -> bool:
        place: Any = values
        for name in path.split("."):
            if not isinstance(place, dict) or name not in place:
                return False
            place = place[name]
        return True

    used = {path for template in TEMPLATES for path in re.findall(r"\.Values\.([\w.]+)", template.read_text())}
    assert len(used) > 30
    assert [path for path in sorted(used) if not has(path)] == []


def test_the_charts_versions_are_the_programs() -> None:
    from argosy import __version__

    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_a_pod_that_searches_has_time_to_drain() -> None:
    grace = (
        r"terminationGracePeriodSeconds: .*\{\{ ?add \.Values\.search\.drainSeconds 60 ?\}\}|"
        r"terminationGracePeriodSeconds: \{\{ add \.Values\.search\.drainSeconds 60 \}\}"
    )
    for name in ("gateway.yaml", "search.yaml"):
        assert re.search(grace, (CHART / "templates" / name).read_text()), name
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    assert re.search(r"ARGOSY_OWNERSHIP_DRAIN_TIMEOUT_S\n\s+value: \{\{ \.Values\.search\.drainSeconds", helpers)
    assert yaml.safe_load((CHART / "values.yaml").read_text())["search"]["drainSeconds"] == DRAIN_S


def test_an_autoscaler_reads_the_signal_that_is_served() -> None:
    text = (CHART / "templates" / "search.yaml").read_text()
    assert re.search(r"url: http://\S+:\{\{[^}]*\}\}/scale\b|/scale$", text, re.MULTILINE)
    assert "valueLocation: desired_nodes" in text


def test_a_container_that_searches_has_time_to_drain() -> None:
    grace = COMPOSE["services"]["search"]["stop_grace_period"]
    assert int(grace.removesuffix("m")) * 60 > float(COMPOSE["x-settings"]["ARGOSY_OWNERSHIP_DRAIN_TIMEOUT_S"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_ends_with_sigterm_and_has_time_for_it(path: Path) -> None:
    lines = dict(line.split("=", 1) for line in path.read_text().splitlines() if re.match(r"[A-Z]\w+=", line))
    assert lines["KillSignal"] == "SIGTERM"
    is_search = "--role search" in lines["ExecStart"]
    assert float(lines["TimeoutStopSec"]) > (DRAIN_S if is_search else 10)
    # A drained node exits with 0 and must stay away.
    assert lines["Restart"] == ("on-failure" if is_search else "always")


def test_the_image_has_what_a_fleet_needs() -> None:
    text = (DEPLOY / "image" / "Dockerfile").read_text()
    assert re.search(r"install .*\bgit\b", text)
    pinned = (DEPLOY.parent / "requirements" / "run.txt").read_text()
    for package in ("redis", "grpcio", "aiohttp", "numba", "opentelemetry-sdk"):
        assert re.search(rf"^{package}==", pinned, re.MULTILINE), package
    for source in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        assert [name for name in source.split() if not (DEPLOY.parent / name).exists()] == []
