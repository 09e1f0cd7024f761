"""A node that leaves hands a large index on: how soon its successor is ready, against making the index anew."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from argosy.base.errors import Unavailable
from argosy.bench.fleet import figures
from argosy.bench.fleet.members import TOKEN, Fleet, Member, fleet_in, ready_at, until_seen
from argosy.bench.fleet.origins import git_repository
from argosy.bench.harness import Bench

NAME = "large"
READY_S_MAX = 600.0


async def measure_handing(bench: Bench, scratch: Path, tree: Path, rounds: int) -> None:
    """`tree`: the files of the large repository."""
    bench.say("making a large repository")
    origin = scratch / "large.git"
    git_repository(origin, tree)
    with fleet_in(scratch / "handing", nodes=2) as fleet:
        await fleet.up()
        fleet.wish([{"url": str(origin), "name": NAME}])
        bench.say("indexing it")
        found = (await fleet.settled(1, READY_S_MAX))[NAME]
        made_s = (found["fetch_time_ms"] + found["index_time_ms"]) / 1e3
        bench.notes.append(f"drain: a repository of {found['content_bytes'] / 1e6:,.0f} MB, from git on this machine")
        handed: list[float] = []
        received: list[float] = []
        for number in range(rounds):
            bench.say(f"draining, {number + 1} of {rounds}")
            ready_s, received_s = await _handed_on(fleet)
            handed.append(ready_s)
            received.append(received_s)
    bench.record(figures.DRAIN_TIMES, [made_s / each for each in handed])
    bench.record(figures.DRAIN_READY, handed)
    bench.record(figures.DRAIN_RECEIVED, received)
    bench.record(figures.REINDEXED, [made_s])


async def _handed_on(fleet: Fleet) -> tuple[float, float]:
    """Drains the holder. Seconds until another node answers in its place, and those of receiving the index alone."""
    holder = await _holder(fleet)
    began = time.monotonic()
    await _drain(holder)
    found: dict[str, Any] = {}

    async def has_moved() -> bool:
        nonlocal found
        found = (await fleet.repositories()).get(NAME, {})
        return bool(found) and bool(ready_at(found) - {holder.address})

    await until_seen(has_moved, READY_S_MAX, "another node is ready")
    took_s = time.monotonic() - began
    if found["index_time_ms"]:
        raise Unavailable(f"the index was made anew instead of received: {_why(fleet, found)}")
    fleet.start_node()
    await fleet_without(fleet, holder)
    return took_s, found["fetch_time_ms"] / 1e3


def _why(fleet: Fleet, found: Mapping[str, Any]) -> str:
    """What the nodes themselves say of it."""
    failed = [
        f"{node.name}: {told['step']}: {told['why']}" for node in fleet.nodes for told in node.told("index job failed")
    ]
    made = [f"{node.name}: {told['how']}" for node in fleet.nodes for told in node.told("index provisioned")]
    return "; ".join([*failed, *made, f"it is at {sorted(ready_at(found))}"])


async def fleet_without(fleet: Fleet, gone: Member) -> None:
    """Until the node has left by itself and everybody else is up."""

    async def has_left() -> bool:
        return not gone.is_alive

    await until_seen(has_left, READY_S_MAX, "the drained node leaves")
    fleet.nodes.remove(gone)
    await fleet.up()
    await fleet.settled(1, READY_S_MAX)


async def _holder(fleet: Fleet) -> Member:
    addresses = ready_at((await fleet.repositories())[NAME])
    return next(node for node in fleet.nodes if node.address in addresses)


async def _drain(node: Member) -> None:
    async with (
        aiohttp.ClientSession(headers={"authorization": f"Bearer {TOKEN}"}) as session,
        session.post(f"http://{node.address}/v1/drain", json={}) as answer,
    ):
        if answer.status != 202:
            raise Unavailable(f"a node would not drain: {answer.status} {await answer.text()}")
