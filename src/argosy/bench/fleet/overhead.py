"""What the front door adds: the same question to it and to the node itself, by turns, over connections that stay open.

The question is about the repositories of one node, so that the front door puts exactly the question to that node which
is put directly. Beside it, the question about everything: through the door, and by asking all nodes at once from here.
"""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.base.errors import Unavailable
from argosy.bench.fleet import figures
from argosy.bench.fleet.http_load import Connections
from argosy.bench.fleet.members import Fleet
from argosy.bench.fleet.query_load import Question, Seen, ask, session, to_door, to_node
from argosy.bench.harness import Bench


@dataclass
class Turns:
    """Times of the same questions, asked both ways."""

    direct_s: list[float]
    added_s: list[float]
    added_all_s: list[float]
    door_cpu_s: list[float]


async def measure_overhead(
    bench: Bench, fleet: Fleet, repositories: Mapping[str, dict[str, Any]], words: Sequence[str], rounds: int
) -> None:
    held = {node.address: fleet.held_by(node, repositories) for node in fleet.nodes}
    node = max(held, key=lambda address: len(held[address]))
    turns: list[Turns] = []
    async with session() as opened:
        for number in range(rounds):
            bench.say(f"overhead, {number + 1} of {rounds}")
            turns.append(await _turns(opened, fleet, node, held, words))
    bench.record(figures.OVERHEAD, [statistics.median(each.added_s) * 1e3 for each in turns])
    bench.record(figures.OVERHEAD_ALL, [statistics.median(each.added_all_s) * 1e3 for each in turns])
    bench.record(figures.OVERHEAD_CPU, [statistics.mean(each.door_cpu_s) * 1e3 for each in turns])
    bench.record(figures.DIRECT, [statistics.median(each.direct_s) * 1e3 for each in turns])


async def _turns(
    opened: Connections, fleet: Fleet, node: str, held: Mapping[str, list[str]], words: Sequence[str]
) -> Turns:
    turns = Turns([], [], [], [])
    for number, word in enumerate(words):
        direct, door = to_node(node, word, held[node]), to_door(fleet.door.address, word, held[node])
        cpu_s = fleet.door.cpu_s
        one, other = await _by_turns(opened, [direct], [door], is_first=number % 2 == 0)
        turns.door_cpu_s.append((fleet.door.cpu_s - cpu_s) / 2)
        turns.direct_s.append(one)
        turns.added_s.append(other - one)
        nodes = [to_node(address, word, names) for address, names in held.items() if names]
        one, other = await _by_turns(opened, nodes, [to_door(fleet.door.address, word)], is_first=number % 2 == 0)
        turns.added_all_s.append(other - one)
    return turns


async def _by_turns(
    opened: Connections, one: Sequence[Question], other: Sequence[Question], *, is_first: bool
) -> tuple[float, float]:
    """Each way twice, of which the second counts: caches are then as warm for both."""
    ways = {True: one, False: other}
    took_s: dict[bool, float] = {}
    for is_one in (is_first, not is_first) * 2:
        took_s[is_one] = await _all(opened, ways[is_one])
    return took_s[True], took_s[False]


async def _all(opened: Connections, questions: Sequence[Question]) -> float:
    seen: list[Seen] = await asyncio.gather(*(ask(opened, each) for each in questions))
    if not all(each.is_whole for each in seen):
        raise Unavailable(f"a question to a quiet fleet was not answered as a whole: {[each.status for each in seen]}")
    return max(each.took_s for each in seen)
