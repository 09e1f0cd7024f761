"""`argosy shard`: lists the shards of the job broker, and splits one that has become too busy."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from argosy.base.errors import ArgosyError, Conflict, NotOwner, Unavailable
from argosy.cli.commands import Group, Seconds
from argosy.cli.job_client import BrokerOptions, broker_options
from argosy.cli.output import print_json, print_table, status

if TYPE_CHECKING:
    from argosy.jobs import JobsClient
    from argosy.jobs.ports import ShardInfo, SplitStatus


POLL_S = 0.2


@click.group(cls=Group)
def shard() -> None:
    """List and split the shards of the job broker."""


@shard.command("list")
@broker_options
def list_shards(broker: BrokerOptions, as_json: bool) -> None:
    """List shards with their range of tenant hashes and their node."""
    from argosy.jobs.web.bodies import shard_to_json

    rows = [shard_to_json(place) for place in broker.run(lambda client: client.shards())]
    if as_json:
        print_json(rows)
        return
    columns = ("id", "range_start", "range_end", "node", "address")
    print_table(columns, [[row[name] for name in columns] for row in rows], empty="no shards found")


@shard.command()
@click.argument("id")
@click.option(
    "--at",
    "point",
    default="",
    show_default=False,
    metavar="HASH",
    help="Hash at which to split, 16 hexadecimal digits; by default the middle.",
)
@click.option("--wait", "wait_s", type=Seconds(0), default=0.0, help="Seconds to wait until the split is done.")
@broker_options
def split(broker: BrokerOptions, id: str, point: str, wait_s: float, as_json: bool) -> None:
    """Split a shard in two. It is unavailable only for a moment, and its jobs continue."""

    async def run_split(client: "JobsClient") -> "tuple[SplitStatus, bool]":
        with status(f"splitting {id}"):
            if wait_s > 0:
                return await _split_within(client, id, point, wait_s), True
            return await client.split(id, point), False

    result, is_done = broker.run(run_split)
    if as_json:
        print_json({"shard": id, "left": result.left, "right": result.right, "point": result.point, "is_done": is_done})
        return
    if is_done:
        click.echo(f"split shard {id} into {result.left}, {result.right}")
    else:
        click.echo(f"splitting shard {id} at {result.point}")


async def _split_within(client: "JobsClient", shard_id: str, point: str, wait_s: float) -> "SplitStatus":
    """Retries until a node accepts the split, then waits until both halves are served."""
    last_error: ArgosyError | None = None
    started: SplitStatus | None = None
    try:
        async with asyncio.timeout(wait_s):
            while started is None:
                try:
                    started = await client.split(shard_id, point)
                except (Conflict, NotOwner, Unavailable) as error:  # the shard is moving, or a split is in progress
                    last_error = error
                    started = await _split_in_progress(client, shard_id)
                    # A split at another point is in progress: waiting for it would report a split that was not
                    # requested.
                    if started is not None and point not in ("", started.point):
                        raise
                    await asyncio.sleep(POLL_S)
            return await _until_done(client, started)
    except TimeoutError:
        if started is None and last_error is not None:
            raise last_error from None
        raise Unavailable(
            f"split timed out after {wait_s:g} s and continues; run `argosy shard list` to see when it is done"
        ) from None


async def _split_in_progress(client: "JobsClient", shard_id: str) -> "SplitStatus | None":
    """The split in progress, if there is one."""
    with suppress(Conflict, NotOwner, Unavailable):
        status = await client.split_status(shard_id)
        return status if status.is_in_progress else None
    return None


async def _until_done(client: "JobsClient", started: "SplitStatus") -> "SplitStatus":
    """The halves are identified by the split point: if the shard moves meanwhile, their ids differ from `started`."""
    while True:
        places: list[ShardInfo] = []
        with suppress(Unavailable):  # the node may leave; the next poll uses another one
            places = [place for place in await client.shards() if place.node]
        left = next((place.id for place in places if place.range_end == started.point), "")
        right = next((place.id for place in places if place.range_start == started.point), "")
        if left and right:
            return replace(started, left=left, right=right)
        await asyncio.sleep(POLL_S)
