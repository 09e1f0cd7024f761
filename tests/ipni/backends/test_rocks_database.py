"""A folder that is no store, or not accessible, is rejected with an error that contains the remedy."""

import subprocess
import sys
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from argosy.base.errors import Invalid, Unavailable
from argosy.ipni.backends.rocks import RocksStore
from tests.contracts.index_store_stage import many, sha, value

OPEN_ELSEWHERE = """
import asyncio, sys
from argosy.base.errors import Unavailable
from argosy.ipni.backends.rocks import RocksStore
try:
    asyncio.run(RocksStore.open(sys.argv[1]))
except Unavailable as error:
    print(error)
"""

FILL_THE_DISK = """
import asyncio, resource, sys
from argosy.base.errors import Unavailable
from argosy.ipni.backends.rocks import RocksStore
from tests.contracts.index_store_stage import many, value

async def fill():
    store = await RocksStore.open(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    try:
        for at in range(100):
            await store.put(value(), many(f"chunk {at}", 1000), {b"cursor": b"%d" % at})
    except Unavailable as error:
        print(error)

asyncio.run(fill())
"""


async def store_in(database: Path) -> None:
    store = await RocksStore.open(database)
    await store.put(value(), many("file", 100))
    await store.close()


async def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear all")
    with pytest.raises(Invalid, match=r"letter\.txt.*use an empty directory"):
        await RocksStore.open(tmp_path)
    assert names(tmp_path) == ["letter.txt"]


async def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear all")
    with pytest.raises(Invalid, match="not a directory"):
        await RocksStore.open(tmp_path / "letter.txt")


async def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    other = Rdict(str(tmp_path), Options(raw_mode=True))
    other[b"key"] = b"value"
    other.close()
    with pytest.raises(Invalid, match="another program"):
        await RocksStore.open(tmp_path)


async def test_a_store_of_another_layout_is_refused(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path)
    store._database.families["marks"][b"layout"] = b"99"
    await store.close()
    with pytest.raises(Invalid, match=r"layout b'99'.*reads 1"):
        await RocksStore.open(tmp_path)


@pytest.mark.parametrize("is_double_hashed", [False, True])
async def test_second_hashes_are_stored_from_the_start_or_never(tmp_path: Path, is_double_hashed: bool) -> None:
    await (await RocksStore.open(tmp_path, is_double_hashed=is_double_hashed)).close()
    with pytest.raises(Invalid, match=r"with(out)? second hashes"):
        await RocksStore.open(tmp_path, is_double_hashed=not is_double_hashed)
    await (await RocksStore.open(tmp_path, is_double_hashed=is_double_hashed)).close()


async def test_an_interrupted_first_start_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("LOCK", "LOG", "IDENTITY", "MANIFEST-000001", "000001.dbtmp"):
        (tmp_path / name).touch()
    store = await RocksStore.open(tmp_path)
    await store.put(value(), [sha("file")])
    assert await store.find([sha("file")]) == [(value(),)]
    await store.close()


@pytest.mark.parametrize("damaged", ["MANIFEST-*", "CURRENT", "*.sst"])
async def test_a_damaged_store_is_refused(tmp_path: Path, damaged: str) -> None:
    await store_in(tmp_path)
    damage(tmp_path, damaged)
    with pytest.raises(Invalid, match=r"damaged.*empty directory"):
        await RocksStore.open(tmp_path)


def damage(database: Path, pattern: str) -> None:
    for each in database.glob(pattern):
        each.write_bytes(b"\x00garbage" * 100)


def names(database: Path) -> list[str]:
    return [each.name for each in database.iterdir()]


async def test_a_second_process_gets_an_error_naming_the_first(tmp_path: Path) -> None:
    store = await RocksStore.open(tmp_path)
    with pytest.raises(Unavailable, match="open in another process"):
        await RocksStore.open(tmp_path)
    assert "is open in another process; stop that one" in child(OPEN_ELSEWHERE, tmp_path)
    await store.close()
    assert child(OPEN_ELSEWHERE, tmp_path) == ""


async def test_a_full_disk_is_reported_and_earlier_writes_stay(tmp_path: Path) -> None:
    assert "is full; free space" in child(FILL_THE_DISK, tmp_path)
    store = await RocksStore.open(tmp_path)
    cursor = int(await store.read(b"cursor") or b"-1")
    assert cursor > 3
    for at in range(cursor + 1):
        assert await store.find(many(f"chunk {at}", 1000)) == [(value(),)] * 1000
    await store.close()


def child(program: str, database: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program, str(database)], capture_output=True, text=True, check=True)
    return done.stdout
