"""A ledger as an OrderedKV: `write` stages a batch and waits until it is durable."""

from argosy.base.kv import Batch
from argosy.jobs.group_commit import GroupCommitStore


class LedgerKV:
    def __init__(self, store: GroupCommitStore) -> None:
        self._store = store
        self.get = store.get
        self.get_many = store.get_many
        self.scan = store.scan
        self.close = store.close

    async def write(self, batch: Batch) -> None:
        await self._store.stage(batch)
