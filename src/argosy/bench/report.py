"""A finished bench: one JSON object for machines; for people a table with ratios."""

from collections.abc import Sequence
from typing import Any

from argosy.bench.harness import Bench, Result

DIGITS = 4  # figures move by several per cent between runs; more digits would pretend


def as_json(name: str, machine: dict[str, Any], commit: str, results: Sequence[Result]) -> dict[str, Any]:
    """The object `argosy bench NAME --json` prints."""
    return {"bench": name, "machine": machine, "commit": commit, "results": [_result(each) for each in results]}


def with_background(told: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """The same with what the bench has to say besides its figures, if it has anything."""
    background = {"notes": bench.notes, "details": bench.details}
    return {**told, **{name: value for name, value in background.items() if value}}


def _result(result: Result) -> dict[str, Any]:
    figure = result.figure
    told: dict[str, Any] = {
        "id": figure.id,
        "value": rounded(result.value),
        "unit": figure.unit,
        "better": figure.better,
        "goal": figure.goal,
        "ok": result.is_ok,
        "peers": {name: rounded(value) for name, value in result.peers.items()},
        "command": result.command,
        "spread": None if result.spread is None else [rounded(end) for end in result.spread],
    }
    return told if result.error is None else {**told, "error": result.error}


COLUMNS = ("figure", "value", "unit", "spread", "goal", "ok", "peers")


def as_rows(results: Sequence[Result]) -> list[tuple[object, ...]]:
    """A row per figure. A peer's ratio says how many times better (or, below 1, worse) we are."""
    return [
        (
            result.figure.id,
            rounded(result.value),
            result.figure.unit,
            _spread(result),
            _goal(result),
            result.is_ok,
            result.error or ", ".join(_peer(result, name, value) for name, value in result.peers.items()),
        )
        for result in results
    ]


def _spread(result: Result) -> str:
    return "" if result.spread is None else f"{rounded(result.spread[0]):,} .. {rounded(result.spread[1]):,}"


def _goal(result: Result) -> str:
    goal = result.figure.goal
    if goal is None:
        return ""
    return f"{'<=' if result.figure.better == 'lower' else '>='} {goal:,}"


def _peer(result: Result, name: str, value: float) -> str:
    assert result.value is not None
    times = ratio(result.value, value, result.figure.better)
    return f"{name} {rounded(value):,} ({'-' if times is None else f'{times:.2g}x'})"


def ratio(own: float, peer: float, better: str) -> float | None:
    """How many times better than the peer; None where one of them is zero."""
    if not own or not peer:
        return None
    return peer / own if better == "lower" else own / peer


def rounded(value: float | None) -> float | int | None:
    """To a few significant digits; whole numbers stay whole."""
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) >= 1000 else short
