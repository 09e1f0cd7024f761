"""The seal: the last row of a shard that is being split, and how it is decided whether the split has happened.

A split commits by adding the next version of the map. Its node may stand still at any moment, lose the shard's lease
and wake up later; meanwhile another node has opened the shard and must not acknowledge a job that the children of a
late commit would lack. So the splitter writes a seal, durably, before it copies anything, and whoever opens a sealed
shard first *calls the split off*: it adds a version of the map in which the shard counts one more split undone. Of the
two versions only one gets the number. If the split was first, the shard is no longer in the map and is not served; if
the calling off was first, the splitter finds the count changed and gives up.
"""

import msgspec

from argosy.base.errors import Conflict, Unavailable
from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.cluster.ports import ShardMapStore
from argosy.jobs.cluster.shardmap import ShardMap
from argosy.jobs.ports import StagedStore

TRIES_MAX = 20  # other shards' splits may take the next number first; each try reads what they wrote
SEAL = keys.key(keys.META, "seal")


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """What is written into a shard before it is copied."""

    shard: str
    aborted_splits: int  # the shard's count in the map when the split began


async def seal(store: StagedStore, sealed: Seal) -> None:
    """Ends the shard's writing; durable when this returns."""
    await store.stage(Batch().put(SEAL, msgspec.msgpack.encode(sealed)))


async def unseal(store: StagedStore, shard_id: str, shards: ShardMap, maps: ShardMapStore) -> ShardMap:
    """Makes sure that a shard which is about to be served cannot be split by an earlier node.

    Returns the newest map read; NotFound if the split has happened, so that the shard is none any more.
    """
    found = await store.get(SEAL)
    if found is None:
        return shards
    left = msgspec.msgpack.decode(found, type=Seal)
    if left.shard == shard_id:  # else it came along when the shard was copied from its parent
        shards = await _abort_split(left, await newest(maps, shards), maps)
    await store.stage(Batch().delete(SEAL))
    return shards


async def commit_split(
    shards: ShardMap, maps: ShardMapStore, left: Seal, point: str, ids: tuple[str, str], now_ms: int
) -> ShardMap:
    """Makes the split count, and returns the map in which it does; Conflict if it was called off meanwhile."""
    for _ in range(TRIES_MAX):
        if ids[0] in shards.ids():
            return shards
        if left.shard not in shards.ids() or shards.by_id(left.shard).aborted_splits != left.aborted_splits:
            raise Conflict(f"the split of shard {left.shard} was called off by a node that had opened it meanwhile")
        changed = shards.after_split(left.shard, point, *ids, now_ms)
        if await try_add(changed, maps):
            return changed
        shards = await newest(maps, shards)
    raise Unavailable(f"the map of shards changed {TRIES_MAX} times while shard {left.shard} was split: try again")


async def newest(maps: ShardMapStore, known: ShardMap) -> ShardMap:
    return await maps.newest(known.version) or known


async def _abort_split(left: Seal, shards: ShardMap, maps: ShardMapStore) -> ShardMap:
    for _ in range(TRIES_MAX):
        if shards.by_id(left.shard).aborted_splits > left.aborted_splits:
            return shards
        changed = shards.with_split_aborted(left.shard)
        if await try_add(changed, maps):
            return changed
        shards = await newest(maps, shards)
    raise Unavailable(f"the map of shards changed {TRIES_MAX} times while a split was called off: try again")


async def try_add(changed: ShardMap, maps: ShardMapStore) -> bool:
    """Whether this very version is known to count. If not, it may all the same: an answer can be lost."""
    try:
        await maps.add(changed)
    except (Conflict, Unavailable):
        return False
    return True
