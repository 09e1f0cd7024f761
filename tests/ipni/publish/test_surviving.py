"""A killed publisher: what it reported as published exists, and the chain continues intact."""

import subprocess
import sys
from pathlib import Path

from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.publish.chains import BITSWAP, KEY, chain, hashes, read_context_entries, reading

PUBLISHING = """
import asyncio, sys
from pathlib import Path
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.publish.chains import BITSWAP, KEY, hashes

async def main():
    publisher = await Publisher.open(KEY, await SqliteChain.open(Path(sys.argv[1])), chunk_multihashes=4)
    number = 0
    while True:
        context, before = f"v{number}".encode(), f"v{number - 1}".encode()
        cid = await publisher.publish(context, BITSWAP, hashes(*range(number, number + 40)), supersedes=[before])
        sys.stdout.write(f"{number} {cid}\\n")
        sys.stdout.flush()
        number += 1

asyncio.run(main())
"""
ROOT = Path(__file__).resolve().parents[3]


def run_until_killed(path: Path) -> tuple[int, str]:
    """Runs a publisher and kills it at a random moment; returns its last report, a version and its head."""
    command = [sys.executable, "-c", PUBLISHING, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(10)]
        process.kill()
        lines += process.stdout.readlines()
    number, head = [line for line in lines if line.endswith("\n")][-1].split()
    return int(number), head


async def test_a_killed_publisher_continues_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "chain.db"
    number, head = run_until_killed(path)
    store = await SqliteChain.open(path)
    try:
        publisher = await Publisher.open(KEY, store, chunk_multihashes=4)
        (published,) = await publisher.list_contexts()
        version = int(published.context[1:])
        async with reading(publisher) as source:
            adverts = await chain(source)  # which follows every link to the first advertisement
            assert await read_context_entries(source) == {published.context: set(hashes(*range(version, version + 40)))}
            assert len(adverts) == 2 * version + 1
        assert number <= version <= number + 1
        assert version > number or str(publisher.head) == head
        await publisher.publish(b"after", BITSWAP, hashes("after"), supersedes=[published.context])
        assert await store.sweep(1000) == 0  # nothing is left of the interrupted step
    finally:
        await store.close()
