"""Directories of working sets: derived from the addresses, locked, and listed while a process uses them."""

import errno
import os
from pathlib import Path

import pytest

from argosy.app.working_sets import RunningUp, choose_catalog, list_running, open_named_set, open_set
from argosy.base.errors import Conflict, Invalid, NotFound

URLS = ["/a/tool", "/b/tool"]


def record(directory: Path, *, catalog: str | None = "unset") -> RunningUp:
    file = str(directory / "registry.db") if catalog == "unset" else catalog
    return RunningUp(os.getpid(), "127.0.0.1:1", str(directory), file, ("/a/tool",), 0.0)


def test_the_directory_follows_from_the_addresses_and_the_next_process_takes_a_numbered_one(tmp_path: Path) -> None:
    with open_set(tmp_path, URLS, name="tool") as first, open_set(tmp_path, URLS[::-1], name="tool") as second:
        assert second.directory.name == f"{first.directory.name}-2"
        with open_set(tmp_path, URLS[:1], name="tool") as other:
            assert other.directory.name.startswith("tool-")
            assert other.directory.name != first.directory.name
    with open_set(tmp_path, URLS, name="tool") as again:
        assert again.directory == first.directory
        assert not again.is_new


def test_a_start_that_fails_removes_only_what_it_created(tmp_path: Path) -> None:
    with open_set(tmp_path, URLS) as created:
        (created.directory / "advertised").mkdir()
        created.discard()
    assert not created.directory.exists()
    (tmp_path / "empty").mkdir()
    with open_named_set(tmp_path / "empty") as given:
        (given.directory / "registry.db").touch()
        given.discard()
    assert list((tmp_path / "empty").iterdir()) == []
    with open_named_set(tmp_path / "empty"):
        pass
    with open_named_set(tmp_path / "empty") as used:
        used.discard()
    assert (tmp_path / "empty" / "lock").exists()


def test_a_named_directory_is_rejected_while_used_or_with_other_content(tmp_path: Path) -> None:
    with open_named_set(tmp_path / "state") as held:
        held.write_record(tmp_path, record(held.directory))
        with pytest.raises(Conflict, match=r"in use by argosy up at http://127\.0\.0\.1:1 "):
            open_named_set(tmp_path / "state")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    with pytest.raises(Invalid, match="contains no state of argosy"):
        open_named_set(tmp_path / "photos")


def test_a_process_is_listed_as_long_as_it_holds_its_directory(tmp_path: Path) -> None:
    with open_set(tmp_path, URLS) as held:
        held.write_record(tmp_path, record(held.directory))
        assert list_running(tmp_path) == [record(held.directory)]
        kept = [path.read_bytes() for path in (tmp_path / "running").iterdir()]
    assert list_running(tmp_path) == []
    (tmp_path / "running" / "left.json").write_bytes(kept[0])  # as after a killed process
    (tmp_path / "running" / "damaged.json").write_text("{")
    assert list_running(tmp_path) == []
    assert list((tmp_path / "running").iterdir()) == []


def test_a_stale_record_on_a_read_only_file_system_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "left.json").write_text("{")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert list_running(tmp_path) == []


def test_a_directory_that_cannot_be_created_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In /proc nothing can be created, and the error is the one for a folder that is missing."""
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", lambda *_, **__: None)
        with pytest.raises(Invalid, match=r"cannot write to data directory '/.+/state': No such file"):
            open_named_set(tmp_path / "state")
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "dangling"):
        with pytest.raises(Invalid, match=f"{name}' is not a directory"):
            open_named_set(tmp_path / name)


def test_the_catalog_is_that_of_the_settings_or_of_the_one_process_that_runs(tmp_path: Path) -> None:
    def choose(directory: Path | None = None, *, is_configured: bool = False) -> str:
        return choose_catalog(tmp_path, "sqlite:////default", is_configured=is_configured, directory=directory).url

    assert choose() == "sqlite:////default"
    with pytest.raises(NotFound, match="no catalog"):
        choose(tmp_path)
    with open_set(tmp_path, URLS) as first, open_set(tmp_path, ["/c"]) as second:
        first.write_record(tmp_path, record(first.directory))
        assert choose() == f"sqlite:///{first.directory}/registry.db"
        assert choose(is_configured=True) == "sqlite:////default"
        second.write_record(tmp_path, record(second.directory, catalog=None))
        with pytest.raises(Invalid, match="2 argosy up are running"):
            choose()
        assert choose(first.directory) == f"sqlite:///{first.directory}/registry.db"
        with pytest.raises(Invalid, match="a registry of its settings"):
            choose(second.directory)
