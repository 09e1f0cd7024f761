"""A process that writes to a shard until it is killed or fails, and prints what was acknowledged.

    python writer_process.py URL SHARD [FILE_BYTES_MAX]

Each line is the number of a durable batch, or `end` and the kind of error that ended the writer. A maximum file size
simulates a full disk.
"""

import asyncio
import json
import os
import resource
import signal
import sys

from argosy.base.errors import ArgosyError
from argosy.base.kv import Batch
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.settings import ShardStoreSettings

WRITERS = 4


async def main(url: str, shard: str, file_bytes_max: int | None) -> None:
    settings = ShardStoreSettings(**json.loads(os.environ.get("WRITER_SETTINGS", "{}")))
    store = await SlateShardStore.open(url, settings)
    store = GroupCommitStore(await store.shard(shard))
    if file_bytes_max is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, resource.RLIM_INFINITY))
    await asyncio.gather(*(write(store, number) for number in range(WRITERS)))
    await store.close()


async def write(store: GroupCommitStore, number: int) -> None:
    size = 10
    while True:
        batch = Batch().put(b"row/%08d" % number, b"x" * size).put(b"twin/%08d" % number, b"x" * size)
        try:
            await store.stage(batch)
        except ArgosyError as error:
            print_line(f"end {type(error).__name__}")
            return
        print_line(str(number))
        number += WRITERS
        size = min(size * 2, 4000)


def print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None))
