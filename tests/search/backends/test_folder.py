"""A plain folder as a source: what is listed, what is not, and what happens when it changes under the reader."""

import errno
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.search.backends import folder, folder_files
from argosy.search.backends.folder import FileSource, FolderSource
from argosy.search.backends.folder_files import RootDir
from argosy.search.documents import DOCUMENT_BYTES_MAX, EntryKind, SkipReason
from argosy.search.model import Branch
from tests.search.backends.repositories import Later, Repo, all_of, paths

NOBODY = 65534
MEMORY = "/dev/shm"  # where so many files are made and removed without waiting for a disk


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with three files, one of them two folders down."""
    root = tmp_path / "place"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/deep.py").write_bytes(b"deep\n")
    (root / "top.txt").write_bytes(b"top\n")
    (root / ".hidden").write_bytes(b"hidden\n")
    return root


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def test_a_folder_is_its_files_in_the_order_of_their_paths(place: Path) -> None:
    source = FolderSource(str(place))
    assert paths(source) == [b".hidden", b"a/b/deep.py", b"top.txt"]
    assert all_of(source) == {b".hidden": b"hidden\n", b"a/b/deep.py": b"deep\n", b"top.txt": b"top\n"}
    assert [entry.size_bytes for entry in source.entries()] == [7, 5, 4]
    assert source.repository.name == "place"
    assert source.repository.branches == (Branch("HEAD"),)


def test_an_empty_folder_is_empty(tmp_path: Path) -> None:
    assert FolderSource(str(tmp_path)).entries() == []


def test_folders_of_other_tools_are_never_entered(place: Path) -> None:
    write(place, {".git/config": b"", "a/.hg/store": b"", "a/b/.svn/x": b"", "linked/.git": b"gitdir: elsewhere\n"})
    write(place, {"linked/file": b"", ".github/workflow": b"", "CVS": b"a file of that name\n"})
    assert paths(FolderSource(str(place))) == [
        b".github/workflow",
        b".hidden",
        b"CVS",
        b"a/b/deep.py",
        b"linked/file",
        b"top.txt",
    ]


def test_the_files_of_a_working_copy_inside_are_files_and_a_bare_one_is_marked(place: Path) -> None:
    Repo.create(place / "working").commit({"file": b"x"})
    Repo.create(place / "mirror.git", "--bare")
    entries = {entry.path: entry.kind for entry in FolderSource(str(place)).entries()}
    assert entries[b"working/file"] is EntryKind.FILE
    assert [path for path in entries if path.startswith(b"mirror")] == [b"mirror.git"]
    assert entries[b"mirror.git"] is EntryKind.SUBMODULE
    assert all_of(FolderSource(str(place)))[b"mirror.git"] is SkipReason.SUBMODULE


def test_links_are_listed_and_never_followed(place: Path, tmp_path: Path) -> None:
    write(tmp_path, {"outside/secret": b"secret\n"})
    (place / "loop").symlink_to(place)
    (place / "self").symlink_to("self")
    (place / "out").symlink_to(tmp_path / "outside")
    (place / "out.txt").symlink_to(tmp_path / "outside/secret")
    (place / "dangling").symlink_to("nowhere")
    source = FolderSource(str(place))
    links = [entry.path for entry in source.entries() if entry.kind is EntryKind.SYMLINK]
    assert links == [b"dangling", b"loop", b"out", b"out.txt", b"self"]
    contents = all_of(source)
    assert {contents[link] for link in links} == {SkipReason.SYMLINK}
    assert len(contents) == 8


def test_a_root_that_is_a_link_is_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(place)
    assert len(all_of(FolderSource(str(tmp_path / "link")))) == 3


def test_pipes_and_sockets_are_left_out(place: Path) -> None:
    os.mkfifo(place / "pipe")
    os.mknod(place / "socket", stat.S_IFSOCK | 0o600)
    assert b"pipe" not in paths(FolderSource(str(place)))
    assert b"socket" not in paths(FolderSource(str(place)))


def test_ignore_files_leave_out_what_they_name(place: Path) -> None:
    write(
        place,
        {
            ".gitignore": b"*.log\n/build/\n",
            "x.log": b"",
            "build/out": b"",
            "a/build/kept": b"",
            "a/.gitignore": b"!kept.log\n*.tmp\n",
            "a/kept.log": b"",
            "a/b/y.log": b"",
            "a/b/z.tmp": b"",
            "z.tmp": b"",
            ".argosyignore": b"secret/\n",
            "secret/x": b"",
            "a/secret/x": b"",
        },
    )
    expected = [
        b".argosyignore",
        b".gitignore",
        b".hidden",
        b"a/.gitignore",
        b"a/b/deep.py",
        b"a/build/kept",
        b"a/kept.log",
        b"a/secret/x",
        b"top.txt",
        b"z.tmp",
    ]
    assert paths(FolderSource(str(place))) == expected
    everything = paths(FolderSource(str(place), with_ignored=True))
    assert set(everything) - set(expected) == {b"a/b/y.log", b"a/b/z.tmp", b"build/out", b"secret/x", b"x.log"}


def test_an_unreadable_ignore_file_is_skipped(place: Path) -> None:
    (place / ".gitignore").mkdir()
    os.mkfifo(place / ".argosyignore")
    (place / "a/.gitignore").symlink_to("nowhere")
    assert paths(FolderSource(str(place))) == [b".hidden", b"a/.gitignore", b"a/b/deep.py", b"top.txt"]


def test_names_are_any_bytes(tmp_path: Path) -> None:
    names = [b"-n", b"line\nbreak", b"\x1b[31mred", b"caf\xe9", b"\xff\xfe", b" ", b"n" * 255, b"a\\b", "𝔘".encode()]
    root = os.fsencode(tmp_path)
    for name in names:
        with open(os.path.join(root, name), "wb") as file:
            file.write(name)
    assert all_of(FolderSource(str(tmp_path))) == {name: name for name in names}


def test_a_path_may_be_longer_than_one_system_call_accepts(tmp_path: Path) -> None:
    name, depth = "d" * 200, 30
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=descriptor)
        inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    with open(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor), "wb") as file:
        file.write(b"deep down\n")
    os.close(descriptor)
    assert all_of(FolderSource(str(tmp_path))) == {f"{name}/".encode() * depth + b"file": b"deep down\n"}


def test_a_hundred_thousand_files_are_listed() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as root:
        for number in range(100):
            os.mkdir(f"{root}/{number:02}")
            descriptor = os.open(f"{root}/{number:02}", os.O_RDONLY)
            for inner in range(1000):
                os.close(os.open(f"{inner:03}", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
            os.close(descriptor)
        found = paths(FolderSource(root))
    assert len(found) == 100_000
    assert found == sorted(found)


def test_more_files_than_the_limit_are_rejected(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "FILES_MAX", 4)
    with pytest.raises(Invalid, match=r"more than 4 files below .*place'; choose a folder further down"):
        FolderSource(str(place)).entries()


@contextmanager
def powerless() -> Iterator[None]:
    """Drops root privileges if the tests run as root, whom permissions do not stop."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_an_unreadable_file_is_reported_and_does_not_stop_the_listing() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        root = Path(name)
        root.chmod(0o755)
        write(root, {"closed/inside": b"", "names/inside": b"", "file": b"secret", "open": b"open"})
        (root / "closed").chmod(0o000)
        (root / "names").chmod(0o444)
        (root / "file").chmod(0o000)
        with powerless():
            contents = all_of(FolderSource(name))
        (root / "closed").chmod(0o755)
        (root / "names").chmod(0o755)
        assert contents == {
            b"closed": SkipReason.UNREADABLE,
            b"file": SkipReason.UNREADABLE,
            b"names/inside": SkipReason.UNREADABLE,
            b"open": b"open",
        }


def test_a_root_that_may_not_be_listed_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o000)
        with powerless(), pytest.raises(Unavailable, match=r"Permission denied; check its permissions"):
            FolderSource(name).entries()


def test_a_missing_root_is_an_error(tmp_path: Path) -> None:
    source = FolderSource(str(tmp_path / "gone"))
    with pytest.raises(Unavailable, match="No such file or directory"):
        source.entries()
    with pytest.raises(Unavailable, match="cannot read"):
        list(source.read([]))


# Changes between the listing and the reading.


def test_a_deleted_file_is_reported(place: Path) -> None:
    source = FolderSource(str(place))
    entries = source.entries()
    (place / "top.txt").unlink()
    assert list(source.read(entries)) == [b"hidden\n", b"deep\n", SkipReason.UNREADABLE]


def test_a_file_that_has_changed_is_read_as_it_is(place: Path) -> None:
    source = FolderSource(str(place))
    entries = source.entries()
    (place / "top.txt").write_bytes(b"much longer than it was\n")
    (place / "a/b/deep.py").write_bytes(b"")
    assert list(source.read(entries)) == [b"hidden\n", b"", b"much longer than it was\n"]


def test_a_file_that_has_become_something_else_is_reported(place: Path, tmp_path: Path) -> None:
    write(tmp_path, {"secret": b"secret\n"})
    source = FolderSource(str(place))
    entries = source.entries()
    for name in (".hidden", "a/b/deep.py", "top.txt"):
        (place / name).unlink()
    (place / ".hidden").mkdir()
    os.mkfifo(place / "a/b/deep.py")
    (place / "top.txt").symlink_to(tmp_path / "secret")
    assert list(source.read(entries)) == [SkipReason.UNREADABLE] * 3


def test_a_folder_that_has_become_a_link_leads_nowhere(place: Path, tmp_path: Path) -> None:
    write(tmp_path, {"outside/deep.py": b"secret\n"})
    source = FolderSource(str(place))
    entries = source.entries()
    (place / "a/b").rename(place / "a/c")
    (place / "a/b").symlink_to(tmp_path / "outside")
    assert list(source.read(entries)) == [b"hidden\n", SkipReason.UNREADABLE, b"top\n"]


def test_a_socket_in_place_of_a_file_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FolderSource(str(place))
    entries = source.entries()
    (place / "top.txt").unlink()
    monkeypatch.chdir(place)  # a socket's address must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("top.txt")
        assert list(source.read(entries))[-1] is SkipReason.UNREADABLE


def test_a_folder_that_vanishes_during_the_walk_is_no_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = RootDir.folder

    def vanishing(self: RootDir, path: bytes) -> int:
        if path == b"a":
            (place / "a").rename(place.parent / "moved")
        return listed(self, path)

    monkeypatch.setattr(RootDir, "folder", vanishing)
    assert paths(FolderSource(str(place))) == [b".hidden", b"top.txt"]


def test_a_file_above_every_limit_is_never_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    source = FolderSource(str(tmp_path))
    (entry,) = source.entries()
    assert entry.size_bytes == 1 << 30
    assert list(source.read([entry])) == [SkipReason.TOO_LARGE]


def test_a_file_that_has_grown_above_every_limit_is_not_read(place: Path) -> None:
    source = FolderSource(str(place))
    entries = source.entries()
    os.truncate(place / "top.txt", DOCUMENT_BYTES_MAX + 1)
    assert list(source.read(entries))[-1] is SkipReason.TOO_LARGE


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end_or_abandoned(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FolderSource(str(place))
    entries = source.entries()[-1:]
    measured = os.fstat

    def growing(descriptor: int) -> os.stat_result:
        state = measured(descriptor)
        with (place / "top.txt").open("ab") as file:
            file.write(b"more\n")
        return state

    monkeypatch.setattr(os, "fstat", growing)
    assert list(source.read(entries)) == [b"top\nmore\n"]
    monkeypatch.setattr(folder_files, "DOCUMENT_BYTES_MAX", 12)
    assert list(source.read(entries)) == [SkipReason.TOO_LARGE]


def test_too_many_open_files_is_not_reported_as_a_fault_of_the_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: RootDir, path: bytes) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    source = FolderSource(str(place))
    entries = source.entries()
    monkeypatch.setattr(RootDir, "folder", full)
    for reading in (lambda: list(source.read(entries)), source.entries):
        with pytest.raises(Unavailable, match=r"cannot read .* now: Too many open files; retry with back-off"):
            reading()


# What names a content.


def ids(source: FolderSource) -> dict[bytes, bytes]:
    return {entry.path: entry.blob_id for entry in source.entries()}


def test_a_file_at_rest_keeps_its_id(place: Path) -> None:
    source = FolderSource(str(place), clock=Later())
    assert ids(source) == ids(source) == ids(FolderSource(str(place), clock=Later()))
    assert len(set(ids(source).values())) == 3


def test_a_file_that_changed_has_another_id_even_if_its_times_are_set_back(place: Path) -> None:
    source = FolderSource(str(place), clock=Later())
    before, times = ids(source), (place / "top.txt").stat()
    (place / "top.txt").write_bytes(b"pot\n")
    os.utime(place / "top.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    after = ids(source)
    assert [path for path in before if before[path] != after[path]] == [b"top.txt"]


def test_a_file_that_changed_just_now_is_read_again_next_time(place: Path) -> None:
    # Its times tick too slowly to show whether it changes once more.
    source = FolderSource(str(place))
    assert all(first != second for first, second in zip(ids(source).values(), ids(source).values(), strict=True))


def test_a_name_for_the_same_file_has_the_same_id(place: Path) -> None:
    os.link(place / "top.txt", place / "again.txt")
    named = ids(FolderSource(str(place), clock=Later()))
    assert named[b"again.txt"] == named[b"top.txt"]


# Paths below a folder.


def test_folders_stay_open_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_files, "FOLDERS_OPEN_MAX", 3)
    write(tmp_path, {f"{a}/{b}/file": f"{a}{b}".encode() for a in range(4) for b in range(4)})
    before = len(os.listdir("/proc/self/fd"))
    with RootDir(str(tmp_path)) as root_dir:
        for a in range(4):
            for b in range(4):
                with open(root_dir.open(f"{a}/{b}/file".encode()), "rb") as file:
                    assert file.read() == f"{a}{b}".encode()
                assert len(os.listdir("/proc/self/fd")) <= before + 1 + 3
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_file_is_a_source(place: Path) -> None:
    source = FileSource(str(place / "a/b/deep.py"))
    assert all_of(source) == {b"deep.py": b"deep\n"}
    assert source.repository.name == "b"
    assert source.repository.source == str(place / "a/b/deep.py")
    (place / "a/b/deep.py").unlink()
    assert source.entries() == []
