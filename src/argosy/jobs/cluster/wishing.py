"""The wish for a split: kept in the map until the split is done, so it outlives the node that was asked.

A split ends with nothing if its shard has to move meanwhile, or its node dies. The wish stays, and whoever holds the
shard next begins anew, with other ids for the children: a splitter that wakes up late may still delete its own copies.
Every new try is counted in the map before it begins; after `SPLIT_TRIES_MAX` the wish is dropped.
"""

from argosy.base.errors import Conflict, Unavailable
from argosy.jobs.cluster.ports import MapStore
from argosy.jobs.cluster.sealing import TRIES_MAX, is_added, newest
from argosy.jobs.cluster.shardmap import ShardMap, SplitWish

SPLIT_TRIES_MAX = 10  # a split takes moments; ten in a row are not cut short by a ring that moves, but by a fault


async def wished(
    shards: ShardMap, maps: MapStore, shard_id: str, wish: SplitWish | None, *, instead_of: SplitWish | None
) -> ShardMap:
    """Makes a wish count, and returns the map in which it does; Conflict if there is another one by now."""
    for _ in range(TRIES_MAX):
        now = shards.by_id(shard_id).wish
        if now == wish:
            return shards
        if now != instead_of:
            raise Conflict(f"shard {shard_id} is being split already: ask for its status")
        changed = shards.after_wishing(shard_id, wish)
        if await is_added(changed, maps):
            return changed
        shards = await newest(maps, shards)
    raise Unavailable(f"the map of shards changed {TRIES_MAX} times while a split was asked for: try again")
