"""SlateDB as a store: fencing, the lease check before reads, bounded waits, pipelining."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from argosy.base.errors import Fenced, Unavailable
from argosy.base.kv import Batch
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.backends.slatedb import GETS_AT_ONCE_MAX, SCAN_ROWS, SlateKV
from argosy.jobs.group_commit import GroupCommitStore
from tests.servers.s3 import S3

Call = Callable[[SlateKV], Awaitable[object]]
READS: dict[str, Call] = {
    "get": lambda rows: rows.get(b"a"),
    "get_many": lambda rows: rows.get_many([b"a"]),
    "scan": lambda rows: anext(rows.scan(b"", None)),
}


async def test_a_replaced_writer_is_fenced_from_its_next_write_on(
    in_folder: SlateShardStore,
) -> None:
    old = await in_folder.shard("a")
    await old.write(Batch().put(b"a", b"old"))
    new = await in_folder.shard("a")
    assert await new.get(b"a") == b"old"
    with pytest.raises(Fenced):
        await old.write(Batch().put(b"a", b"late"))
    for call in (*(read(old) for read in READS.values()), old.write(Batch().put(b"b", b"later"))):
        with pytest.raises(Fenced):
            await call
    assert await new.get(b"a") == b"old"
    await new.write(Batch().put(b"a", b"new"))
    await old.close()
    await new.close()


async def test_a_fenced_ledger_ends_and_its_staged_writes_are_lost(in_folder: SlateShardStore) -> None:
    old = GroupCommitStore(await in_folder.shard("a"))
    await old.stage(Batch().put(b"a", b"1"))
    new = GroupCommitStore(await in_folder.shard("a"))
    outcomes = await asyncio.gather(
        *(old.stage(Batch().put(b"late-%d" % number, b"1")) for number in range(10)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {Fenced}
    assert isinstance(old.failure, Fenced)
    assert [key async for key, _ in new.scan(b"", None)] == [b"a"]
    await old.close()
    await new.close()


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_reads_fail_while_the_lease_is_in_doubt(in_memory: SlateShardStore, read: Call) -> None:
    stands = True
    rows = await in_memory.shard("a", may_serve=lambda: stands)
    await rows.write(Batch().put(b"a", b"1"))
    stands = False
    with pytest.raises(Unavailable, match="lease"):
        await read(rows)
    stands = True
    await read(rows)
    await rows.close()


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_a_read_that_outlives_its_lease_fails(in_memory: SlateShardStore, read: Call) -> None:
    checks: list[bool] = []

    def holds_once() -> bool:
        checks.append(not checks)
        return checks[-1]

    rows = await in_memory.shard("a", may_serve=holds_once)
    await rows.write(Batch().put(b"a", b"1"))
    with pytest.raises(Unavailable, match="lease"):
        await read(rows)
    assert len(checks) >= 2
    await rows.close()


async def test_writes_are_readable_before_durability_and_become_durable_in_order(in_folder: SlateShardStore) -> None:
    rows = await in_folder.shard("a")
    order: list[int] = []
    waiting = []
    for number in range(5):
        durable = asyncio.ensure_future(await rows.write_pipelined({b"a": b"%d" % number}))
        durable.add_done_callback(lambda _, number=number: order.append(number))
        waiting.append(durable)
        assert await rows.get(b"a") == b"%d" % number
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3, 4]
    await rows.close()


async def test_a_write_during_a_flush_is_not_covered_by_it(in_folder: SlateShardStore) -> None:
    rows = await in_folder.shard("a")
    flushes: list[object] = []
    later: list[Awaitable[None]] = []
    flush = rows._db.flush_with_options

    async def flush_then_write(options: object) -> None:
        await flush(options)
        flushes.append(options)
        if not later:
            later.append(await rows.write_pipelined({b"b": b"1"}))

    rows._db.flush_with_options = flush_then_write
    await rows.write(Batch().put(b"a", b"1"))
    await later[0]
    assert len(flushes) == 2
    await rows.close()


async def test_a_cancelled_caller_blocks_no_other(in_folder: SlateShardStore) -> None:
    rows = await in_folder.shard("a")
    cancelled = asyncio.ensure_future(rows.write(Batch().put(b"a", b"1")))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await rows.write(Batch().put(b"b", b"1"))
    again = await in_folder.shard("a")
    assert await again.get(b"b") == b"1"
    await rows.close()
    await again.close()


async def test_many_rows_are_read_in_several_calls(in_memory: SlateShardStore) -> None:
    rows = await in_memory.shard("a")
    keys = [b"%06d" % number for number in range(2 * SCAN_ROWS + GETS_AT_ONCE_MAX + 1)]
    batch = Batch()
    for key in keys:
        batch.put(key, key)
    await rows.write(batch)
    assert [key async for key, _ in rows.scan(b"", None)] == keys
    backwards = [key async for key, _ in rows.scan(b"", None, reverse=True, limit=SCAN_ROWS + 70)]
    assert backwards == keys[::-1][: SCAN_ROWS + 70]
    assert await rows.get_many(keys) == keys
    await rows.close()


async def test_a_closed_shard_has_stored_everything(in_folder: SlateShardStore) -> None:
    rows = await in_folder.shard("a")
    await rows.write_pipelined({b"a": b"1"})
    await rows.close()
    again = await in_folder.shard("a")
    assert await again.get(b"a") == b"1"
    await again.close()


async def test_stalled_storage_times_out(s3_server: S3) -> None:
    store = await SlateShardStore.open(f"{s3_server.url}/still", s3_server.settings(durable_s_max=3.0, open_s_max=3.1))
    rows = await store.shard("a")
    await rows.write(Batch().put(b"a", b"1"))
    s3_server.pause()
    try:
        late, unopened = await asyncio.gather(
            rows.write(Batch().put(b"b", b"1")), store.shard("b"), return_exceptions=True
        )
    finally:
        s3_server.resume()
    assert isinstance(late, Unavailable)
    assert "timed out after 3 s" in str(late)
    assert isinstance(unopened, Unavailable)
    assert "timed out after 3.1 s" in str(unopened)
    with pytest.raises(Unavailable, match="timed out"):
        await rows.get(b"a")  # the outcome of the write is unknown, so the shard stays closed
    await rows.close()
    await store.close()
