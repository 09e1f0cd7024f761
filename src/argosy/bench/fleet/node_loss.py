"""A node is killed while questions are asked at a steady rate: who notices, and for how long."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.bench.fleet import figures
from argosy.bench.fleet.members import Fleet, Member, fleet_in
from argosy.bench.fleet.origins import small_repositories
from argosy.bench.fleet.query_load import Seen, session, to_door, until_told
from argosy.bench.harness import Bench

REPOSITORIES = 24
RATE_PER_S = 50.0
BEFORE_S = 1.0  # questions before the node dies, and after all is well again
SETTLED_S_MAX = 600.0
QUERIES = ("anchor", "bosun", "storm", "harbour", "moor_1", "keel -file:md")


@dataclass(frozen=True)
class Pace:
    """How soon a dead node is noticed, and how long an auction may last."""

    ttl_s: float
    renew_s: float
    window_s: float

    def settings(self) -> dict[str, object]:
        return {
            "ownership_ttl_s": self.ttl_s,
            "ownership_renew_s": self.renew_s,
            "ownership_window_s": self.window_s,
        }


@dataclass(frozen=True)
class Loss:
    """What was seen of a node's death."""

    killed_at: float
    affected: frozenset[str]  # what it alone held
    seen: Sequence[Seen]
    reindexed_s: float  # making the affected anew took the busiest node so long

    @property
    def failed(self) -> list[Seen]:
        return [each for each in self.seen if not each.is_whole]

    @property
    def failed_of_others(self) -> list[Seen]:
        return [each for each in self.failed if each.status != 200 or not each.missing <= self.affected]

    @property
    def back_s(self) -> float:
        """Until the last answer that was not whole had been asked for."""
        return max((each.asked_at - self.killed_at for each in self.failed), default=0.0)


async def measure_loss(bench: Bench, scratch: Path, pace: Pace, nodes: int) -> None:
    wishes = small_repositories(scratch / "losing", REPOSITORIES)
    if bench.wants(figures.FAILED_WITH_REPLICA.id):
        bench.say("a node is killed, all is held twice")
        doubled = [{**wish, "replicas": 1} for wish in wishes]
        loss = await _lost(scratch / "twice", pace, nodes, doubled)
        bench.record(figures.FAILED_WITH_REPLICA, [len(loss.failed)])
        bench.notes.append(f"killed, two copies: {len(loss.seen):,} queries; {_kinds(loss.failed)}")
    if bench.wants(figures.BACK.id, figures.FAILED_OF_OTHERS.id):
        bench.say("a node is killed, nothing is held twice")
        loss = await _lost(scratch / "once", pace, nodes, wishes)
        bench.record(figures.back(pace.ttl_s + pace.window_s + loss.reindexed_s), [loss.back_s])
        bench.record(figures.FAILED_OF_OTHERS, [len(loss.failed_of_others)])
        bench.notes.append(
            f"killed, one copy: TTL {pace.ttl_s:g} s, window {pace.window_s:g} s, reindexing {loss.reindexed_s:.1f} s; "
            f"{len(loss.affected)} of {len(wishes)} repositories affected; {_kinds(loss.failed)}"
        )


def _kinds(failed: Sequence[Seen]) -> str:
    refused = sum(each.status != 200 for each in failed)
    return f"{refused} refused, {len(failed) - refused} answered in part" if failed else "all answered as a whole"


async def _lost(folder: Path, pace: Pace, nodes: int, wishes: list[dict[str, object]]) -> Loss:
    with fleet_in(folder, pace.settings(), nodes=nodes) as fleet:
        await fleet.up()
        await asyncio.to_thread(fleet.wish, wishes)
        found = await fleet.settled(len(wishes), SETTLED_S_MAX)
        killed = max(fleet.nodes, key=lambda node: len(fleet.held_by(node, found)))
        held = frozenset(fleet.held_by(killed, found))
        is_over, questions = asyncio.Event(), [to_door(fleet.door.address, query) for query in QUERIES]
        async with session() as opened:
            asking = asyncio.ensure_future(until_told(opened, questions, RATE_PER_S, is_over))
            await asyncio.sleep(BEFORE_S)
            killed_at = time.monotonic()
            killed.end()
            found = await fleet.settled(len(wishes), SETTLED_S_MAX)
            await asyncio.sleep(BEFORE_S)
            is_over.set()
            seen = await asking
        return Loss(killed_at, held, seen, _reindexed_s(fleet, killed, held, found))


def _reindexed_s(
    fleet: Fleet, killed: Member, names: frozenset[str], repositories: Mapping[str, dict[str, Any]]
) -> float:
    """One after the other, by the node that had most to do: an upper bound, since nodes make several at a time."""
    by_node = {node.address: 0.0 for node in fleet.nodes if node is not killed}
    for name in names:
        for address in [seat["address"] for seat in repositories[name]["holders"]][:1]:
            each = repositories[name]
            by_node[address] += (each["fetch_time_ms"] + each["index_time_ms"]) / 1e3
    return max(by_node.values())
