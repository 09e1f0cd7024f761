"""Mirrors: shared between processes, never left half-written, bounded in number, and cloned again when damaged."""

import asyncio
import fcntl
import os
import sys
from asyncio import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Unavailable
from argosy.search.backends import remote_mirrors
from argosy.search.backends.remote import RemoteFetcher
from argosy.search.backends.remote_git import GitLimits, OriginRoute, run_git
from argosy.search.backends.remote_mirrors import FileLock, Mirrors, mirror_key
from argosy.search.catalog.addresses import address_of
from argosy.search.fleet.model import RepoSpec
from argosy.search.settings import FetchSettings
from tests.search.backends.repositories import Later, Repo, all_of, put_before_git
from tests.servers.git_http import GitServer, git_server

FILES = {f"f{number}": b"file %d " % number * 100 for number in range(20)}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served") as serving:
        yield serving


@pytest.fixture
def settings(tmp_path: Path) -> FetchSettings:
    return FetchSettings(dir=str(tmp_path / "mirrors"))


@pytest.fixture
def spec(server: GitServer, repo: Repo) -> RepoSpec:
    repo.commit(FILES)
    return RepoSpec("app", server.serve_clone(repo, "app.git"))


@pytest.fixture
def fetcher(settings: FetchSettings) -> RemoteFetcher:
    return RemoteFetcher(settings)


def mirror_of(settings: FetchSettings, spec: RepoSpec) -> Path:
    return Path(settings.dir) / f"{mirror_key(spec.url)}.git"


def posts(server: GitServer) -> int:
    """The number of requests after the greeting."""
    return sum(method == "POST" for method, _, _ in server.faults.requests)


async def files_of(fetcher: RemoteFetcher, spec: RepoSpec) -> dict[str, object]:
    async with fetcher.fetch(spec) as source:
        return {path.decode(): content for path, content in (await asyncio.to_thread(all_of, source)).items()}


def broken_pack(mirror: Path) -> None:
    (pack,) = (mirror / "objects/pack").glob("*.pack")
    pack.chmod(0o600)
    pack.write_bytes(pack.read_bytes()[:100])


def broken_config(mirror: Path) -> None:
    (mirror / "config").write_text("[broken")


def no_head(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


def garbage_head(mirror: Path) -> None:
    (mirror / "HEAD").write_text("garbage")


def no_objects(mirror: Path) -> None:
    for path in (mirror / "objects/pack").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("breaking", "has_news"),
    [
        (broken_pack, True),
        (broken_pack, False),
        (broken_config, False),
        (no_head, False),
        (garbage_head, True),
        (no_objects, True),
        (no_objects, False),
    ],
)
async def test_a_damaged_mirror_is_cloned_again(
    breaking: Callable[[Path], None],
    has_news: bool,
    fetcher: RemoteFetcher,
    settings: FetchSettings,
    spec: RepoSpec,
    server: GitServer,
    repo: Repo,
) -> None:
    await files_of(fetcher, spec)
    breaking(mirror_of(settings, spec))
    expected: dict[str, object] = dict(FILES)
    if has_news:
        repo.commit({"f0": b"changed"})
        server.push(repo, "app.git", "main")
        expected["f0"] = b"changed"
    assert await files_of(fetcher, spec) == expected


async def test_damage_that_only_reading_shows_is_repaired_by_the_next_fetch(
    fetcher: RemoteFetcher, settings: FetchSettings, spec: RepoSpec
) -> None:
    await files_of(fetcher, spec)
    (pack,) = (mirror_of(settings, spec) / "objects/pack").glob("*.pack")
    content = bytearray(pack.read_bytes())
    pack.chmod(0o600)
    content[-400:-60] = bytes(340)
    pack.write_bytes(content)
    try:
        damaged = await files_of(fetcher, spec)
    except Unavailable:
        damaged = {}
    assert damaged != FILES
    assert await files_of(fetcher, spec) == FILES


async def test_a_slow_origin_does_not_discard_the_mirror(
    settings: FetchSettings,
    spec: RepoSpec,
    server: GitServer,
    repo: Repo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await files_of(RemoteFetcher(settings), spec)
    inode = mirror_of(settings, spec).stat().st_ino
    repo.commit({"f0": b"changed"})
    server.push(repo, "app.git", "main")
    with monkeypatch.context() as patch:
        put_before_git(tmp_path / "bin", patch, ['case "$2" in fetch) exec tail -f /dev/null;; esac', 'exec $GIT "$@"'])
        with pytest.raises(Unavailable, match="fetch timed out after 0 s; retrying later"):
            await files_of(RemoteFetcher(replace(settings, timeout_s=0.1)), spec)
    assert (await files_of(RemoteFetcher(settings), spec))["f0"] == b"changed"
    assert mirror_of(settings, spec).stat().st_ino == inode


async def test_a_truncated_fetch_does_not_discard_the_mirror(
    fetcher: RemoteFetcher, settings: FetchSettings, spec: RepoSpec, server: GitServer, repo: Repo
) -> None:
    await files_of(fetcher, spec)
    inode = mirror_of(settings, spec).stat().st_ino
    repo.commit({"large": os.urandom(50_000)})
    server.push(repo, "app.git", "main")
    server.faults.cut_bytes = 20_000
    with pytest.raises(Unavailable, match="truncated or damaged"):
        await files_of(fetcher, spec)
    server.faults.cut_bytes = 0
    assert len(await files_of(fetcher, spec)) == len(FILES) + 1
    assert mirror_of(settings, spec).stat().st_ino == inode


async def test_files_left_by_a_killed_git_stop_no_fetch(
    fetcher: RemoteFetcher, settings: FetchSettings, spec: RepoSpec, server: GitServer, repo: Repo
) -> None:
    await files_of(fetcher, spec)
    mirror = mirror_of(settings, spec)
    (mirror / "objects/pack/tmp_pack_abc").write_bytes(b"half")
    (mirror / "packed-refs.lock").touch()
    (mirror / "shallow.lock").touch()
    mirror.with_suffix(".new").mkdir()
    repo.commit({"f0": b"changed"})
    server.push(repo, "app.git", "main")
    assert (await files_of(fetcher, spec))["f0"] == b"changed"
    assert not mirror.with_suffix(".new").exists()
    assert [*mirror.rglob("tmp_*"), *mirror.rglob("*.lock")] == []


async def test_concurrent_fetches_of_one_repository_are_coalesced(
    settings: FetchSettings, spec: RepoSpec, server: GitServer
) -> None:
    alone = RemoteFetcher(replace(settings, dir=f"{settings.dir}-alone"))
    await alone.heads(spec)
    to_look = posts(server)
    await files_of(alone, spec)
    to_fetch = posts(server) - 2 * to_look
    server.faults.requests.clear()
    fetchers = [RemoteFetcher(settings) for _ in range(4)]
    answers = await asyncio.gather(*(files_of(fetcher, spec) for fetcher in fetchers))
    assert answers == [FILES] * 4
    assert to_fetch > 0
    assert posts(server) == len(fetchers) * to_look + to_fetch


async def test_a_mirror_that_another_process_fetches_into_is_waited_for(
    settings: FetchSettings, spec: RepoSpec, tmp_path: Path
) -> None:
    await files_of(RemoteFetcher(settings), spec)
    hasty = RemoteFetcher(replace(settings, timeout_s=0.1))
    lock = mirror_of(settings, spec).with_suffix(".writing")
    code = "import fcntl,sys; f=open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(lock), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"\n"
    with pytest.raises(Unavailable, match="is being fetched by another process; retrying later"):
        await files_of(hasty, spec)
    patient = asyncio.create_task(files_of(RemoteFetcher(settings), spec))
    await holder.communicate(b"")  # with its end the lock is free
    assert await patient == FILES


async def test_a_lock_is_held_for_as_long_as_git_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a git whose node was killed is not joined by another."""
    started = tmp_path / "started"
    os.mkfifo(started)
    put_before_git(tmp_path / "bin", monkeypatch, [f"echo > {started}", "exec tail -f /dev/null"])
    ours, theirs = FileLock(str(tmp_path / "lock")), FileLock(str(tmp_path / "lock"))
    assert ours.try_lock(fcntl.LOCK_EX)
    bounds = GitLimits(60.0, lock_fds=(ours.descriptor,))
    running = asyncio.create_task(run_git(OriginRoute(address_of("https://host/x")), ("fetch",), bounds))
    await asyncio.to_thread(started.read_text)
    ours.close()
    assert not theirs.try_lock(fcntl.LOCK_EX)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert theirs.try_lock(fcntl.LOCK_EX)
    theirs.close()


async def test_a_reader_keeps_its_mirror_and_delays_no_fetch(
    fetcher: RemoteFetcher, settings: FetchSettings, spec: RepoSpec, server: GitServer, repo: Repo
) -> None:
    small = RemoteFetcher(replace(settings, dir_bytes_max=1))
    async with small.fetch(spec) as source:
        repo.commit({"f0": b"changed"})
        server.push(repo, "app.git", "main")
        assert (await files_of(small, spec))["f0"] == b"changed"
        assert all_of(source) == {name.encode(): content for name, content in FILES.items()}
    assert mirror_of(settings, spec).exists()


async def test_the_least_recently_used_mirrors_are_deleted_when_there_are_too_many(
    settings: FetchSettings, server: GitServer, repo: Repo
) -> None:
    repo.commit({"blob": os.urandom(100_000)})
    specs = [RepoSpec(name, server.serve_clone(repo, f"{name}.git")) for name in ("a", "b", "c")]
    fetcher = RemoteFetcher(replace(settings, dir_bytes_max=300_000))
    for at_s, spec in enumerate((specs[1], specs[0]), start=1):
        await files_of(fetcher, spec)
        os.utime(mirror_of(settings, spec).with_suffix(".using"), (at_s, at_s))
    await files_of(fetcher, specs[2])
    assert [mirror_of(settings, spec).exists() for spec in specs] == [True, False, True]
    assert (await files_of(fetcher, specs[1]))["blob"], "and are fetched again on request"


async def test_a_mirror_in_use_is_never_deleted(settings: FetchSettings, spec: RepoSpec) -> None:
    fetcher = RemoteFetcher(replace(settings, dir_bytes_max=1))
    mirrors = Mirrors(settings.dir, bytes_max=1, clock=SystemClock())
    async with fetcher.fetch(spec) as source:
        assert mirrors.trim() == []
        assert len(source.entries()) == len(FILES)
    assert mirrors.trim() == [str(mirror_of(settings, spec))]


async def test_a_damaged_mirror_stays_for_its_present_readers(settings: FetchSettings, spec: RepoSpec) -> None:
    fetcher = RemoteFetcher(settings)
    await files_of(fetcher, spec)
    broken_config(mirror_of(settings, spec))
    with mirror_of(settings, spec).with_suffix(".using").open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(Unavailable, match="mirror damaged, and still in use"):
            await files_of(fetcher, spec)
    assert await files_of(fetcher, spec) == FILES


async def test_many_small_packs_become_one_and_old_history_is_deleted(
    fetcher: RemoteFetcher,
    settings: FetchSettings,
    spec: RepoSpec,
    server: GitServer,
    repo: Repo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await files_of(fetcher, spec)
    for content in (b"1", b"2"):
        repo.commit({"f0": content})
        server.push(repo, "app.git", "main")
        await files_of(fetcher, spec)
    packs = mirror_of(settings, spec) / "objects/pack"
    assert len(list(packs.glob("*.pack"))) == 3
    monkeypatch.setattr(remote_mirrors, "PACKS_MAX", 2)
    assert (await files_of(fetcher, spec))["f0"] == b"2"
    assert len(list(packs.glob("*.pack"))) == 1


async def test_branches_no_longer_requested_are_deleted(
    fetcher: RemoteFetcher, settings: FetchSettings, spec: RepoSpec, server: GitServer, repo: Repo
) -> None:
    server.push(repo, "app.git", "main:other")
    for branches in (("main", "other"), ("other",)):
        async with fetcher.fetch(RepoSpec("app", spec.url, branches)) as source:
            assert [branch.name for branch in source.repository.branches] == list(branches)
    refs = Repo(mirror_of(settings, spec)).git("for-each-ref", "--format=%(refname)").split()
    assert len(refs) == 1


async def test_a_temporary_clone_is_deleted_and_so_are_those_left_behind(
    settings: FetchSettings, spec: RepoSpec
) -> None:
    fetcher = RemoteFetcher(replace(settings, mode="shallow"), clock=Later())
    passing = Path(settings.dir) / "passing"
    (passing / "left").mkdir(parents=True)
    (passing / "held").mkdir()
    with open_folder(passing / "held") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with fetcher.fetch(spec) as source:
            assert "left" not in os.listdir(passing)
            assert len(os.listdir(passing)) == 2
            assert len(source.entries()) == len(FILES)
    assert os.listdir(passing) == ["held"]
    assert not mirror_of(settings, spec).exists()


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def test_a_temporary_clone_is_deleted_also_when_its_reader_fails(settings: FetchSettings, spec: RepoSpec) -> None:
    fetcher = RemoteFetcher(replace(settings, mode="shallow"))
    with pytest.raises(ZeroDivisionError):
        async with fetcher.fetch(spec):
            raise ZeroDivisionError
    assert os.listdir(Path(settings.dir) / "passing") == []


async def test_a_folder_that_cannot_be_created_is_reported(
    settings: FetchSettings, spec: RepoSpec, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for mode in ("mirror", "shallow"):
        fetcher = RemoteFetcher(replace(settings, mode=mode, dir=str(tmp_path / "file" / "mirrors")))
        with pytest.raises(Unavailable, match=r"cannot create .*; set fetch\.dir"):
            await files_of(fetcher, spec)


def test_two_addresses_never_share_a_mirror() -> None:
    long = f"https://h/{'x' * 200}"
    texts = ["https://h/a-b", "https://h/a/b", "http://h/a/b", "https://h/A/b", "h.example:a/b", long, f"{long}y"]
    keys = [mirror_key(address_of(text).url) for text in texts]
    assert len(set(keys)) == len(texts)
    assert all(len(key) < 120 and "/" not in key for key in keys)
