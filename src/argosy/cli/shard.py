"""`argosy shard`: how the job broker's shards lie, and splitting one that has grown too busy."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from argosy.base.errors import ArgosyError, Conflict, NotOwner, Unavailable
from argosy.cli.commands import Group
from argosy.cli.job_client import Reach, reach_options
from argosy.cli.output import print_json, print_table, status
from argosy.cli.param_types import Seconds

if TYPE_CHECKING:
    from argosy.jobs.broker import ShardInfo, SplitStatus
    from argosy.jobs.sdk import JobsClient

LOOK_S = 0.2


@click.group(cls=Group)
def shard() -> None:
    """The shards of the job broker."""


@shard.command("list")
@reach_options
def list_shards(reach: Reach, as_json: bool) -> None:
    """Every shard, the range of tenant hashes it has, and who serves it."""
    from argosy.jobs.web.json_views import shard_to_json

    rows = [shard_to_json(place) for place in reach.ask(lambda client: client.shards())]
    if as_json:
        print_json(rows)
        return
    columns = ("id", "range_start", "range_end", "node", "address")
    print_table(columns, [[row[name] for name in columns] for row in rows], empty="there are no shards yet")


@shard.command()
@click.argument("id")
@click.option("--at", "point", default="", metavar="HASH", help="16 hexadecimal digits; by default the middle.")
@click.option("--wait", "wait_s", type=Seconds(0), default=0.0, help="Seconds to wait until it is done.")
@reach_options
def split(reach: Reach, id: str, point: str, wait_s: float, as_json: bool) -> None:
    """Split a shard in two; it is away for moments only, and its jobs go on."""

    async def asked(client: "JobsClient") -> "tuple[SplitStatus, bool]":
        with status(f"splitting {id}"):
            if wait_s > 0:
                return await _split_within(client, id, point, wait_s), True
            return await client.split(id, point), False

    told, is_done = reach.ask(asked)
    if as_json:
        print_json({"shard": id, "left": told.left, "right": told.right, "point": told.point, "is_done": is_done})
        return
    halves = f": {told.left}, {told.right}" if told.left else ""
    click.echo(f"{id} {'is split' if is_done else 'is being split'} at {told.point}{halves}")


async def _split_within(client: "JobsClient", shard_id: str, point: str, wait_s: float) -> "SplitStatus":
    """Asks until a node has taken it on, then waits until both halves are served, whichever node has done it."""
    refused: ArgosyError | None = None
    begun: SplitStatus | None = None
    try:
        async with asyncio.timeout(wait_s):
            while begun is None:
                try:
                    begun = await client.split(shard_id, point)
                except (Conflict, NotOwner, Unavailable) as why:  # it is on its way to a node, or under way
                    refused = why
                    begun = await _under_way(client, shard_id)
                    if begun is not None and point not in ("", begun.point):
                        raise
                    await asyncio.sleep(LOOK_S)
            return await _until_done(client, begun)
    except TimeoutError:
        if begun is None and refused is not None:
            raise refused from None
        raise Unavailable(
            f"the split is not done after {wait_s:g} s, and goes on: `argosy shard list` shows when it is"
        ) from None


async def _under_way(client: "JobsClient", shard_id: str) -> "SplitStatus | None":
    """The split that was asked for before, if there is one."""
    with suppress(Conflict, NotOwner, Unavailable):
        told = await client.split_status(shard_id)
        return told if told.is_in_progress else None
    return None


async def _until_done(client: "JobsClient", begun: "SplitStatus") -> "SplitStatus":
    """The halves are known by where they meet: if the shard has moved meanwhile, they have other ids than were told."""
    while True:
        places: list[ShardInfo] = []
        with suppress(Unavailable):  # the node that was asked may leave; the next look asks another
            places = [place for place in await client.shards() if place.node]
        left = next((place.id for place in places if place.range_end == begun.point), "")
        right = next((place.id for place in places if place.range_start == begun.point), "")
        if left and right:
            return replace(begun, left=left, right=right)
        await asyncio.sleep(LOOK_S)
