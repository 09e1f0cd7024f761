"""A process that writes chunks into a store until it is killed, and prints each after it is stored.

`python -m tests.ipni.backends.writing FOLDER`
"""

import asyncio
import sys

from argosy.ipni.backends.rocks import RocksStore
from tests.contracts.index_store_stage import ALICE, many, value

CHUNK = 2500  # more than one batch
CHUNKS_PER_CONTEXT = 3
CHUNKS_MAX = 400


def chunk(at: int) -> list[bytes]:
    return many(f"chunk {at}", CHUNK)


def context(at: int) -> bytes:
    return b"%d" % (at // CHUNKS_PER_CONTEXT)


async def write(database: str) -> None:
    store = await RocksStore.open(database)
    for at in range(CHUNKS_MAX):
        await store.put(value(ALICE, context(at)), chunk(at), {b"cursor": b"%d" % at})
        sys.stdout.write(f"{at}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
