"""The shard map store: the same guarantees in memory, in a directory and in a real S3."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from argosy.base.errors import ArgosyError, Conflict, Invalid, Unavailable
from argosy.jobs.backends.shard_map_store import open_shard_map_store
from argosy.jobs.cluster.shard_map import ShardMap, ShardMapCache, ShardMapStore, first_map
from argosy.jobs.settings import ShardStoreSettings
from tests.servers.s3 import S3


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture(params=["memory", "file", "s3"])
def maps(request: pytest.FixtureRequest, tmp_path: Path) -> ShardMapStore:
    if request.param == "s3":
        server: S3 = request.getfixturevalue("s3")
        return open_shard_map_store(f"{server.url}/{tmp_path.name}", server.settings(), {})
    return open_shard_map_store(
        "memory://" if request.param == "memory" else f"file://{tmp_path}/new", ShardStoreSettings(), {}
    )


def map_of(version: int, name: str = "x") -> ShardMap:
    return ShardMap(version, first_map(1, lambda: name, 0).shards)


async def test_an_empty_store_has_no_map(maps: ShardMapStore) -> None:
    assert await maps.newest() is None


async def test_the_newest_version_is_found_from_any_known_version(maps: ShardMapStore) -> None:
    for version in range(1, 12):
        await maps.add(map_of(version, f"v{version}"))
    for known in range(11):
        assert await maps.newest(known) == map_of(11, "v11")
    assert await maps.newest(11) is None


async def test_a_version_cannot_be_overwritten(maps: ShardMapStore) -> None:
    await maps.add(map_of(1, "first"))
    with pytest.raises(Conflict, match="version 1"):
        await maps.add(map_of(1, "second"))
    assert await maps.newest() == map_of(1, "first")


async def test_concurrent_writes_of_one_version_have_one_winner(maps: ShardMapStore) -> None:
    answers = await asyncio.gather(*(maps.add(map_of(1, f"n{n}")) for n in range(8)), return_exceptions=True)
    winners = [f"n{number}" for number, answer in enumerate(answers) if answer is None]
    assert len(winners) == 1
    assert sum(isinstance(answer, Conflict) for answer in answers) == 7
    assert await maps.newest() == map_of(1, winners[0])


async def test_nodes_that_start_together_agree_on_the_first_map(maps: ShardMapStore) -> None:
    ids = count(1)
    first_maps = await asyncio.gather(
        *(ShardMapCache(maps).start(2, lambda: f"shard-{next(ids)}", 0) for _ in range(4))
    )
    assert len({tuple(spec.id for spec in each.shards) for each in first_maps}) == 1


async def test_observers_are_called_when_the_map_changes(maps: ShardMapStore) -> None:
    client, versions = ShardMapCache(maps), []
    client.observers.append(lambda: versions.append(client.current.version))
    with pytest.raises(Unavailable, match="not been read"):
        _ = client.current
    await client.start(1, lambda: "x", 0)
    await maps.add(map_of(2, "y"))
    assert [spec.name for spec in await client.units()] == ["y"]
    await client.units()
    assert versions == [1, 2]


async def test_an_unreadable_map_does_not_stop_a_node_with_an_older_one(tmp_path: Path) -> None:
    client = ShardMapCache(open_shard_map_store(f"file://{tmp_path}", ShardStoreSettings(), {}))
    known = await client.start(1, lambda: "x", 0)
    (tmp_path / "shards-00000002.json").write_text('{"version": 2, "shards": [], "format": 9}')
    with pytest.raises(Unavailable, match="format 9"):
        await client.units()
    assert client.current == known


async def test_a_directory_stores_the_map_without_temporary_files(tmp_path: Path) -> None:
    maps = open_shard_map_store(f"file://{tmp_path}", ShardStoreSettings(), {})
    await maps.add(map_of(1))
    with pytest.raises(Conflict):
        await maps.add(map_of(1))
    assert os.listdir(tmp_path) == ["shards-00000001.json"]


async def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot write to"):
        await open_shard_map_store(f"file://{tmp_path}/file", ShardStoreSettings(), {}).add(map_of(1))


async def test_an_unreachable_or_refusing_s3_is_reported(s3: S3) -> None:
    with pytest.raises(Unavailable, match="not reachable"):
        await open_shard_map_store("s3://bucket", replace(s3.settings(), s3_endpoint="http://127.0.0.1:9"), {}).newest()
    missing = open_shard_map_store("s3://no-such-bucket", s3.settings(), {})
    with pytest.raises(ArgosyError):
        await missing.newest()
    with pytest.raises(Unavailable, match="404"):
        await missing.add(map_of(1))


def test_an_invalid_storage_url_is_rejected() -> None:
    with pytest.raises(Invalid, match="invalid URL"):
        open_shard_map_store("ftp://x", ShardStoreSettings(), {})
