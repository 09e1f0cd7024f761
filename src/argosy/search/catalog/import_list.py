"""A list of repositories as people write it: one address a line, or a JSON array. Read whole before it counts."""

import json
from typing import Any

from argosy.base.errors import Invalid
from argosy.search.catalog.addresses import address_of
from argosy.search.fleet.model import RepoSpec

REPOSITORIES_MAX = 100_000  # in one list
PROBLEMS_TOLD_MAX = 20
_KEYS = {"url": str, "name": str, "branches": list, "is_pinned": bool, "replicas": int}


def read_list(text: str) -> list[RepoSpec]:
    """The wishes in the order written; one Invalid that tells everything wrong with them."""
    rows = _objects(text) if text.lstrip().startswith("[") else _lines(text)
    if len(rows) > REPOSITORIES_MAX:
        raise Invalid(f"a list has at most {REPOSITORIES_MAX} repositories, not {len(rows)}: split it")
    specs, problems = [], []
    for where, row in rows:
        try:
            specs.append(_spec(row))
        except Invalid as why:
            problems.append(f"{where}: {why}")
    problems += _twice(specs)
    if problems:
        told = problems[:PROBLEMS_TOLD_MAX]
        more = [f"and {len(problems) - len(told)} more"] if len(problems) > len(told) else []
        raise Invalid("\n  ".join(["nothing was imported:", *told, *more]))
    return specs


def _lines(text: str) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            rows.append((f"line {number}", {"url": words[0], "branches": words[1:]}))
    return rows


def _objects(text: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        found = json.loads(text)
    except ValueError as why:
        raise Invalid(f"this is no JSON array ({why}): write one, or one address a line") from why
    return [(f"entry {number}", row) for number, row in enumerate(found, start=1)]


def _spec(row: Any) -> RepoSpec:
    if not isinstance(row, dict) or not isinstance(row.get("url"), str):
        raise Invalid(f"an entry is an object with a url, not {row!r:.80}")
    for key, value in row.items():
        if not isinstance(value, _KEYS.get(key, ())):
            known = ", ".join(_KEYS)
            raise Invalid(f"{key!r} is {value!r:.60}: an entry has {known}, each of its kind")
    branches = row.get("branches", [])
    if not all(isinstance(branch, str) for branch in branches):
        raise Invalid(f"branches are names, not {branches!r:.80}")
    address = address_of(row["url"], allow_local=True)
    return RepoSpec(
        name=row.get("name") or address.name,
        url=address.url,
        branches=tuple(branches),
        is_pinned=row.get("is_pinned", False),
        replicas=row.get("replicas", 0),
    )


def _twice(specs: list[RepoSpec]) -> list[str]:
    seen: dict[str, RepoSpec] = {}
    problems = []
    for spec in specs:
        first = seen.setdefault(spec.name, spec)
        if first is not spec:
            problems.append(f"two repositories are called {spec.name!r}: {first.url} and {spec.url}; give one a name")
    return problems
