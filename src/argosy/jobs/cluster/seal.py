"""The seal: the last row of a shard that is being split. It decides whether the split has happened.

A split commits by adding the next version of the shard map. Its node may stall at any moment, lose the shard's lease
and resume later; by then another node may have opened the shard, and must not acknowledge a job that the children of
a late commit would lack. So the splitter writes a seal, durably, before it copies anything, and a node that opens a
sealed shard first *aborts the split*: it adds a map version that counts one more aborted split of the shard. Only one
of the two versions gets the number. If the split came first, the shard is no longer in the map and is not served; if
the abort came first, the splitter sees the changed count and gives up.
"""

import msgspec

from argosy.base.errors import Conflict, Unavailable
from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.cluster.shard_map import ShardMap, ShardMapStore, newest, try_add
from argosy.jobs.ports import StagedStore

# Attempts to get the next number of the map: splits of other shards may take it first. Each attempt reads what they
# wrote, and each loss means that another change has succeeded.
TRIES_MAX = 20
SEAL = keys.key(keys.META, "seal")


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """Written into a shard before it is copied."""

    shard: str
    aborted_splits: int  # the shard's count in the map when the split began


async def seal(store: StagedStore, sealed: Seal) -> None:
    """Stops writes to the shard; durable when this returns."""
    await store.stage(Batch().put(SEAL, msgspec.msgpack.encode(sealed)))


async def unseal(store: StagedStore, shard_id: str, shards: ShardMap, maps: ShardMapStore) -> ShardMap:
    """Ensures that an earlier node can no longer split a shard that is about to be served.

    Returns the newest map; NotFound if the split has happened and the shard no longer exists.
    """
    found = await store.get(SEAL)
    if found is None:
        return shards
    sealed = msgspec.msgpack.decode(found, type=Seal)
    if sealed.shard == shard_id:  # else it came along when the shard was copied from its parent
        shards = await _abort_split(sealed, await newest(maps, shards), maps)
    # Only now, and durably before the shard is served: while the abort is not in the map, a crash must find the seal.
    await store.stage(Batch().delete(SEAL))
    return shards


async def commit_split(
    shards: ShardMap, maps: ShardMapStore, sealed: Seal, point: str, ids: tuple[str, str], now_ms: int
) -> ShardMap:
    """Commits the split and returns the map that contains it; Conflict if it was aborted meanwhile."""
    for _ in range(TRIES_MAX):
        if ids[0] in shards.ids():
            return shards  # an earlier attempt was stored, and its response lost
        if sealed.shard not in shards.ids() or shards.by_id(sealed.shard).aborted_splits != sealed.aborted_splits:
            raise Conflict(f"the split of shard {sealed.shard} was aborted: another node has opened the shard")
        changed = shards.after_split(sealed.shard, point, *ids, now_ms)
        if await try_add(changed, maps):
            return changed
        shards = await newest(maps, shards)
    raise Unavailable(f"the shard map changed {TRIES_MAX} times while shard {sealed.shard} was split; retry")


async def _abort_split(sealed: Seal, shards: ShardMap, maps: ShardMapStore) -> ShardMap:
    for _ in range(TRIES_MAX):
        if shards.by_id(sealed.shard).aborted_splits > sealed.aborted_splits:
            return shards  # an earlier attempt to open the shard has aborted it
        changed = shards.with_split_aborted(sealed.shard)
        if await try_add(changed, maps):
            return changed
        shards = await newest(maps, shards)
    raise Unavailable(f"the shard map changed {TRIES_MAX} times while a split was aborted; retry")
