"""A ledger as an OrderedKV: writing is staging and waiting until it is durable."""

from argosy.base.kv import Batch
from argosy.jobs.group_commit.store import GroupCommitStore


class LedgerKV:
    def __init__(self, ledger: GroupCommitStore) -> None:
        self._ledger = ledger
        self.get = ledger.get
        self.get_many = ledger.get_many
        self.scan = ledger.scan
        self.close = ledger.close

    async def write(self, batch: Batch) -> None:
        await self._ledger.stage(batch)
