"""Import lists: one address per line, or a JSON array. A list is imported whole or not at all."""

import json
from typing import Any

from argosy.base.errors import Invalid
from argosy.search.catalog.addresses import address_of
from argosy.search.fleet.model import RepoSpec

REPOSITORIES_MAX = 100_000  # in one list
PROBLEMS_SHOWN_MAX = 20
_KEYS = {"url": str, "name": str, "branches": list, "is_pinned": bool, "replicas": int}


def read_list(text: str) -> list[RepoSpec]:
    """The specs in the order of the list; one Invalid with all problems."""
    rows = _objects(text) if text.lstrip().startswith("[") else _lines(text)
    if len(rows) > REPOSITORIES_MAX:
        raise Invalid(f"import list too long: {len(rows)} repositories, limit {REPOSITORIES_MAX}; split it")
    specs, problems = [], []
    for where, row in rows:
        try:
            specs.append(_spec(row))
        except Invalid as why:
            problems.append(f"{where}: {why}")
    # All problems at once, so that a list is corrected in one round.
    problems += _duplicates(specs)
    if problems:
        shown = problems[:PROBLEMS_SHOWN_MAX]
        more = [f"and {len(problems) - len(shown)} more"] if len(problems) > len(shown) else []
        raise Invalid("\n  ".join(["import failed, nothing was added:", *shown, *more]))
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
        entries = json.loads(text)
    except ValueError as why:
        raise Invalid(f"not a JSON array: {why}; write one, or one address per line") from why
    return [(f"entry {number}", row) for number, row in enumerate(entries, start=1)]


def _spec(row: Any) -> RepoSpec:
    if not isinstance(row, dict) or not isinstance(row.get("url"), str):
        raise Invalid(f"not an object with a url: {row!r:.80}")
    for key, value in row.items():
        if not isinstance(value, _KEYS.get(key, ())):
            known = ", ".join(_KEYS)
            raise Invalid(f"invalid {key!r}: {value!r:.60}; known keys: {known}")
    branches = row.get("branches", [])
    if not all(isinstance(branch, str) for branch in branches):
        raise Invalid(f"branches must be names: {branches!r:.80}")
    address = address_of(row["url"], allow_local=True)
    return RepoSpec(
        name=row.get("name") or address.name,
        url=address.url,
        branches=tuple(branches),
        is_pinned=row.get("is_pinned", False),
        replicas=row.get("replicas", 0),
    )


def _duplicates(specs: list[RepoSpec]) -> list[str]:
    seen: dict[str, RepoSpec] = {}
    problems = []
    for spec in specs:
        first = seen.setdefault(spec.name, spec)
        if first is not spec:
            problems.append(f"duplicate name {spec.name!r}: {first.url} and {spec.url}; set a name for one")
    return problems
