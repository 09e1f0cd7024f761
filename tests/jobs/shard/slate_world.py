"""The shard tests' world with its rows in SlateDB: the same calls, through the broker's ledger."""

import asyncio
from itertools import count

from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.shard.shard import Shard
from tests.jobs.shard.builders import World

_names = count(1)


class SlateWorld(World):
    """`reopen` closes nothing: another writer opens the shard, as after a crash."""

    def __init__(self, store: SlateShardStore) -> None:
        super().__init__()
        self._store = store
        self._name = f"shard-{next(_names)}"
        self._ledgers: list[GroupCommitStore] = []

    async def open(self) -> Shard:
        store = GroupCommitStore(await self._store.shard(self._name))
        self._ledgers.append(store)
        self.store = store  # type: ignore[assignment]
        self.shard = self._create_shard(Shard)
        await self.shard.open()
        return self.shard

    async def reopen(self) -> Shard:
        return await self.open()

    async def close(self) -> None:
        await asyncio.gather(*(store.close() for store in self._ledgers), return_exceptions=True)
