"""The shard map as this node knows it: read periodically, cached, and created once if there is none.

It is the node's unit catalog: the ring places the shards of the map.
"""

from collections.abc import Callable

from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.jobs.cluster.ports import ShardMapStore
from argosy.jobs.cluster.seal import newest
from argosy.jobs.cluster.shardmap import ShardMap, first_map
from argosy.ownership.model import UnitSpec


class ShardMapCache:
    """Implements ownership's `UnitCatalog`."""

    def __init__(self, store: ShardMapStore) -> None:
        self.store = store
        self.observers: list[Callable[[], None]] = []  # called when a newer map has been read
        self._known: ShardMap | None = None

    @property
    def current(self) -> ShardMap:
        if self._known is None:
            raise Unavailable("the shard map has not been read yet; retry")
        return self._known

    async def start(self, count: int, new_id: Callable[[], str], now_ms: int) -> ShardMap:
        """Reads the map. If there is none, one of the starting nodes creates it, with `count` shards."""
        found = await self.store.newest()
        if found is None:
            found = first_map(count, new_id, now_ms)
            try:
                await self.store.add(found)
            except Conflict:
                found = await self.store.newest()
                assert found is not None, "a version that exists can be read"
        self.adopt(found)
        return found

    async def refresh(self) -> ShardMap:
        """The newest map."""
        self.adopt(await newest(self.store, self.current))
        return self.current

    def adopt(self, shards: ShardMap) -> None:
        """Accepts a map that was read or written elsewhere in this process."""
        if self._known is None or shards.version > self._known.version:
            self._known = shards
            for observer in self.observers:
                observer()

    async def units(self) -> list[UnitSpec]:
        try:
            shards = await self.refresh()
        except Invalid as why:  # written by a later release, or damaged: what is known goes on being served
            raise Unavailable(str(why)) from why
        return [UnitSpec(spec.id, footprint_bytes=0) for spec in shards.shards]
