"""A finished benchmark as one JSON object for programs, and as a table with ratios for people."""

from collections.abc import Sequence
from typing import Any

from argosy.bench.harness import Bench, FigureResult

DIGITS = 4  # figures vary by several per cent between runs, so more digits would claim a precision that is not there


def to_json(name: str, machine: dict[str, Any], commit: str, results: Sequence[FigureResult]) -> dict[str, Any]:
    """The object that `argosy bench NAME --json` prints."""
    return {"bench": name, "machine": machine, "commit": commit, "results": [_result(each) for each in results]}


def with_background(results: dict[str, Any], bench: Bench) -> dict[str, Any]:
    """The JSON with the notes and details of the benchmark, if it has any."""
    background = {"notes": bench.notes, "details": bench.details}
    return {**results, **{name: value for name, value in background.items() if value}}


def _result(result: FigureResult) -> dict[str, Any]:
    figure = result.figure
    fields: dict[str, Any] = {
        "id": figure.id,
        "value": round_figure(result.value),
        "unit": figure.unit,
        "better": figure.better,
        "goal": figure.goal,
        "ok": result.is_ok,
        "peers": {name: round_figure(value) for name, value in result.peers.items()},
        "command": result.command,
        "spread": None if result.spread is None else [round_figure(end) for end in result.spread],
    }
    return fields if result.error is None else {**fields, "error": result.error}


COLUMNS = ("figure", "value", "unit", "spread", "goal", "ok", "peers")


def to_rows(results: Sequence[FigureResult]) -> list[tuple[object, ...]]:
    """A row per figure. The ratio beside a peer is how many times better Argosy is; below 1 it is worse."""
    return [
        (
            result.figure.id,
            round_figure(result.value),
            result.figure.unit,
            _spread(result),
            _goal(result),
            result.is_ok,
            result.error or ", ".join(_peer(result, name, value) for name, value in result.peers.items()),
        )
        for result in results
    ]


def _spread(result: FigureResult) -> str:
    return "" if result.spread is None else f"{round_figure(result.spread[0]):,} .. {round_figure(result.spread[1]):,}"


def _goal(result: FigureResult) -> str:
    goal = result.figure.goal
    if goal is None:
        return ""
    return f"{'<=' if result.figure.better == 'lower' else '>='} {goal:,}"


def _peer(result: FigureResult, name: str, value: float) -> str:
    assert result.value is not None
    times = ratio(result.value, value, result.figure.better)
    return f"{name} {round_figure(value):,} ({'-' if times is None else f'{times:.2g}x'})"


def ratio(own: float, peer: float, better: str) -> float | None:
    """How many times better than the peer; None if one of them is zero."""
    if not own or not peer:  # a count of errors is often zero, and nothing is a multiple of zero
        return None
    return peer / own if better == "lower" else own / peer


def round_figure(value: float | None) -> float | int | None:
    """The value with a few significant digits; large whole numbers stay whole."""
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) >= 1000 else short
