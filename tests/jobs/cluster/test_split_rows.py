"""Rows of other shards after a split: hidden from reads, and deleted in steps."""

from msgspec.msgpack import encode

from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.backends.memory import MemoryDisk
from argosy.jobs.cluster import split_rows
from argosy.jobs.cluster.shard_map import HashRange
from argosy.jobs.cluster.split_rows import (
    ORDER,
    Cleanup,
    CleanupProgress,
    OwnedRowsView,
    RowOwnership,
    clean_chunk,
    read_progress,
    tenant_of,
)
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.model import RunAttempt, TaskLease

LOW = HashRange("", "8000000000000000")  # has "-" and "tenant-0"
MINE, OTHERS = "tenant-0", "acme"


def rows_of(tenant: str) -> dict[bytes, bytes]:
    """A row of each kind."""
    lease = TaskLease("w", RunAttempt(f"task-{tenant}", tenant, "j", 1, 1), "g", 0, 0)
    rows = {keys.key(kind, tenant, "j", 1): b"v" for kind in ORDER}
    for kind in (keys.TASK, keys.LEASE, keys.EXPIRY):
        del rows[keys.key(kind, tenant, "j", 1)]
    return {
        **rows,
        keys.key(keys.TASK, "g", 5, 50, "j", 1, tenant): b"v",
        keys.key(keys.LEASE, f"task-{tenant}"): encode(lease),
        keys.key(keys.EXPIRY, 7, tenant, "j"): b"",
    }


async def fill_store(*tenants: str, more: dict[bytes, bytes] | None = None) -> GroupCommitStore:
    store = GroupCommitStore(await MemoryDisk().open())
    batch = Batch()
    for rows in (*map(rows_of, tenants), more or {}):
        for key, value in rows.items():
            batch.put(key, value)
    await store.stage(batch)
    return store


def test_the_example_tenants_are_in_different_halves() -> None:
    assert LOW.has(MINE)
    assert not LOW.has(OTHERS)


def test_every_kind_of_row_has_its_tenant() -> None:
    kinds = {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, int) and value < 256}
    assert kinds - set(ORDER) == {keys.BUCKET, keys.META}
    assert {tenant_of(key, value) for key, value in rows_of(MINE).items()} == {MINE}
    assert tenant_of(keys.key(keys.META, "x"), b"") is None
    assert tenant_of(keys.key(keys.BUCKET, "x"), b"") is None


async def test_a_scan_shows_only_the_shards_own_rows_within_its_limit() -> None:
    async with await fill_store(MINE, OTHERS, "-") as store:
        rows = OwnedRowsView(store, RowOwnership(LOW), is_clean=False)
        tenants = {tenant_of(key, value) async for key, value in rows.scan(b"\x01", None)}
        assert tenants == {MINE, "-"}
        assert len([pair async for pair in rows.scan(b"\x01", None, limit=3)]) == 3
        assert [pair async for pair in rows.scan(b"\x01", None, limit=0)] == []
        backwards = [key async for key, _ in rows.scan(b"\x01", None, reverse=True)]
        assert backwards == sorted(backwards, reverse=True)
        rows.is_clean = True
        assert OTHERS in {tenant_of(key, value) async for key, value in rows.scan(b"\x01", None)}


async def test_cleanup_deletes_exactly_the_rows_of_other_shards() -> None:
    many = {keys.key(keys.JOB, OTHERS, f"j{number}"): b"v" for number in range(2 * split_rows.STEP_ROWS)}
    meta = {keys.key(keys.META, "other"): b"v", keys.key(keys.BUCKET, "b"): b"v"}
    async with await fill_store(MINE, OTHERS, more={**many, **meta}) as store:
        progress = await read_progress(store, "s", has_parent=True)
        assert progress.status is Cleanup.PENDING
        statuses, steps = set(), 0
        while not progress.is_done:
            progress = await clean_chunk(store, RowOwnership(LOW), progress, lambda: 42)
            statuses.add(progress.status)
            steps += 1
        left = {key: value async for key, value in store.scan(b"\x01", None)}
        del left[split_rows.CLEANUP]
        assert left == {**rows_of(MINE), **meta}
        assert progress.deleted == len(rows_of(OTHERS)) + len(many)
        assert progress.done_at == 42
        assert statuses == {Cleanup.RUNNING, Cleanup.DONE}
        assert steps > len(ORDER)


async def test_cleanup_resumes_where_it_stopped() -> None:
    disk = MemoryDisk()
    store = GroupCommitStore(await disk.open())
    batch = Batch()
    for tenant in (MINE, OTHERS):
        for key, value in rows_of(tenant).items():
            batch.put(key, value)
    await store.stage(batch)
    progress = await read_progress(store, "s", has_parent=True)
    for _ in range(3):
        progress = await clean_chunk(store, RowOwnership(LOW), progress, lambda: 0)
    await store.close()
    async with GroupCommitStore(await disk.open()) as again:
        assert await read_progress(again, "s", has_parent=True) == progress


async def test_cleanup_progress_of_the_parent_does_not_apply_to_the_child() -> None:
    async with await fill_store(more={split_rows.CLEANUP: encode(CleanupProgress("parent", len(ORDER)))}) as store:
        assert not (await read_progress(store, "child", has_parent=True)).is_done
        assert (await read_progress(store, "parent", has_parent=True)).is_done


async def test_a_shard_without_a_parent_needs_no_cleanup() -> None:
    async with await fill_store() as store:
        assert (await read_progress(store, "s", has_parent=False)).status is Cleanup.DONE


def test_the_cache_of_tenants_is_bounded() -> None:
    owned = RowOwnership(LOW)
    assert sum(owned.has_tenant(f"t{number}") for number in range(RowOwnership.CACHED_MAX + 5)) > 0
    assert len(owned._known) <= RowOwnership.CACHED_MAX
