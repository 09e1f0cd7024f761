"""A split request is in the map once, despite concurrent writers and lost responses."""

from itertools import count

import pytest
from msgspec.structs import replace

from argosy.base.errors import Conflict, NotFound, Unavailable
from argosy.jobs.backends.shard_map_store import MemoryShardMapStore
from argosy.jobs.cluster.seal import TRIES_MAX
from argosy.jobs.cluster.shard_map import ShardMap, SplitRequest, first_map
from argosy.jobs.cluster.splitter import set_split_request

REQUEST = SplitRequest("4000000000000000", 1000, "n1")
OTHER = replace(REQUEST, point="2000000000000000", node="n2")


async def write_first_map(maps: MemoryShardMapStore) -> ShardMap:
    ids = count(1)
    shards = first_map(2, lambda: f"shard-{next(ids)}", 0)
    await maps.add(shards)
    return shards


async def test_a_split_request_is_merged_with_concurrent_changes() -> None:
    shards = await write_first_map(maps := MemoryShardMapStore())
    await maps.add(shards.with_split_request("shard-2", OTHER))
    after = await set_split_request(shards, maps, "shard-1", REQUEST, instead_of=None)
    assert after == await maps.newest()
    assert [spec.split_request for spec in after.shards] == [REQUEST, OTHER]


async def test_of_two_split_requests_for_a_shard_one_is_accepted() -> None:
    shards = await write_first_map(maps := MemoryShardMapStore())
    after = await set_split_request(shards, maps, "shard-1", REQUEST, instead_of=None)
    with pytest.raises(Conflict, match="being split already"):
        await set_split_request(shards, maps, "shard-1", OTHER, instead_of=None)
    assert await maps.newest() == after


async def test_a_split_request_is_replaced_and_removed_only_by_its_holder() -> None:
    shards = await write_first_map(maps := MemoryShardMapStore())
    first = await set_split_request(shards, maps, "shard-1", REQUEST, instead_of=None)
    again = replace(REQUEST, tries=2)
    second = await set_split_request(first, maps, "shard-1", again, instead_of=REQUEST)
    with pytest.raises(Conflict):
        await set_split_request(first, maps, "shard-1", None, instead_of=REQUEST)
    assert (await set_split_request(second, maps, "shard-1", None, instead_of=again)).by_id(
        "shard-1"
    ).split_request is None


async def test_a_shard_split_meanwhile_accepts_no_split_request() -> None:
    shards = await write_first_map(maps := MemoryShardMapStore())
    await maps.add(shards.after_split("shard-1", REQUEST.point, "left", "right", 0))
    with pytest.raises(NotFound):
        await set_split_request(shards, maps, "shard-1", REQUEST, instead_of=None)


class ResponseLosingMaps(MemoryShardMapStore):
    """Writes, and loses the response."""

    async def add(self, shards: ShardMap) -> None:
        await super().add(shards)
        if shards.version > 1:
            raise Unavailable("the response is lost")


async def test_a_split_request_with_a_lost_response_is_written_once() -> None:
    shards = await write_first_map(maps := ResponseLosingMaps())
    after = await set_split_request(shards, maps, "shard-1", REQUEST, instead_of=None)
    assert (after.version, after.by_id("shard-1").split_request) == (2, REQUEST)


class ContendedMaps(MemoryShardMapStore):
    """A concurrent writer always wins."""

    async def add(self, shards: ShardMap) -> None:
        if shards.version > 1:
            before = await self.newest()
            assert before is not None
            await super().add(before.with_split_aborted("shard-2"))
        await super().add(shards)


async def test_endless_contention_on_the_map_is_reported() -> None:
    shards = await write_first_map(maps := ContendedMaps())
    with pytest.raises(Unavailable, match=f"changed {TRIES_MAX} times"):
        await set_split_request(shards, maps, "shard-1", REQUEST, instead_of=None)
