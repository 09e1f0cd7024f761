"""The shard store: URLs, listing, cloning, deleting."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from argosy.base.errors import Conflict, Fenced, Invalid, NotFound
from argosy.base.kv import Batch, OrderedKV
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.settings import ShardStoreSettings
from tests.servers.s3 import S3


@pytest.fixture(params=["memory", "file", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SlateShardStore]:
    settings, url = ShardStoreSettings(), "memory://"
    if request.param == "file":
        url = f"file://{tmp_path}/jobs with a space"
    if request.param == "s3":
        server: S3 = request.getfixturevalue("s3_server")
        settings, url = server.settings(), f"{server.url}/opening/{request.node.name[:20].replace('[', '-')}"
    new_store = await SlateShardStore.open(url, settings)
    yield new_store
    await new_store.close()


async def fill(store: SlateShardStore, shard: str, *keys: bytes) -> None:
    rows = await store.shard(shard)
    batch = Batch()
    for key in keys:
        batch.put(key, b"1")
    await rows.write(batch)
    await rows.close()


async def keys_of(rows: OrderedKV) -> list[bytes]:
    return [key async for key, _ in rows.scan(b"", None)]


async def test_shards_are_listed_and_isolated(store: SlateShardStore) -> None:
    assert await store.shards() == []
    await fill(store, "b", b"1")
    await fill(store, "a", b"2", b"3")
    assert await store.shards() == ["a", "b"]
    rows = await store.shard("a")
    assert await keys_of(rows) == [b"2", b"3"]
    await rows.close()


async def test_a_clone_has_the_rows_of_its_range_and_is_independent(store: SlateShardStore) -> None:
    await fill(store, "parent", b"a", b"b", b"c", b"d")
    await store.clone("parent", "left", end=b"c")
    await store.clone("parent", "right", start=b"c")
    await store.clone("parent", "whole")
    left, right, whole = await store.shard("left"), await store.shard("right"), await store.shard("whole")
    assert await keys_of(left) == [b"a", b"b"]
    assert await keys_of(right) == [b"c", b"d"]
    assert await keys_of(whole) == [b"a", b"b", b"c", b"d"]
    await left.write(Batch().delete(b"a").put(b"z", b"1"))
    parent = await store.shard("parent")
    assert await keys_of(left) == [b"b", b"z"]
    assert await keys_of(parent) == [b"a", b"b", b"c", b"d"]
    for rows in (left, right, whole, parent):
        await rows.close()


async def test_a_clone_of_an_open_parent_is_complete_and_fences_it(store: SlateShardStore) -> None:
    parent = await store.shard("parent")
    await parent.write(Batch().put(b"only in the write-ahead file", b"1"))
    await store.clone("parent", "child")
    child = await store.shard("child")
    assert await keys_of(child) == [b"only in the write-ahead file"]
    with pytest.raises(Fenced):
        await parent.write(Batch().put(b"late", b"1"))
    await child.close()
    await parent.close()


async def test_a_deleted_shard_is_gone_and_its_name_is_reusable(store: SlateShardStore) -> None:
    await fill(store, "a", b"1")
    await store.delete("a")
    assert await store.shards() == []
    rows = await store.shard("a")
    assert await keys_of(rows) == []
    await rows.close()


async def test_a_parent_cannot_be_deleted_while_its_clone_reads_its_tables(store: SlateShardStore) -> None:
    await fill(store, "parent", b"a")
    await store.clone("parent", "child")
    with pytest.raises(Conflict, match="child"):
        await store.delete("parent")
    child = await store.shard("child")
    assert await keys_of(child) == [b"a"]
    await child.close()


async def test_a_missing_shard_cannot_be_cloned_or_deleted(in_memory: SlateShardStore) -> None:
    with pytest.raises(NotFound, match="nobody"):
        await in_memory.clone("nobody", "child")
    with pytest.raises(NotFound, match="nobody"):
        await in_memory.delete("nobody")


async def test_a_clone_never_overwrites(in_memory: SlateShardStore) -> None:
    await fill(in_memory, "parent", b"a")
    await fill(in_memory, "child", b"b")
    with pytest.raises(Conflict, match="already"):
        await in_memory.clone("parent", "child")


@pytest.mark.parametrize("shard", ["", ".", "..", "a/b", "../a", ".hidden", "a b", "x" * 101, "é"])
async def test_an_invalid_shard_id_is_rejected(in_memory: SlateShardStore, shard: str) -> None:
    with pytest.raises(Invalid, match="invalid shard id"):
        await in_memory.shard(shard)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory",
        "memory://name",
        "file://host/folder",
        "file:folder",
        "s3://",
        "gs://bucket",
        "redis://localhost",
        "s3://id:secret@bucket/prefix",
        "s3://bucket/a?b=c",
        "s3://bucket/../up",
        "s3://bucket/a//b",
    ],
)
async def test_an_invalid_storage_url_is_rejected(url: str) -> None:
    with pytest.raises(Invalid) as rejection:
        await SlateShardStore.open(url, ShardStoreSettings(s3_access_key_id="id", s3_secret_access_key="key"))
    assert "secret" not in str(rejection.value)


async def test_a_directory_that_cannot_be_created_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Invalid, match="cannot use directory"):
        await SlateShardStore.open(f"file://{tmp_path}/file/jobs")


def test_contradictory_settings_are_reported() -> None:
    assert list(ShardStoreSettings().check()) == []
    assert "twice" in " ".join(ShardStoreSettings(l0_bytes=200 << 20).check())
    assert "must be set together" in " ".join(ShardStoreSettings(s3_access_key_id="id").check())
