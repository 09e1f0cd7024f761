"""A git repository as a source: whatever its shape, the same files with the same contents."""

import os
from itertools import islice
from pathlib import Path

import pytest

from argosy.search.backends.git import GitSource
from argosy.search.documents import DOCUMENT_BYTES_MAX, Entry, EntryKind, SkipReason
from argosy.search.model import Branch
from tests.search.backends.repositories import COMMIT_S, Repo, all_of, children, feeders, paths

FILES = {"README.md": b"# Argosy\n", "src/main.py": b"print('ahoy')\n", "src/empty": b"", "src/nul": b"a\0b\n\n"}


@pytest.fixture
def filled(repo: Repo) -> Repo:
    repo.commit(FILES)
    return repo


def expected() -> dict[bytes, bytes]:
    return {name.encode(): content for name, content in FILES.items()}


def test_a_commit_is_its_files(filled: Repo) -> None:
    source = GitSource(str(filled.path))
    assert all_of(source) == expected()
    assert source.repository.name == "repo"
    assert source.repository.branches == (Branch("main", filled.git("rev-parse", "HEAD")),)
    assert source.repository.latest_commit_s == COMMIT_S


def test_an_entry_carries_gits_own_id_and_size_in_the_order_of_paths(filled: Repo) -> None:
    entries = GitSource(str(filled.path)).entries()
    assert [entry.path for entry in entries] == sorted(expected())
    assert [entry.blob_id.hex() for entry in entries] == [
        filled.git("rev-parse", f"HEAD:{entry.path.decode()}") for entry in entries
    ]
    assert [entry.size_bytes for entry in entries] == [len(expected()[entry.path]) for entry in entries]
    assert {entry.branches for entry in entries} == {1}


def bare(repo: Repo, path: Path) -> str:
    return str(repo.clone(path, "--bare").path)


def packed(repo: Repo, path: Path) -> str:
    repo.git("gc", "-q")
    return str(repo.path)


def inner_folder(repo: Repo, path: Path) -> str:
    return str(repo.path / ".git")


def linked_worktree(repo: Repo, path: Path) -> str:
    repo.git("worktree", "add", "-q", "--detach", str(path))
    return str(path)


def shallow(repo: Repo, path: Path) -> str:
    repo.commit({})
    return str(repo.clone(path, "--depth=1").path)


def borrowing(repo: Repo, path: Path) -> str:
    repo.git("clone", "-q", "--shared", "--bare", ".", str(path))
    return str(path)


def with_odd_path(repo: Repo, path: Path) -> str:
    return str(repo.clone(path.parent / "-odd\npath\x1b[1m", "--bare").path)


@pytest.mark.parametrize("shape", [bare, packed, inner_folder, linked_worktree, shallow, borrowing, with_odd_path])
def test_whatever_its_shape_a_repository_has_the_same_files(shape: object, filled: Repo, tmp_path: Path) -> None:
    assert callable(shape)
    assert all_of(GitSource(shape(filled, tmp_path / "other.git"))) == expected()


def test_a_repository_may_name_its_objects_by_sha256(tmp_path: Path) -> None:
    repo = Repo.create(tmp_path / "repo", "--object-format=sha256")
    repo.commit(FILES)
    source = GitSource(str(repo.path))
    assert all_of(source) == expected()
    assert {len(entry.blob_id) for entry in source.entries()} == {32}


def test_an_empty_repository_has_no_branches_and_no_files(repo: Repo, tmp_path: Path) -> None:
    for path in (repo.path, Repo.create(tmp_path / "bare", "--bare").path):
        source = GitSource(str(path), ("HEAD", "main", "release/*"))
        assert source.repository.branches == ()
        assert source.entries() == []
        assert list(source.read([])) == []


def test_a_detached_head_is_called_head(filled: Repo) -> None:
    commit = filled.git("rev-parse", "HEAD")
    filled.git("checkout", "-q", "--detach")
    source = GitSource(str(filled.path))
    assert source.repository.branches == (Branch("HEAD", commit),)
    assert all_of(source) == expected()


def test_a_file_that_is_the_same_on_several_branches_is_one_entry(filled: Repo) -> None:
    filled.git("checkout", "-q", "-b", "next")
    (filled.path / "README.md").chmod(0o755)  # the same content still
    filled.commit({"src/main.py": b"print('land')\n", "new": b"new\n"})
    source = GitSource(str(filled.path), ("main", "next"))
    entries = source.entries()
    assert [(entry.path, entry.branches) for entry in entries if entry.path != b"src/main.py"] == [
        (b"README.md", 0b11),
        (b"new", 0b10),
        (b"src/empty", 0b11),
        (b"src/nul", 0b11),
    ]
    changed = [entry for entry in entries if entry.path == b"src/main.py"]
    assert dict(zip([entry.branches for entry in changed], source.read(changed), strict=True)) == {
        0b01: b"print('ahoy')\n",
        0b10: b"print('land')\n",
    }


def test_sixty_four_branches_fit(filled: Repo) -> None:
    for number in range(63):
        filled.git("branch", f"b/{number:02}")
    source = GitSource(str(filled.path), ("main", "b/*"))
    assert {entry.branches for entry in source.entries()} == {2**64 - 1}


def test_an_opened_source_does_not_change(filled: Repo) -> None:
    source = GitSource(str(filled.path))
    filled.commit({"README.md": b"later\n"})
    assert all_of(source) == expected()
    assert source.repository.branches[0].version == filled.git("rev-parse", "HEAD~1")


def test_links_and_submodules_are_marked_and_not_read(filled: Repo, tmp_path: Path) -> None:
    (filled.path / "link").symlink_to(os.devnull)
    other = Repo.create(tmp_path / "other")
    other.commit({"inside": b"another repository's\n"})
    filled.git("submodule", "add", "-q", str(other.path), "sub")
    filled.commit({})
    source = GitSource(str(filled.path))
    kinds = {entry.path: entry.kind for entry in source.entries() if entry.kind is not EntryKind.FILE}
    assert kinds == {b"link": EntryKind.SYMLINK, b"sub": EntryKind.SUBMODULE}
    contents = all_of(source)
    assert (contents[b"link"], contents[b"sub"]) == (SkipReason.SYMLINK, SkipReason.SUBMODULE)
    assert contents[b".gitmodules"] == f'[submodule "sub"]\n\tpath = sub\n\turl = {other.path}\n'.encode()


def test_what_a_partial_clone_lacks_is_missing_and_not_fetched(filled: Repo, tmp_path: Path) -> None:
    filled.git("config", "uploadpack.allowFilter", "true")
    clone = filled.clone(tmp_path / "partial", "--bare", "--filter=blob:limit=10")
    before = clone.git("count-objects", "-v")
    source = GitSource(str(clone.path))
    assert all_of(source) == expected() | {b"src/main.py": SkipReason.MISSING}
    assert {entry.path: entry.size_bytes for entry in source.entries()}[b"src/main.py"] == 0
    assert clone.git("count-objects", "-v") == before


def test_names_are_any_bytes(repo: Repo) -> None:
    names = [
        b"-n",
        b"--output=x",
        b"line\nbreak",
        b"\x1b[31mred",
        b'"quoted" \\',
        b"tab\there",
        b"caf\xe9",
        b" ",
        b"d/" * 60 + b"deep",
        b"n" * 255,
        "𝔘".encode(),
    ]
    for number, name in enumerate(names):
        path = os.path.join(os.fsencode(repo.path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"%d" % number)
    repo.commit({})
    assert all_of(GitSource(str(repo.path))) == {name: b"%d" % number for number, name in enumerate(names)}


def test_a_replaced_object_is_read_as_it_was_committed(filled: Repo) -> None:
    other = filled.git("hash-object", "-w", "--stdin", feed=b"# Another\n")
    filled.git("replace", filled.git("rev-parse", "HEAD:README.md"), other)
    assert all_of(GitSource(str(filled.path)))[b"README.md"] == b"# Argosy\n"


def test_contents_come_in_the_requested_order_and_as_often(filled: Repo) -> None:
    source = GitSource(str(filled.path))
    by_path = {entry.path: entry for entry in source.entries()}
    requested = [b"src/nul", b"README.md", b"src/nul", b"src/empty"]
    assert list(source.read([by_path[path] for path in requested])) == [expected()[path] for path in requested]


def test_more_passes_through_the_pipes_than_they_hold(repo: Repo) -> None:
    files = {f"{number % 20}/{number}": b"%d\n" % number * number for number in range(400)}
    files["large"] = os.urandom(1 << 20) * 3
    repo.commit(files)
    source = GitSource(str(repo.path))
    entries = source.entries() * 10  # 160 KB of requested names, 35 MB of answers
    found = zip((entry.path.decode() for entry in entries), source.read(entries), strict=True)
    assert all(content == files[path] for path, content in found)


def test_a_file_above_every_limit_is_not_requested(filled: Repo) -> None:
    huge = Entry(b"huge", bytes(20), DOCUMENT_BYTES_MAX + 1)
    assert list(GitSource(str(filled.path)).read([huge])) == [SkipReason.TOO_LARGE]


def test_a_file_larger_than_its_listed_size_is_skipped(filled: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argosy.search.backends.git_objects.DOCUMENT_BYTES_MAX", 10)
    assert all_of(GitSource(str(filled.path))) == expected() | {b"src/main.py": SkipReason.TOO_LARGE}


def test_a_reader_that_leaves_early_leaves_no_git_behind(repo: Repo) -> None:
    repo.commit({f"{number}": b"x" * 10_000 for number in range(200)})
    source = GitSource(str(repo.path))
    before = children()
    contents = source.read(source.entries() * 50)
    assert len(list(islice(contents, 3))) == 3
    assert (len(children()), len(feeders())) == (len(before) + 1, 1)
    del contents
    assert (children(), feeders()) == (before, [])


def test_two_readers_of_one_source_do_not_disturb_each_other(filled: Repo) -> None:
    source = GitSource(str(filled.path))
    entries = source.entries()
    pairs = zip(source.read(entries), source.read(entries[::-1]), strict=True)
    first, second = zip(*pairs, strict=True)
    assert list(first) == list(second)[::-1] == [expected()[entry.path] for entry in entries]


def test_each_branch_has_its_own_ignore_rules(filled: Repo) -> None:
    filled.git("checkout", "-q", "-b", "next")
    filled.commit({".sourcegraph/ignore": b"src/\n"})
    source = GitSource(str(filled.path), ("main", "next"))
    assert {entry.path: entry.branches for entry in source.entries()} == {
        b".sourcegraph/ignore": 0b10,
        b"README.md": 0b11,
        b"src/empty": 0b01,
        b"src/main.py": 0b01,
        b"src/nul": 0b01,
    }
    everything = GitSource(str(filled.path), ("next",), with_ignored=True)
    assert paths(everything) == [b".sourcegraph/ignore", b"README.md", b"src/empty", b"src/main.py", b"src/nul"]
