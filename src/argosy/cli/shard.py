"""`argosy shard`: how the job broker's shards lie, and splitting one that has grown too busy."""

import asyncio
from typing import TYPE_CHECKING

import click

from argosy.base.errors import Unavailable
from argosy.cli.job_client import Reach, reach_options
from argosy.cli.output import print_json, print_table, status

if TYPE_CHECKING:
    from argosy.jobs.broker import SplitStatus
    from argosy.jobs.sdk import JobsClient

LOOK_S = 0.2


@click.group()
def shard() -> None:
    """The shards of the job broker."""


@shard.command("list")
@reach_options
def list_shards(reach: Reach, as_json: bool) -> None:
    """Every shard, the range of tenant hashes it has, and who serves it."""
    from argosy.jobs.web.showing import shown_shard

    rows = [shown_shard(place) for place in reach.ask(lambda client: client.shards())]
    if as_json:
        print_json(rows)
        return
    columns = ("id", "range_start", "range_end", "node", "address")
    print_table(columns, [[row[name] for name in columns] for row in rows], empty="there are no shards yet")


@shard.command()
@click.argument("id")
@click.option("--at", "point", default="", metavar="HASH", help="16 hexadecimal digits; by default the middle.")
@click.option("--wait", "wait_s", type=click.FloatRange(0), default=0.0, help="Seconds to wait until it is done.")
@reach_options
def split(reach: Reach, id: str, point: str, wait_s: float, as_json: bool) -> None:
    """Split a shard in two; it is away for moments only, and its jobs go on."""

    async def asked(client: "JobsClient") -> "tuple[SplitStatus, bool]":
        began = await client.split(id, point)
        with status(f"splitting {id}"):
            return began, wait_s > 0 and await _until_done(client, began, wait_s)

    began, is_done = reach.ask(asked)
    if as_json:
        told = {"shard": id, "left": began.left, "right": began.right, "point": began.point, "is_done": is_done}
        print_json(told)
    else:
        click.echo(f"{id} {'is split' if is_done else 'is being split'} at {began.point}: {began.left}, {began.right}")


async def _until_done(client: "JobsClient", began: "SplitStatus", wait_s: float) -> bool:
    """It is done when both halves are served."""
    halves = {began.left, began.right}
    try:
        async with asyncio.timeout(wait_s):
            while True:
                if halves <= {place.id for place in await client.shards() if place.node}:
                    return True
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise Unavailable(f"the split is not done after {wait_s:g} s: `argosy shard list` shows when it is") from None
