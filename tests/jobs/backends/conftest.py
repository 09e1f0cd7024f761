"""One real S3 server for the tests of the shard store."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from argosy.jobs.backends.shard_store import SlateShardStore
from tests.servers.s3 import S3


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture
async def in_folder(tmp_path: Path) -> AsyncIterator[SlateShardStore]:
    store = await SlateShardStore.open(f"file://{tmp_path}")
    yield store
    await store.close()


@pytest.fixture
async def in_memory() -> AsyncIterator[SlateShardStore]:
    store = await SlateShardStore.open("memory://")
    yield store
    await store.close()
