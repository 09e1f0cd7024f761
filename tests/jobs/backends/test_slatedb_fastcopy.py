"""Block copies of bytes give the same bytes as the binding's own loop."""

import asyncio
import logging
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slatedb.uniffi import Error, PutOptions, Ttl, WriteBatch

from argosy.base.kv import Batch
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.backends.slatedb_fastcopy import FITS_VERSION, BatchCopier, copier

# Writes with the unmodified binding, and reads what the block copies wrote.
STOCK = """
import asyncio, sys
from slatedb.uniffi import DbBuilder, ObjectStoreBuilder, ObjectStoreType, WriteBatch

async def main(folder):
    builder = ObjectStoreBuilder(ObjectStoreType.LOCAL)
    builder.with_config("local_path", folder)
    db = await DbBuilder("a", builder.build()).build()
    for size in (0, 1, 255, 256, 65_536):
        assert await db.get(b"fast-%d" % size) == bytes(range(256)) * (size // 256) + bytes(size % 256), size
    batch = WriteBatch()
    for size in (0, 1, 255, 256, 65_536):
        batch.put(b"stock-%d" % size, bytes(range(256)) * (size // 256) + bytes(size % 256))
    batch.delete(b"fast-1")
    await (await db.write(batch)).await_durable()
    await db.shutdown()

asyncio.run(main(sys.argv[1]))
"""
SIZES = (0, 1, 255, 256, 65_536)


def value_of(size: int) -> bytes:
    return bytes(range(256)) * (size // 256) + bytes(size % 256)


async def test_block_copies_and_the_binding_are_compatible(tmp_path: Path) -> None:
    store = await SlateShardStore.open(f"file://{tmp_path}")
    assert copier.is_fast, "the block copies support the installed version"
    rows = await store.shard("a")
    batch = Batch()
    for size in SIZES:
        batch.put(b"fast-%d" % size, value_of(size))
    await rows.write(batch)
    await rows.close()
    stock = await asyncio.create_subprocess_exec(sys.executable, "-c", STOCK, str(tmp_path))
    assert await stock.wait() == 0
    rows = await store.shard("a")
    assert await rows.get_many([b"stock-%d" % size for size in SIZES]) == [value_of(size) for size in SIZES]
    assert await rows.get(b"fast-1") is None
    await rows.close()
    await store.close()


@settings(max_examples=30, deadline=None)
@given(pairs=st.dictionaries(st.binary(min_size=1, max_size=40), st.binary(max_size=300), max_size=20))
async def test_any_bytes_round_trip(pairs: dict[bytes, bytes]) -> None:
    store = await SlateShardStore.open("memory://")
    rows = await store.shard("a")
    batch = Batch()
    for key, value in pairs.items():
        batch.put(key, value)
    await rows.write(batch)
    assert [pair async for pair in rows.scan(b"", None)] == sorted(pairs.items())
    await rows.close()
    await store.close()


async def test_rows_with_an_expiry_are_read() -> None:
    store = await SlateShardStore.open("memory://")
    rows = await store.shard("a")
    hour = PutOptions(ttl=Ttl.EXPIRE_AFTER_MILLIS(3_600_000))
    native = WriteBatch()
    native.put_with_options(b"a", b"1", hour)
    await rows._db.write(native)
    await rows.write(Batch().put(b"b", b"2"))
    assert [pair async for pair in rows.scan(b"", None)] == [(b"a", b"1"), (b"b", b"2")]
    await rows.close()
    await store.close()


@pytest.mark.parametrize("installed", ["0.16.9", "0.18.0"])
def test_an_unsupported_version_leaves_the_binding_unchanged_and_logs_once(
    installed: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = BatchCopier()
    untouched = ModuleType("binding")
    with caplog.at_level(logging.WARNING, logger="argosy"):
        assert not other.install(untouched, installed=installed)
        assert not other.install(untouched, installed=installed)
    assert not other.is_fast
    assert [installed in record.getMessage() for record in caplog.records] == [True]


def test_a_binding_with_other_names_is_left_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="argosy"):
        assert not BatchCopier().install(ModuleType("binding"), installed=FITS_VERSION)
    assert "_UniffiLib" in caplog.text


async def test_without_block_copies_results_are_the_same() -> None:
    store = await SlateShardStore.open("memory://")
    rows = await store.shard("a")
    native = WriteBatch()
    BatchCopier().fill(native, [(b"a", b"1"), (b"b", b"2"), (b"a", None)])
    await rows._db.write(native)
    assert [pair async for pair in rows.scan(b"", None)] == [(b"b", b"2")]
    await rows.close()
    await store.close()


def test_a_library_error_is_raised_unchanged() -> None:
    assert copier.install()
    native = WriteBatch()
    with pytest.raises(Error.Invalid, match="empty"):
        copier.fill(native, [(b"", b"a key may not be empty")])
