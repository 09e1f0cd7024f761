"""Snapshots of indexes on the disk: restored only if current, of the same build, and sound."""

from pathlib import Path

import pytest

from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.fleet.snapshots import Snapshots
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.index.wire import dump
from argosy.search.model import Branch, Repository
from argosy.search.skip_policy import Policy

NOW = (Branch("main", "c1"),)
RECIPE = "as ever"


def index_of(name: str, text: bytes = b"anchor\n") -> Index:
    return build(MemorySource(Repository(name, branches=NOW), [MemoryFile(b"a.txt", text)]), Policy())


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(str(tmp_path / "snapshots"), bytes_max=1 << 30)


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "snapshots").iterdir())


def test_a_saved_snapshot_is_restored(snapshots: Snapshots) -> None:
    index = index_of("a")
    snapshots.save(index, RECIPE)
    found = snapshots.restore("a", NOW, RECIPE)
    assert found is not None
    assert list(dump(found)) == list(dump(index))


def test_a_snapshot_that_was_never_saved_is_missing(snapshots: Snapshots) -> None:
    assert snapshots.restore("a", NOW, RECIPE) is None
    snapshots.delete("a")


@pytest.mark.parametrize(
    ("branches", "recipe"), [((Branch("main", "c2"),), RECIPE), ((Branch("dev", "c1"),), RECIPE), (NOW, "otherwise")]
)
def test_a_snapshot_of_another_version_or_build_is_deleted(
    snapshots: Snapshots, tmp_path: Path, branches: tuple[Branch, ...], recipe: str
) -> None:
    snapshots.save(index_of("a"), RECIPE)
    assert snapshots.restore("a", branches, recipe) is None
    assert files(tmp_path) == []


@pytest.mark.parametrize("place", [0, 2, 10, 60, 500, -1])
def test_a_damaged_snapshot_is_deleted(snapshots: Snapshots, tmp_path: Path, place: int) -> None:
    snapshots.save(index_of("a"), RECIPE)
    (file,) = files(tmp_path)
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)
    assert snapshots.restore("a", NOW, RECIPE) is None
    assert files(tmp_path) == []


@pytest.mark.parametrize("length", [0, 3, 20, 1000])
def test_a_truncated_snapshot_is_deleted(snapshots: Snapshots, tmp_path: Path, length: int) -> None:
    snapshots.save(index_of("a"), RECIPE)
    (file,) = files(tmp_path)
    file.write_bytes(file.read_bytes()[:length])
    assert snapshots.restore("a", NOW, RECIPE) is None
    assert files(tmp_path) == []


def test_the_oldest_snapshots_are_deleted_when_there_are_too_many(tmp_path: Path) -> None:
    roomy = Snapshots(str(tmp_path / "snapshots"), bytes_max=1 << 30)
    roomy.save(index_of("a"), RECIPE)
    (first,) = files(tmp_path)
    size = first.stat().st_size
    small = Snapshots(str(tmp_path / "snapshots"), bytes_max=int(size * 2.5))
    for name in "bc":
        small.save(index_of(name), RECIPE)
    assert [small.restore(name, NOW, RECIPE) is not None for name in "abc"] == [False, True, True]


def test_a_failed_save_leaves_the_old_snapshot_and_nothing_else(
    snapshots: Snapshots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots.save(index_of("a"), RECIPE)
    before = files(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        snapshots.save(index_of("a", b"bowsprit\n"), RECIPE)
    assert files(tmp_path) == before
    assert snapshots.restore("a", NOW, RECIPE) is not None
