"""Files that must survive a power loss are synced before they are reported as durable."""

import os
from pathlib import Path

import pytest

from argosy.base.errors import Unavailable
from argosy.base.kv import Batch
from argosy.jobs.backends.fsync import DirSync, remove_empty_manifests
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.settings import ShardStoreSettings


@pytest.fixture
def fsync_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the synced files, in order; os.fsync is still called."""
    names: list[str] = []
    fsync = os.fsync

    def record_fsync(handle: int) -> None:
        fsync(handle)
        names.append(os.readlink(f"/proc/self/fd/{handle}"))

    monkeypatch.setattr(os, "fsync", record_fsync)
    return names


def shard_folder(folder: Path, *, wal: range = range(1, 3)) -> Path:
    for name in ("wal", "manifest", "compactions", "compacted"):
        (folder / name).mkdir()
    for number in wal:
        wal_file(folder, number)
    return folder


def wal_file(folder: Path, number: int) -> str:
    path = folder / "wal" / f"{number:020d}.sst"
    path.write_bytes(b"rows")
    return str(path)


def test_every_file_is_synced_when_a_shard_opens(tmp_path: Path, fsync_log: list[str]) -> None:
    folder = shard_folder(tmp_path)
    (folder / "manifest" / "1.manifest").write_bytes(b"1")
    DirSync(folder).sync_all()
    files = {str(path) for path in folder.rglob("*")} | {str(folder), str(folder.parent)}
    assert files - set(fsync_log) == set()


def test_only_new_wal_files_are_synced_afterwards(tmp_path: Path, fsync_log: list[str]) -> None:
    sync = DirSync(shard_folder(tmp_path))
    sync.sync_all()
    fsync_log.clear()
    new = [wal_file(tmp_path, 3), wal_file(tmp_path, 4)]
    sync.sync_files()
    sync.sync_names()
    assert fsync_log == [*new, str(tmp_path / "wal")]


def test_a_wal_file_deleted_during_opening_does_not_fail_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shard_folder(tmp_path, wal=range(1, 4))
    collected = folder / "wal" / f"{2:020d}.sst"
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (fsync(handle), collected.unlink(missing_ok=True)))
    sync = DirSync(folder)
    sync.sync_all()
    assert not collected.exists()
    wal_file(folder, 9)
    collected = folder / "wal" / f"{11:020d}.sst"
    wal_file(folder, 11)
    after = wal_file(folder, 12)
    sync.sync_files()
    fsync_log: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: fsync_log.append(os.readlink(f"/proc/self/fd/{handle}")))
    sync.sync_files()
    assert after not in fsync_log, "it is already synced"


def test_gaps_in_wal_numbers_hide_no_files(tmp_path: Path, fsync_log: list[str]) -> None:
    sync = DirSync(shard_folder(tmp_path))
    sync.sync_all()
    fsync_log.clear()
    new = [wal_file(tmp_path, 7), wal_file(tmp_path, 9)]
    sync.sync_files()
    assert fsync_log == new
    after = wal_file(tmp_path, 10)
    sync.sync_files()
    assert fsync_log == [*new, after]


def test_tables_are_synced_before_the_manifest_that_names_them(tmp_path: Path, fsync_log: list[str]) -> None:
    sync = DirSync(shard_folder(tmp_path))
    sync.sync_all()
    fsync_log.clear()
    (tmp_path / "manifest" / "2.manifest").write_bytes(b"2")
    (tmp_path / "manifest" / "3.manifest#1").write_bytes(b"being written")
    (tmp_path / "compacted" / "table.sst").write_bytes(b"table")
    sync.sync_others()
    assert [name.removeprefix(f"{tmp_path}/") for name in fsync_log] == [
        "compacted/table.sst",
        "compacted",
        "manifest/2.manifest",
        "manifest",
    ]
    sync.sync_others()
    assert len(fsync_log) == 4, "without new files nothing is synced"


async def test_no_write_is_acknowledged_before_its_files_are_synced(tmp_path: Path, fsync_log: list[str]) -> None:
    store = await SlateShardStore.open(f"file://{tmp_path}")
    rows = await store.shard("a")
    for number in range(5):
        names_before = fsync_log.count(str(tmp_path / "a" / "wal"))
        await rows.write(Batch().put(b"%d" % number, b"1"))
        there = {str(path) for path in (tmp_path / "a" / "wal").iterdir() if "#" not in path.name}
        assert there - set(fsync_log) == set()
        assert fsync_log.count(str(tmp_path / "a" / "wal")) > names_before
    await rows.close()
    others = {str(path) for name in ("manifest", "compacted") for path in (tmp_path / "a" / name).iterdir()}
    assert others - set(fsync_log) == set()
    await store.close()


async def test_fsync_can_be_disabled(tmp_path: Path, fsync_log: list[str]) -> None:
    store = await SlateShardStore.open(f"file://{tmp_path}", ShardStoreSettings(fsync="never"))
    rows = await store.shard("a")
    await rows.write(Batch().put(b"a", b"1"))
    assert fsync_log == []
    await rows.close()
    await store.close()


async def test_a_failed_fsync_ends_the_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await SlateShardStore.open(f"file://{tmp_path}")
    rows = await store.shard("a")

    def failing_fsync(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing_fsync)
        with pytest.raises(Unavailable, match="Input/output error"):
            await rows.write(Batch().put(b"a", b"1"))
    for call in (rows.write(Batch().put(b"b", b"1")), rows.get(b"a")):
        with pytest.raises(Unavailable, match="Input/output error"):
            await call  # a second fsync would succeed without writing the data
    await rows.close()
    await store.close()


async def test_an_empty_manifest_after_a_power_loss_does_not_fail_the_shard(tmp_path: Path) -> None:
    store = await SlateShardStore.open(f"file://{tmp_path}")
    rows = await store.shard("a")
    await rows.write(Batch().put(b"a", b"1"))
    await rows.close()
    for name in ("manifest", "compactions"):
        newest = max((tmp_path / "a" / name).iterdir())
        torn_manifest = newest.with_name(f"{int(newest.stem) + 1:020d}{newest.suffix}")
        torn_manifest.touch()
    again = await store.shard("a")
    assert await again.get(b"a") == b"1"
    await again.close()
    await store.close()


def test_the_only_manifest_is_never_removed(tmp_path: Path) -> None:
    folder = shard_folder(tmp_path)
    (folder / "manifest" / "1.manifest").touch()
    assert remove_empty_manifests(folder) == []
    assert remove_empty_manifests(tmp_path / "nothing here") == []
