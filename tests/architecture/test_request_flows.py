"""The request flows of ARCHITECTURE.md: every function they list exists, and no flow grows longer unnoticed."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.tree import ROOT, SOURCE, parse

SECTION = re.compile(r"^## Request flows$(.*?)^## ", re.MULTILINE | re.DOTALL)
FLOW = re.compile(r"^\*\*\d\. (.*?)\.\*\*.*?^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Functions and modules on the way at most; two thirds of what they were before modules were merged.
LIMITS = {
    "A repository becomes searchable": (43, 25),
    "A query is answered": (30, 20),
    "A job runs while a node joins": (20, 14),
}


def flows() -> dict[str, list[tuple[str, str]]]:
    """Title to (module, function), in order."""
    section = SECTION.search((ROOT / "ARCHITECTURE.md").read_text())
    assert section
    return {title: list(steps(block)) for title, block in FLOW.findall(section[1])}


def steps(block: str) -> Iterator[tuple[str, str]]:
    for line in block.splitlines():
        module, names = line.split(maxsplit=1)
        yield from ((module, name) for name in names.split(", "))


def defines(module: str, name: str) -> bool:
    scope: ast.AST | None = parse(SOURCE / module) if (SOURCE / module).is_file() else None
    for part in name.split("."):
        scope = (
            next((each for each in ast.iter_child_nodes(scope) if getattr(each, "name", "") == part), None)
            if scope
            else None
        )
    return isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)


def test_there_are_six_flows() -> None:
    assert len(flows()) == 6


@pytest.mark.parametrize("title", flows())
def test_every_function_of_a_flow_exists(title: str) -> None:
    assert [f"{module} {name}" for module, name in flows()[title] if not defines(module, name)] == []


@pytest.mark.parametrize("title", LIMITS)
def test_a_flow_stays_short(title: str) -> None:
    functions_max, modules_max = LIMITS[title]
    visited = set(flows()[title])
    assert len(visited) <= functions_max
    assert len({module for module, _ in visited}) <= modules_max
