"""Damaged and hostile git repositories: clear errors, bounded work, and no program of theirs is started."""

import os
from pathlib import Path

import pytest

from argosy.base.errors import ArgosyError, Invalid, NotFound, Unavailable
from argosy.search.backends import git_errors, git_objects, git_program
from argosy.search.backends.git import GitSource, WorkingTreeSource
from argosy.search.backends.git_errors import error_from_git
from argosy.search.backends.git_program import Git, environment
from argosy.search.documents import SkipReason
from tests.search.backends.repositories import Repo, all_of, children, feeders, put_before_git


@pytest.fixture
def filled(repo: Repo) -> Repo:
    repo.commit({f"f{number}": b"file %d\n" % number for number in range(5)})
    return repo


def test_one_garbage_object_costs_one_file(filled: Repo) -> None:
    filled.object_path("HEAD:f2").write_bytes(b"garbage")
    contents = all_of(GitSource(str(filled.path)))
    assert contents.pop(b"f2") in (SkipReason.MISSING, SkipReason.UNREADABLE)
    assert contents == {b"f%d" % number: b"file %d\n" % number for number in (0, 1, 3, 4)}


def test_an_object_that_ends_early_costs_one_file(filled: Repo) -> None:
    for name in ("HEAD:f0", "HEAD:f2", "HEAD:f4"):
        path = filled.object_path(name)
        path.write_bytes(path.read_bytes()[:10])
    contents = all_of(GitSource(str(filled.path)))
    assert contents == {
        b"f0": SkipReason.UNREADABLE,
        b"f1": b"file 1\n",
        b"f2": SkipReason.UNREADABLE,
        b"f3": b"file 3\n",
        b"f4": SkipReason.UNREADABLE,
    }


def test_many_damaged_objects_are_a_damaged_repository(filled: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    monkeypatch.setattr(git_objects, "DAMAGED_MAX", 2)
    for number in range(5):
        path = filled.object_path(f"HEAD:f{number}")
        path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(Unavailable, match=r"git cat-file failed on .*; check it with `git fsck`"):
        all_of(GitSource(str(filled.path)))
    assert (children(), feeders()) == (before, [])


def test_a_missing_tree_is_reported(filled: Repo) -> None:
    filled.commit({"folder/inside": b"x"})
    source = GitSource(str(filled.path))
    filled.object_path("HEAD:folder").unlink()
    with pytest.raises(Unavailable, match=r"git ls-tree failed on .* \(git: error: Could not read"):
        source.entries()


def test_a_truncated_pack_is_reported(filled: Repo) -> None:
    filled.git("gc", "-q")
    (pack,) = (filled.path / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o600)
    pack.write_bytes(pack.read_bytes()[:50])
    with pytest.raises(Unavailable, match="fsck"):
        all_of(GitSource(str(filled.path)))


def test_a_branch_whose_commit_is_missing_is_reported(filled: Repo) -> None:
    filled.object_path("HEAD").unlink()
    with pytest.raises(Unavailable, match=r"the commit of 'main' is missing in .*; fetch again"):
        GitSource(str(filled.path))


def test_a_folder_without_head_is_no_repository(filled: Repo) -> None:
    (filled.path / ".git/HEAD").unlink()
    with pytest.raises(NotFound, match=r"not a git repository.*repair its .git"):
        GitSource(str(filled.path))


def test_a_dangling_head_of_a_folder_is_reported_with_the_existing_branches(filled: Repo) -> None:
    filled.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    with pytest.raises(NotFound, match=r"branch, tag or commit 'trunk' not found in .*; available: main"):
        GitSource(str(filled.path))


def test_a_garbage_index_is_reported(filled: Repo) -> None:
    (filled.path / ".git/index").write_bytes(b"garbage" * 100)
    with pytest.raises(Unavailable, match="rebuild its index with `git reset`, or name the branches"):
        WorkingTreeSource(str(filled.path)).entries()
    assert len(all_of(GitSource(str(filled.path)))) == 5


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("[broken", "fix its configuration"),
        ("[core]\n\tbare = perhaps", "fix its configuration"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tteleport = true", "a newer git created it"),
        ("[core]\n\trepositoryformatversion = 99", "a newer git created it"),
    ],
)
def test_an_unreadable_git_configuration_is_reported(line: str, remedy: str, filled: Repo) -> None:
    with (filled.path / ".git/config").open("a") as config:
        config.write(f"{line}\n")
    with pytest.raises(Invalid, match=remedy):
        GitSource(str(filled.path))


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="pass a folder that exists"):
        GitSource(str(tmp_path / "nowhere"))


def test_no_program_that_a_repository_names_is_started(filled: Repo, tmp_path: Path) -> None:
    mark, script = tmp_path / "mark", tmp_path / "script"
    script.write_text(f"#!/bin/sh\necho ran >> {mark}\nexit 1\n")
    script.chmod(0o755)
    for setting in ("core.fsmonitor", "core.sshCommand", "core.pager", "gpg.program", "credential.helper"):
        filled.git("config", setting, str(script))
    (filled.path / ".git/hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        (filled.path / ".git/hooks" / hook).symlink_to(script)
    filled.git("status")
    assert mark.exists(), "the trap itself must work"
    mark.unlink()
    assert len(all_of(GitSource(str(filled.path), ("HEAD", "ma*")))) == 5
    assert len(all_of(WorkingTreeSource(str(filled.path)))) == 5
    assert not mark.exists()


def test_git_variables_of_the_environment_are_ignored(
    filled: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TRACE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert len(all_of(GitSource(str(filled.path)))) == 5
    assert len(all_of(WorkingTreeSource(str(filled.path)))) == 5
    assert not (tmp_path / "elsewhere").exists()


def test_a_repository_of_another_user_is_rejected_with_a_fix(
    filled: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_before_git(tmp_path / "bin", monkeypatch, ["export GIT_TEST_ASSUME_DIFFERENT_OWNER=1", 'exec $GIT "$@"'])
    for source in (GitSource, WorkingTreeSource):
        with pytest.raises(Invalid, match=f"another user.*git config --global --add safe.directory {filled.path}`"):
            source(str(filled.path))
    settings = tmp_path / "settings"
    settings.write_text(f"[safe]\n\tdirectory = {filled.path}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    assert len(all_of(GitSource(str(filled.path)))) == 5


def test_a_tree_that_names_ten_thousand_million_files_is_rejected(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    monkeypatch.setattr(git_program, "OUTPUT_BYTES_MAX", 4 << 20)
    blob = repo.git("hash-object", "-w", "--stdin", feed=b"boom\n")
    tree = repo.git("mktree", feed="".join(f"100644 blob {blob}\t{n}\n" for n in range(10)).encode())
    for _ in range(9):
        tree = repo.git("mktree", feed="".join(f"040000 tree {tree}\t{n}\n" for n in range(10)).encode())
    repo.git("update-ref", "refs/heads/main", repo.git("commit-tree", tree, feed=b"bomb"))
    with pytest.raises(Invalid, match="git ls-tree lists more than 4 MiB of names"):
        GitSource(str(repo.path)).entries()
    assert children() == before


def test_a_git_that_hangs_times_out_and_is_ended(filled: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    monkeypatch.setattr(git_program, "SILENCE_S_MAX", 0.05)
    put_before_git(tmp_path / "bin", monkeypatch, ["exec tail -f /dev/null"])
    with pytest.raises(Unavailable, match=r"git timed out: no output for 0 s on .*repo'; check its disk"):
        GitSource(str(filled.path))
    assert children() == before


def test_a_git_that_goes_silent_after_its_answer_is_ended(
    filled: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    monkeypatch.setattr(git_program, "SILENCE_S_MAX", 0.05)
    put_before_git(tmp_path / "bin", monkeypatch, ["exec tail -f /dev/null > /dev/null"])
    with pytest.raises(Unavailable, match="no output"):
        GitSource(str(filled.path))
    assert children() == before


def test_a_killed_git_is_reported(filled: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GitSource(str(filled.path))
    entries = source.entries()
    put_before_git(tmp_path / "bin", monkeypatch, ["kill -9 $$"])
    with pytest.raises(Unavailable, match=r"git cat-file failed on .*ended by signal 9"):
        list(source.read(entries))


def test_a_truncated_answer_of_git_is_reported(filled: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = GitSource(str(filled.path))
    entries = source.entries()
    put_before_git(tmp_path / "bin", monkeypatch, ["exit 0"])
    with pytest.raises(Unavailable, match="git returned 5 objects too few"):
        list(source.read(entries))


def test_a_missing_git_is_reported_with_what_to_install(
    filled: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Invalid, match="git not found on PATH; install git"):
        GitSource(str(filled.path))


@pytest.mark.parametrize(("words", "kind", "remedy"), git_errors._LOCAL_ERRORS)
def test_every_message_has_a_fix(words: str, kind: type[ArgosyError], remedy: str) -> None:
    error = error_from_git("/srv/repo", "ls-tree", f"fatal: {words}")
    assert type(error) is kind
    assert str(error).startswith("git ls-tree failed on '/srv/repo' (git: fatal: ")
    assert str(error).endswith(remedy)


def test_a_message_shows_no_secret_and_no_control_character() -> None:
    words = "fatal: \x1b[2Jcould not read\n\nhttps://me:hunter2@example.com/x\n" + "blah " * 200
    error = str(error_from_git("/srv/a\nb\x1b", "fetch", words))
    assert "hunter2" not in error
    assert error.isprintable()
    assert len(error) < 500


def test_the_inherited_environment_variables_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", "evil")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.fsmonitor=evil'")
    monkeypatch.setenv("GIT_EXEC_PATH", "/opt/git")
    passed = {name for name in environment() if name.startswith("GIT_")} - set(git_program._SET)
    assert passed == {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}


def test_an_early_end_of_the_feed_is_no_error(filled: Repo) -> None:
    # rev-parse never reads what it is fed, so the feeding thread meets a closed pipe.
    assert Git.at(str(filled.path)).run("rev-parse", "--is-bare-repository", feed=b"x" * (1 << 20)) == b"false\n"
    assert feeders() == []


def test_no_descriptor_is_left_open(filled: Repo) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for _ in range(3):
        all_of(GitSource(str(filled.path)))
        with pytest.raises(NotFound):
            GitSource(str(filled.path), ("nowhere",))
    assert descriptors() == before
