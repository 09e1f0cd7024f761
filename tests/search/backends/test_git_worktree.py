"""A working tree as it is on the disk: the files that `git grep --untracked` would see."""

import os
from pathlib import Path

import pytest

from argosy.search.backends.git import WorkingTreeSource
from argosy.search.documents import EntryKind, SkipReason
from argosy.search.model import Branch
from tests.search.backends.repositories import Later, Repo, all_of, paths


@pytest.fixture
def working(repo: Repo) -> Repo:
    repo.commit({"tracked": b"as committed\n", "deleted": b"x", ".gitignore": b"*.log\n", "sub/inner": b"inner\n"})
    return repo


def test_the_files_are_as_they_are_on_the_disk(working: Repo) -> None:
    (working.path / "tracked").write_bytes(b"as it is now\n")
    (working.path / "deleted").unlink()
    (working.path / "new").write_bytes(b"not added\n")
    (working.path / "added").write_bytes(b"added\n")
    working.git("add", "added")
    (working.path / "noise.log").write_bytes(b"ignored\n")
    assert all_of(WorkingTreeSource(str(working.path))) == {
        b".gitignore": b"*.log\n",
        b"added": b"added\n",
        b"new": b"not added\n",
        b"sub/inner": b"inner\n",
        b"tracked": b"as it is now\n",
    }


def test_a_tracked_file_counts_although_it_is_ignored(working: Repo) -> None:
    (working.path / "kept.log").write_bytes(b"kept\n")
    working.git("add", "-f", "kept.log")
    assert b"kept.log" in paths(WorkingTreeSource(str(working.path)))


def test_the_folders_own_ignore_file_counts_too(working: Repo) -> None:
    (working.path / ".argosyignore").write_bytes(b"sub/inner\n")
    assert b"sub/inner" not in paths(WorkingTreeSource(str(working.path)))
    assert paths(WorkingTreeSource(str(working.path / "sub"))) == []


def test_a_folder_inside_is_read_from_there(working: Repo) -> None:
    (working.path / "sub/noise.log").write_bytes(b"ignored\n")
    source = WorkingTreeSource(str(working.path / "sub"))
    assert all_of(source) == {b"inner": b"inner\n"}
    assert source.repository.name == "repo"


def test_a_repository_without_commits_has_files(repo: Repo) -> None:
    (repo.path / "first").write_bytes(b"first\n")
    source = WorkingTreeSource(str(repo.path))
    assert all_of(source) == {b"first": b"first\n"}
    assert source.repository.branches == (Branch("main"),)


def test_what_is_on_the_disk_is_no_commit_and_has_no_page(working: Repo) -> None:
    working.git("remote", "add", "origin", "https://github.com/o/r.git")
    repository = WorkingTreeSource(str(working.path)).repository
    assert (repository.name, repository.url) == ("github.com/o/r", "https://github.com/o/r")
    assert repository.branches == (Branch("main", ""),)
    assert repository.file_url_template == repository.commit_url_template == ""
    working.git("checkout", "-q", "--detach")
    assert WorkingTreeSource(str(working.path)).repository.branches == (Branch("HEAD"),)


def test_other_repositories_inside_are_marked(working: Repo, tmp_path: Path) -> None:
    other = Repo.create(tmp_path / "other")
    other.commit({"file": b"x"})
    working.git("submodule", "add", "-q", str(other.path), "module")
    Repo.create(working.path / "stray").commit({"file": b"x"})
    source = WorkingTreeSource(str(working.path))
    marked = [entry.path for entry in source.entries() if entry.kind is EntryKind.SUBMODULE]
    assert marked == [b"module", b"stray"]
    assert not [path for path in paths(source) if path.endswith(b"/file")]


def test_a_link_is_marked_and_a_folder_that_became_one_is_not_entered(working: Repo, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/inner").write_bytes(b"secret\n")
    (working.path / "sub").rename(working.path / "elsewhere")
    (working.path / "sub").symlink_to(tmp_path / "outside")
    contents = all_of(WorkingTreeSource(str(working.path)))
    assert contents[b"sub"] is SkipReason.SYMLINK
    assert contents[b"elsewhere/inner"] == b"inner\n"
    assert b"sub/inner" not in contents


def test_a_file_in_conflict_is_there_once(working: Repo) -> None:
    working.git("checkout", "-q", "-b", "other")
    working.commit({"tracked": b"theirs\n"})
    working.git("checkout", "-q", "main")
    working.commit({"tracked": b"ours\n"})
    blobs = [working.git("rev-parse", f"{ref}:tracked") for ref in ("main~1", "main", "other")]
    stages = "".join(f"100644 {blob} {stage}\ttracked\n" for stage, blob in enumerate(blobs, 1))
    working.git("rm", "-q", "--cached", "tracked")
    working.git("update-index", "--index-info", feed=stages.encode())
    assert working.git("ls-files", "tracked").count("tracked") == 3
    assert paths(WorkingTreeSource(str(working.path))).count(b"tracked") == 1


def test_a_linked_worktree_has_its_own_files(working: Repo, tmp_path: Path) -> None:
    working.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    (tmp_path / "linked/new").write_bytes(b"new\n")
    source = WorkingTreeSource(str(tmp_path / "linked"))
    assert b"new" in paths(source)
    assert source.repository.branches == (Branch("side"),)


def test_pipes_are_left_out_and_odd_names_are_not(working: Repo) -> None:
    root = os.fsencode(working.path)
    os.mkfifo(os.path.join(root, b"pipe"))
    for name in (b"-n", b"a\nb", b"\xff\x1b", b"*", b":(top)x"):
        with open(os.path.join(root, name), "wb") as file:
            file.write(name)
    contents = all_of(WorkingTreeSource(str(working.path)))
    assert b"pipe" not in contents
    assert {name: contents[name] for name in (b"-n", b"a\nb", b"\xff\x1b", b"*", b":(top)x")} == {
        name: name for name in (b"-n", b"a\nb", b"\xff\x1b", b"*", b":(top)x")
    }


def test_only_what_changed_has_another_id(working: Repo) -> None:
    source = WorkingTreeSource(str(working.path), clock=Later())
    before = {entry.path: entry.blob_id for entry in source.entries()}
    (working.path / "tracked").write_bytes(b"changed\n")
    after = {entry.path: entry.blob_id for entry in source.entries()}
    assert [path for path in after if after[path] != before[path]] == [b"tracked"]


def test_reading_writes_nothing(working: Repo) -> None:
    index = (working.path / ".git/index").stat()
    os.utime(working.path / "tracked")  # git would note the new time in its index
    all_of(WorkingTreeSource(str(working.path)))
    assert (working.path / ".git/index").stat().st_mtime_ns == index.st_mtime_ns
