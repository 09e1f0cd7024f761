"""Parses serving intervals from node logs, and finds instants at which two nodes served one unit.

A stopped process cannot log that it has stopped, so `serving` and `extended` carry the wall time until which the node
may serve. An interval ends with `stopped`, or at that time, whichever comes first. The time of the line itself proves
nothing: a process may be stopped after it has computed the line's content and before it writes the line.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True)
class Interval:
    node: str
    epoch: int
    start: float
    end: float


@dataclass
class _Open:
    epoch: int
    start: float
    until: float


def intervals(logs: Iterable[Path]) -> dict[str, list[Interval]]:
    """Serving intervals by unit, from the logs of all nodes."""
    spans_by_unit: dict[str, list[Interval]] = defaultdict(list)
    for path in logs:
        serving: dict[str, _Open] = {}
        for line in path.read_text().splitlines():
            if line.startswith("{"):
                _apply_line(json.loads(line), path.stem, serving, spans_by_unit)
        for unit, open_ in serving.items():
            spans_by_unit[unit].append(Interval(path.stem, open_.epoch, open_.start, open_.until))
    return spans_by_unit


def _apply_line(line: dict, node: str, serving: dict[str, _Open], spans_by_unit: dict[str, list[Interval]]) -> None:
    at = datetime.fromisoformat(line["at"]).timestamp()
    match line["event"]:
        case "serving started":
            serving[line["unit"]] = _Open(line["epoch"], at, line["until"])
        case "serving extended":
            for open_ in serving.values():
                open_.until = line["until"]
        case "serving stopped":
            open_ = serving.pop(line["unit"])
            spans_by_unit[line["unit"]].append(Interval(node, open_.epoch, open_.start, min(at, open_.until)))


def overlaps(by_unit: dict[str, list[Interval]]) -> list[tuple[str, Interval, Interval]]:
    """Pairs of intervals of one unit, on different nodes, that share an instant (OWN-1)."""
    clashes = []
    for unit, spans in by_unit.items():
        spans = sorted(spans, key=lambda span: span.start)
        for index, earlier in enumerate(spans):
            clashes += [
                (unit, earlier, later)
                for later in spans[index + 1 :]
                if later.start < earlier.end and later.node != earlier.node
            ]
    return clashes
