"""Opening a source by path: the right kind of source, or an error with a fix."""

import os
from pathlib import Path

import pytest

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.search.backends.factory import open_source
from argosy.search.backends.folder import FileSource, FolderSource
from argosy.search.backends.git import GitSource, WorkingTreeSource
from tests.search.backends.repositories import Repo, all_of, paths


@pytest.fixture
def working(repo: Repo) -> Repo:
    repo.commit({"file": b"committed\n", "sub/inner": b"inner\n", ".gitignore": b"build/\n"})
    (repo.path / "file").write_bytes(b"edited\n")
    (repo.path / "build").mkdir()
    (repo.path / "build/out").write_bytes(b"made\n")
    return repo


def test_a_folder_and_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x\n")
    assert isinstance(open_source(str(tmp_path)), FolderSource)
    assert isinstance(open_source(str(tmp_path / "file")), FileSource)
    assert all_of(open_source(str(tmp_path / "file"))) == all_of(open_source(str(tmp_path))) == {b"file": b"x\n"}


def test_a_working_copy_is_read_from_the_disk_and_with_refs_from_its_commits(working: Repo) -> None:
    on_disk, committed = open_source(str(working.path)), open_source(str(working.path), refs=["HEAD"])
    assert (type(on_disk), type(committed)) == (WorkingTreeSource, GitSource)
    assert all_of(on_disk)[b"file"] == b"edited\n"
    assert all_of(committed)[b"file"] == b"committed\n"


def test_a_relative_path_and_a_link_to_a_folder_inside(
    working: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(working.path)
    assert paths(open_source(".")) == [b".gitignore", b"file", b"sub/inner"]
    (tmp_path / "link").symlink_to(working.path / "sub")
    assert isinstance(open_source(str(tmp_path / "link")), WorkingTreeSource)
    assert paths(open_source(str(tmp_path / "link"))) == [b"inner"]


def test_a_bare_repository_and_the_inside_of_a_working_one_are_commits(working: Repo, tmp_path: Path) -> None:
    bare = working.clone(tmp_path / "bare", "--bare")
    for place in (bare.path, working.path / ".git"):
        source = open_source(str(place))
        assert isinstance(source, GitSource)
        assert all_of(source)[b"file"] == b"committed\n"


def test_a_linked_worktree_is_a_working_copy(working: Repo, tmp_path: Path) -> None:
    working.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert isinstance(open_source(str(tmp_path / "linked")), WorkingTreeSource)


def test_an_ignored_folder_that_is_named_explicitly_is_opened(working: Repo) -> None:
    assert paths(open_source(str(working.path / "build"))) == [b"out"]
    assert isinstance(open_source(str(working.path / ".git/hooks/..")), GitSource)
    (working.path / ".git/info").mkdir(exist_ok=True)
    assert isinstance(open_source(str(working.path / ".git/info")), FolderSource)


def test_ignored_files_can_be_included(working: Repo) -> None:
    everything = open_source(str(working.path), with_ignored=True)
    assert paths(everything) == [b".gitignore", b"build/out", b"file", b"sub/inner"]
    working.commit({".argosyignore": b"sub/\n"})
    assert b"sub/inner" not in paths(open_source(str(working.path), refs=["HEAD"]))
    assert b"sub/inner" in paths(open_source(str(working.path), refs=["HEAD"], with_ignored=True))


@pytest.mark.parametrize(
    "url",
    ["https://github.com/o/r", "ssh://git@host/r", "git@github.com:o/r.git", "file:///srv/r.git"],
)
def test_a_url_is_not_opened_here(url: str) -> None:
    with pytest.raises(Invalid, match="is a URL, and only local paths can be opened; clone it first"):
        open_source(url)


def test_an_error_shows_a_url_without_its_password() -> None:
    with pytest.raises(Invalid) as caught:
        open_source("https://me:hunter2@example.com/r.git")
    assert "hunter2" not in str(caught.value)


def test_a_path_that_looks_like_a_url_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "me@host:x").write_bytes(b"x")
    assert paths(open_source("me@host:x")) == [b"me@host:x"]


def test_a_missing_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("nowhere", "file/inside", "dangling"):
        with pytest.raises(NotFound, match=f"{name}' not found: no such file or directory"):
            open_source(str(tmp_path / name))


def test_a_loop_of_links_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Unavailable, match=r"cannot read .*: Too many levels of symbolic links"):
        open_source(str(tmp_path / "loop"))


@pytest.mark.parametrize("text", ["", "a\0b"])
def test_an_invalid_path_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="is not a path; pass a file or a folder"):
        open_source(text)


def test_a_pipe_is_rejected_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid, match="is neither a file nor a folder"):
        open_source(str(tmp_path / "pipe"))


def test_branches_are_for_repositories(working: Repo, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(Invalid, match="is not a git repository and has no branches; omit the branches"):
        open_source(str(tmp_path / "plain"), refs=["main"])
    with pytest.raises(Invalid, match="is a file and has no branches"):
        open_source(str(working.path / "file"), refs=["main"])
    with pytest.raises(Invalid, match=r"is a folder inside .*repo'; pass that to read its branches"):
        open_source(str(working.path / "sub"), refs=["main"])


def test_a_git_folder_that_is_broken_is_an_error_and_not_a_plain_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"gitdir: nowhere\n")
    with pytest.raises(NotFound, match=r"not a git repository.*repair its .git"):
        open_source(str(tmp_path))
