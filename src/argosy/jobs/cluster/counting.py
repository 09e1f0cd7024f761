"""How many jobs a shard has, counted from its rows and no further than one would wait for."""

from argosy.jobs import keys
from argosy.jobs.ports import Ledger

COUNT_MAX = 100_000  # of each kind; a second of reading


async def count(ledger: Ledger, kind: int) -> int:
    found = 0
    async for _ in ledger.scan(*keys.under(kind), limit=COUNT_MAX):
        found += 1
    return found
