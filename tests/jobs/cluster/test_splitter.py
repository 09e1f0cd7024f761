"""A wish for a split is in the map once, whoever else writes there, and whichever answers are lost."""

from itertools import count

import pytest
from msgspec.structs import replace

from argosy.base.errors import Conflict, NotFound, Unavailable
from argosy.jobs.backends.shard_map_store import MemoryShardMapStore
from argosy.jobs.cluster.seal import TRIES_MAX
from argosy.jobs.cluster.shard_map import ShardMap, SplitRequest, first_map
from argosy.jobs.cluster.splitter import set_split_request

WISH = SplitRequest("4000000000000000", 1000, "n1")
OTHER = replace(WISH, point="2000000000000000", node="n2")


async def kept(maps: MemoryShardMapStore) -> ShardMap:
    ids = count(1)
    shards = first_map(2, lambda: f"shard-{next(ids)}", 0)
    await maps.add(shards)
    return shards


async def test_a_wish_is_written_beside_what_others_write_meanwhile() -> None:
    shards = await kept(maps := MemoryShardMapStore())
    await maps.add(shards.with_split_request("shard-2", OTHER))
    after = await set_split_request(shards, maps, "shard-1", WISH, instead_of=None)
    assert after == await maps.newest()
    assert [spec.split_request for spec in after.shards] == [WISH, OTHER]


async def test_of_two_wishes_for_a_shard_one_counts() -> None:
    shards = await kept(maps := MemoryShardMapStore())
    after = await set_split_request(shards, maps, "shard-1", WISH, instead_of=None)
    with pytest.raises(Conflict, match="being split already"):
        await set_split_request(shards, maps, "shard-1", OTHER, instead_of=None)
    assert await maps.newest() == after


async def test_a_wish_is_replaced_and_dropped_only_by_who_knows_it() -> None:
    shards = await kept(maps := MemoryShardMapStore())
    first = await set_split_request(shards, maps, "shard-1", WISH, instead_of=None)
    again = replace(WISH, tries=2)
    second = await set_split_request(first, maps, "shard-1", again, instead_of=WISH)
    with pytest.raises(Conflict):
        await set_split_request(first, maps, "shard-1", None, instead_of=WISH)
    assert (await set_split_request(second, maps, "shard-1", None, instead_of=again)).by_id(
        "shard-1"
    ).split_request is None


async def test_a_shard_that_was_split_meanwhile_takes_no_wish() -> None:
    shards = await kept(maps := MemoryShardMapStore())
    await maps.add(shards.after_split("shard-1", WISH.point, "left", "right", 0))
    with pytest.raises(NotFound):
        await set_split_request(shards, maps, "shard-1", WISH, instead_of=None)


class Forgetful(MemoryShardMapStore):
    """Writes, and loses the answer."""

    async def add(self, shards: ShardMap) -> None:
        await super().add(shards)
        if shards.version > 1:
            raise Unavailable("the answer is lost")


async def test_a_wish_whose_answer_was_lost_is_written_once() -> None:
    shards = await kept(maps := Forgetful())
    after = await set_split_request(shards, maps, "shard-1", WISH, instead_of=None)
    assert (after.version, after.by_id("shard-1").split_request) == (2, WISH)


class Busy(MemoryShardMapStore):
    """Somebody else is always first."""

    async def add(self, shards: ShardMap) -> None:
        if shards.version > 1:
            before = await self.newest()
            assert before is not None
            await super().add(before.with_split_aborted("shard-2"))
        await super().add(shards)


async def test_a_map_that_never_rests_is_told_of() -> None:
    shards = await kept(maps := Busy())
    with pytest.raises(Unavailable, match=f"changed {TRIES_MAX} times"):
        await set_split_request(shards, maps, "shard-1", WISH, instead_of=None)
