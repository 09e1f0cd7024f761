"""Repositories fetched from a real git server and from the disk, and every way in which an origin can fail."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.base.errors import ArgosyError, Forbidden, Invalid, NotFound, Unavailable
from argosy.search.backends import folder_files, remote_git
from argosy.search.backends.remote import RemoteFetcher
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import RepoSpec
from argosy.search.fleet.ports import Fetcher
from argosy.search.model import Branch
from argosy.search.settings import FetchSettings
from tests.search.backends.repositories import COMMIT_S, Repo, all_of, children, put_before_git
from tests.servers.git_http import GitServer, git_server

MODES = ("mirror", "shallow")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served") as serving:
        yield serving


@pytest.fixture
def settings(tmp_path: Path) -> FetchSettings:
    return FetchSettings(dir=str(tmp_path / "mirrors"), allow_local=True)


@pytest.fixture
def fetcher(settings: FetchSettings) -> RemoteFetcher:
    return RemoteFetcher(settings)


@pytest.fixture(params=MODES)
def either(request: pytest.FixtureRequest, settings: FetchSettings) -> RemoteFetcher:
    return RemoteFetcher(replace(settings, mode=request.param))


async def fetch_contents(fetcher: Fetcher, spec: RepoSpec) -> tuple[tuple[Branch, ...], dict[bytes, object]]:
    """The branches and all files of a repository."""
    async with fetcher.fetch(spec) as source:
        return source.repository.branches, dict(await asyncio.to_thread(all_of, source))


def spec_of(url: str, *branches: str) -> RepoSpec:
    return RepoSpec("team/app", url, branches)


def left_in(folder: Path) -> list[str]:
    """What is left of passing clones and half-made mirrors."""
    return [path.name for path in (*folder.glob("passing/*"), *folder.glob("*.new"))]


async def test_a_repository_is_fetched_under_its_requested_name(
    either: RemoteFetcher, server: GitServer, repo: Repo
) -> None:
    commit = repo.commit({"a.py": b"a = 1\n", "b/c.txt": b"c\n"})
    spec = spec_of(server.serve_clone(repo, "app.git"))
    assert await either.heads(spec) == (Branch("main", commit),)
    async with either.fetch(spec) as source:
        found = source.repository
        assert await asyncio.to_thread(all_of, source) == {b"a.py": b"a = 1\n", b"b/c.txt": b"c\n"}
    assert (found.name, found.id, found.source) == ("team/app", repository_id("team/app"), spec.url)
    assert (found.branches, found.latest_commit_s) == ((Branch("main", commit),), COMMIT_S)
    assert found.url == server.url("app")


async def test_a_well_known_host_gives_pages_on_the_web(settings: FetchSettings, server: GitServer, repo: Repo) -> None:
    repo.commit({"a": b"a"})
    server.serve_clone(repo, "app.git")

    async def resolver(host: str, port: int) -> tuple[str, ...]:
        assert host == "github.example"
        return (server.host,)

    # Only the test resolves this name: success shows that git connects to the address that was checked.
    fetcher = RemoteFetcher(replace(settings, allow_private=False), resolver=resolver, private=lambda number: False)
    url = f"http://github.example:{server.port}/app.git"
    async with fetcher.fetch(spec_of(url)) as source:
        assert source.repository.file_url_template == (
            f'{{{{URLJoinPath "http://github.example:{server.port}/app" "blob" .Version .Path}}}}'
        )


async def test_progress_is_reported(either: RemoteFetcher, server: GitServer, repo: Repo) -> None:
    repo.commit({f"file-{number}": bytes([number]) * 9 for number in range(50)})
    server.serve_clone(repo, "app.git")
    progress: list[float] = []
    async with either.fetch(spec_of(server.url("app.git")), progress.append) as source:
        assert len(list(source.entries())) == 50
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


async def test_several_branches_and_tags_in_the_requested_order(
    either: RemoteFetcher, server: GitServer, repo: Repo
) -> None:
    first = repo.commit({"a": b"one"})
    repo.git("tag", "-a", "v1", "-m", "a tag with a text of its own")
    repo.git("branch", "release/2")
    second = repo.commit({"a": b"two"})
    url = server.serve_clone(repo, "app.git")
    branches, _ = await fetch_names(either, spec_of(url, "v1", "HEAD", "release/*", "main"))
    assert branches == (Branch("v1", first), Branch("main", second), Branch("release/2", first))


async def fetch_names(fetcher: Fetcher, spec: RepoSpec) -> tuple[tuple[Branch, ...], list[bytes]]:
    assert await fetcher.heads(spec)
    async with fetcher.fetch(spec) as source:
        entries = await asyncio.to_thread(source.entries)
        assert source.repository.branches == await fetcher.heads(spec)
        return source.repository.branches, [entry.path for entry in entries]


async def test_a_detached_head_is_fetched_as_head(either: RemoteFetcher, server: GitServer, repo: Repo) -> None:
    commit = repo.commit({"a": b"one"})
    repo.commit({"a": b"two"})
    url = server.serve_clone(repo, "app.git")
    (server.folder / "app.git" / "HEAD").write_text(f"{commit}\n")
    assert await fetch_contents(either, spec_of(url)) == ((Branch("HEAD", commit),), {b"a": b"one"})


async def test_sha256_objects_are_fetched(either: RemoteFetcher, server: GitServer, tmp_path: Path) -> None:
    repo = Repo.create(tmp_path / "new", "--object-format=sha256")
    commit = repo.commit({"a": b"a"})
    assert await fetch_contents(either, spec_of(server.serve_clone(repo, "app.git"))) == (
        (Branch("main", commit),),
        {b"a": b"a"},
    )


async def test_a_new_commit_is_seen_and_fetched_into_the_mirror(
    fetcher: RemoteFetcher, server: GitServer, repo: Repo
) -> None:
    repo.commit({f"f{number}": os.urandom(2000) for number in range(50)})
    spec = spec_of(server.serve_clone(repo, "app.git"))
    await fetch_contents(fetcher, spec)
    commit = repo.commit({"new": b"new"})
    server.push(repo, "app.git", "main")
    sent = len(server.faults.requests)
    branches, files = await fetch_contents(fetcher, spec)
    assert branches == (Branch("main", commit),)
    assert files[b"new"] == b"new"
    assert len(files) == 51
    assert len(server.faults.requests) > sent


async def test_nothing_is_fetched_when_nothing_is_new(fetcher: RemoteFetcher, server: GitServer, repo: Repo) -> None:
    repo.commit({"a": b"a"})
    repo.git("tag", "-a", "v1", "-m", "a tag with a text of its own")
    spec = spec_of(server.serve_clone(repo, "app.git"), "main", "v1")
    before = await fetch_contents(fetcher, spec)
    server.faults.requests.clear()
    await fetcher.heads(spec)
    to_look = len(server.faults.requests)
    server.faults.requests.clear()
    assert await fetch_contents(fetcher, spec) == before
    assert len(server.faults.requests) == to_look


async def test_a_forced_push_just_works(either: RemoteFetcher, server: GitServer, repo: Repo) -> None:
    repo.commit({"a": b"one"})
    spec = spec_of(server.serve_clone(repo, "app.git"))
    await fetch_contents(either, spec)
    repo.git("checkout", "-q", "--orphan", "other")
    commit = repo.commit({"a": b"another history"})
    server.push(repo, "app.git", "other:main")
    assert await fetch_contents(either, spec) == ((Branch("main", commit),), {b"a": b"another history"})


async def test_a_branch_may_become_a_folder_of_branches(fetcher: RemoteFetcher, server: GitServer, repo: Repo) -> None:
    commit = repo.commit({"a": b"a"})
    repo.git("branch", "work")
    url = server.serve_clone(repo, "app.git")
    await fetch_contents(fetcher, spec_of(url, "work"))
    server.push(repo, "app.git", ":work")
    server.push(repo, "app.git", "main:refs/heads/work/one")
    branches, _ = await fetch_contents(fetcher, spec_of(url, "work/one"))
    assert branches == (Branch("work/one", commit),)


async def test_a_missing_branch_is_reported_with_the_existing_ones(
    either: RemoteFetcher, server: GitServer, repo: Repo
) -> None:
    repo.commit({"a": b"a"})
    repo.git("branch", "develop")
    url = server.serve_clone(repo, "app.git")
    with pytest.raises(NotFound, match=r"branch 'trunk' not found at .*app\.git; available: develop, main"):
        await either.heads(spec_of(url, "main", "trunk"))
    with pytest.raises(NotFound, match="did you mean 'develop'"):
        await fetch_contents(either, spec_of(url, "develp"))


@pytest.mark.parametrize("branch", ["-x", "a:b", "+a", "a..b", "a b", "", "a\nb", "a~1", "refs/heads/../x"])
async def test_an_invalid_branch_name_is_rejected(fetcher: RemoteFetcher, branch: str, server: GitServer) -> None:
    with pytest.raises(Invalid, match="invalid branch"):
        await fetcher.heads(spec_of(server.url("app.git"), branch))
    assert server.faults.requests == []


async def test_an_empty_repository_is_reported(either: RemoteFetcher, server: GitServer, tmp_path: Path) -> None:
    Repo.create(server.folder / "app.git", "--bare")
    for branches in ((), ("main",)):
        with pytest.raises(NotFound, match=r"app\.git is empty; push a first commit"):
            await fetch_contents(either, spec_of(server.url("app.git"), *branches))


async def test_a_dangling_head_is_reported_with_the_existing_branches(
    fetcher: RemoteFetcher, server: GitServer, repo: Repo
) -> None:
    repo.commit({"a": b"a"})
    url = server.serve_clone(repo, "app.git")
    (server.folder / "app.git" / "HEAD").write_text("ref: refs/heads/gone\n")
    with pytest.raises(NotFound, match=r"HEAD of .* points to no branch; available: main"):
        await fetcher.heads(spec_of(url))


async def test_a_missing_repository_is_reported(either: RemoteFetcher, server: GitServer, repo: Repo) -> None:
    repo.commit({"a": b"a"})
    spec = spec_of(server.serve_clone(repo, "app.git"))
    await fetch_contents(either, spec)
    (server.folder / "app.git").rename(server.folder / "gone.git")
    with pytest.raises(NotFound, match=r"repository not found at .*app\.git, or access denied; check the address"):
        await fetch_contents(either, spec)


async def test_a_repository_that_vanishes_between_check_and_fetch_is_reported(
    fetcher: RemoteFetcher, server: GitServer, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit({"a": b"a"})
    url = server.serve_clone(repo, "app.git")
    gone = server.folder / "gone.git"
    put_before_git(
        tmp_path / "bin",
        monkeypatch,
        [f'case "$*" in *fetch*) mv {server.folder}/app.git {gone};; esac', 'exec $GIT "$@"'],
    )
    with pytest.raises(NotFound, match="repository not found at"):
        await fetch_contents(fetcher, spec_of(url))
    assert gone.exists()


@pytest.mark.parametrize("mode", MODES)
async def test_a_repository_that_is_too_large_is_rejected_and_nothing_is_left(
    mode: str, settings: FetchSettings, server: GitServer, repo: Repo
) -> None:
    repo.commit({"blob": os.urandom(3 << 20)})
    spec = spec_of(server.serve_clone(repo, "app.git"))
    fetcher = RemoteFetcher(replace(settings, mode=mode, repository_bytes_max=1 << 20))
    with pytest.raises(Invalid, match=r"larger than 1 MiB; raise fetch\.repository_bytes_max"):
        await fetch_contents(fetcher, spec)
    assert left_in(Path(settings.dir)) == []
    _, files = await fetch_contents(RemoteFetcher(replace(settings, mode=mode)), spec)
    assert list(files) == [b"blob"]


async def test_a_fetch_that_grows_too_large_is_ended(
    settings: FetchSettings, server: GitServer, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit({"a": b"a"})
    url = server.serve_clone(repo, "app.git")
    before = children()
    put_before_git(
        tmp_path / "bin",
        monkeypatch,
        [
            'case "$1 $2" in *fetch*) head -c 3000000 /dev/zero > "${1#--git-dir=}/objects/pack/tmp_pack_x"',
            "exec tail -f /dev/null;; esac",
            'exec $GIT "$@"',
        ],
    )
    fetcher = RemoteFetcher(replace(settings, repository_bytes_max=1 << 20))
    with pytest.raises(Invalid, match="larger than 1 MiB"):
        await fetch_contents(fetcher, spec_of(url))
    assert children() == before


async def test_a_corrupt_pack_of_the_origin_is_reported(either: RemoteFetcher, server: GitServer, repo: Repo) -> None:
    repo.commit({f"f{number}": os.urandom(5000) for number in range(20)})
    url = server.serve_clone(repo, "app.git")
    Repo(server.folder / "app.git").git("repack", "-a", "-d", "-q")
    (pack,) = (server.folder / "app.git/objects/pack").glob("*.pack")
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    content[30_000:60_000] = bytes(30_000)
    pack.write_bytes(content)
    with pytest.raises(Unavailable, match=r"failed while sending|truncated or damaged"):
        await fetch_contents(either, spec_of(url))


async def test_a_truncated_response_is_reported_and_the_next_fetch_succeeds(
    either: RemoteFetcher, server: GitServer, repo: Repo
) -> None:
    repo.commit({f"f{number}": os.urandom(5000) for number in range(20)})
    spec = spec_of(server.serve_clone(repo, "app.git"))
    server.faults.cut_bytes = 40_000
    with pytest.raises(Unavailable, match=r"truncated or damaged; retrying later"):
        await fetch_contents(either, spec)
    server.faults.cut_bytes = 0
    assert len((await fetch_contents(either, spec))[1]) == 20


async def test_a_server_error_is_reported(fetcher: RemoteFetcher, server: GitServer) -> None:
    for status, kind, reason in [
        (500, Unavailable, "overloaded or failing"),
        (429, Unavailable, "overloaded or failing"),
        (403, Forbidden, "denied access"),
        (410, NotFound, "repository not found"),
    ]:
        server.faults.statuses["app.git"] = status
        with pytest.raises(kind, match=reason):
            await fetcher.heads(spec_of(server.url("app.git")))


async def test_a_page_that_is_no_repository_is_reported(fetcher: RemoteFetcher, server: GitServer) -> None:
    server.faults.statuses["app.git"] = 200
    with pytest.raises(Invalid, match="is not served by a git server"):
        await fetcher.heads(spec_of(server.url("app.git")))


async def test_an_unreachable_server_is_reported(fetcher: RemoteFetcher, tmp_path: Path) -> None:
    with git_server(tmp_path / "away") as away:
        url = away.url("app.git")
    with pytest.raises(Unavailable, match="unreachable; retrying later"):
        await fetcher.heads(spec_of(url))


async def test_an_unknown_host_is_reported(fetcher: RemoteFetcher) -> None:
    with pytest.raises(Unavailable, match=r"cannot resolve host nowhere\.invalid"):
        await fetcher.heads(spec_of("https://nowhere.invalid/o/r"))


async def test_a_server_that_hangs_times_out_and_git_is_ended(settings: FetchSettings, server: GitServer) -> None:
    before = children()
    server.faults.hangs = True
    fetcher = RemoteFetcher(replace(settings, ls_remote_timeout_s=0.2))
    with pytest.raises(Unavailable, match="ls-remote timed out after 0 s"):
        await fetcher.heads(spec_of(server.url("app.git")))
    assert children() == before


async def test_cancelling_ends_all_processes_at_work(fetcher: RemoteFetcher, server: GitServer) -> None:
    before = children()
    server.faults.hangs = True
    looking = asyncio.create_task(fetcher.heads(spec_of(server.url("app.git"))))
    assert await asyncio.to_thread(server.faults.request_received.wait, 30)
    assert children() > before
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert children() == before


async def test_a_git_that_does_not_want_to_end_is_killed(
    settings: FetchSettings, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_git, "TERMINATE_S_MAX", 0.1)
    before = children()
    put_before_git(tmp_path / "bin", monkeypatch, ["trap '' TERM", "tail -f /dev/null &", "tail -f /dev/null"])
    fetcher = RemoteFetcher(replace(settings, ls_remote_timeout_s=0.2))
    with pytest.raises(Unavailable, match="timed out"):
        await fetcher.heads(spec_of(server.url("app.git")))
    assert children() == before


async def test_an_origin_with_an_endless_list_of_refs_is_rejected(
    fetcher: RemoteFetcher, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_git, "OUTPUT_BYTES_MAX", 1 << 20)
    before = children()
    put_before_git(tmp_path / "bin", monkeypatch, ["exec yes"])
    with pytest.raises(Invalid, match="lists more than 1 MiB of branches"):
        await fetcher.heads(spec_of(server.url("app.git")))
    assert children() == before


@pytest.mark.parametrize(
    "url", ["-u/x", "ext::sh -c 'touch {mark}'", "fd::3", "https://host/a\nb", "", "ssh://-oProxyCommand=touch {mark}"]
)
async def test_a_hostile_address_reaches_no_program(
    url: str, fetcher: RemoteFetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    put_before_git(tmp_path / "bin", monkeypatch, [f"touch {mark}"])
    with pytest.raises(Invalid):
        await fetcher.heads(spec_of(url.format(mark=mark)))
    with pytest.raises(Invalid):
        await fetch_contents(fetcher, spec_of(url.format(mark=mark)))
    assert not mark.exists()


async def test_git_configuration_of_the_user_is_ignored(
    fetcher: RemoteFetcher, server: GitServer, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repo.commit({"a": b"a"})
    url = server.serve_clone(repo, "app.git")
    home = tmp_path / "home"
    home.mkdir()
    mark = tmp_path / "mark"
    (home / ".gitconfig").write_text(
        f'[credential]\n\thelper = "!touch {mark}"\n[url "{server.url("evil")}/"]\n\tinsteadOf = {server.url("")}\n'
        f"[core]\n\tsshCommand = touch {mark}\n[http]\n\tproxy = http://127.0.0.1:9\n"
    )
    (home / ".netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {mark}")
    monkeypatch.setenv("GIT_ASKPASS", str(mark))
    assert await fetcher.heads(spec_of(url)) == (Branch("main", commit),)
    server.faults.passwords["app.git"] = "me:hunter2"
    with pytest.raises(ArgosyError, match="credentials required"):
        await fetcher.heads(spec_of(url))
    assert not mark.exists()
    assert {authorization for _, _, authorization in server.faults.requests} == {""}


async def test_a_working_copy_is_read_as_it_lies_there(
    fetcher: RemoteFetcher, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_files, "SETTLED_S", -3600.0)
    commit = repo.commit({"a": b"a"})
    (repo.path / "new").write_bytes(b"not committed")
    spec = spec_of(str(repo.path))
    heads = await fetcher.heads(spec)
    assert await fetch_contents(fetcher, spec) == (heads, {b"a": b"a", b"new": b"not committed"})
    assert await fetcher.heads(spec) == heads, "nothing has changed"
    (repo.path / "new").write_bytes(b"changed again")
    assert await fetcher.heads(spec) != heads
    assert [branch.name for branch in heads] == ["main"]
    named = spec_of(f"file://{repo.path}", "main")
    assert await fetch_contents(fetcher, named) == ((Branch("main", commit),), {b"a": b"a"})


async def test_a_bare_repository_on_the_disk_is_read_through_git(
    fetcher: RemoteFetcher, repo: Repo, tmp_path: Path
) -> None:
    commit = repo.commit({"a": b"a"})
    bare = repo.clone(tmp_path / "bare.git", "--bare")
    async with fetcher.fetch(spec_of(str(bare.path))) as source:
        assert (source.repository.name, source.repository.branches) == ("team/app", (Branch("main", commit),))
    empty = Repo.create(tmp_path / "empty.git", "--bare")
    with pytest.raises(NotFound, match=r"empty\.git is empty"):
        await fetcher.heads(spec_of(str(empty.path)))


async def test_a_folder_without_git_changes_with_its_files(
    fetcher: RemoteFetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_files, "SETTLED_S", -3600.0)
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a").write_bytes(b"a")
    spec = spec_of(str(folder))
    seen = {(await fetcher.heads(spec))[0].version, (await fetcher.heads(spec))[0].version}
    (folder / "b").write_bytes(b"b")
    seen.add((await fetcher.heads(spec))[0].version)
    (folder / "a").unlink()
    seen.add((await fetcher.heads(spec))[0].version)
    assert len(seen) == 3
    assert all(version.startswith("files-") for version in seen)


async def test_local_paths_are_rejected_unless_they_are_allowed(settings: FetchSettings, repo: Repo) -> None:
    fetcher = RemoteFetcher(replace(settings, allow_local=False))
    for url in (str(repo.path), f"file://{repo.path}"):
        with pytest.raises(Forbidden, match=r"set fetch\.allow_local"):
            await fetcher.heads(spec_of(url))


async def test_a_missing_path_is_reported(fetcher: RemoteFetcher, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="not found: no such file or directory"):
        await fetcher.heads(spec_of(str(tmp_path / "nowhere")))
