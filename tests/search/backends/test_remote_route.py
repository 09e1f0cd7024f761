"""Redirects and private addresses: which are followed, which are rejected, and that no name can change in between."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.base.errors import Forbidden, Invalid, Unavailable
from argosy.search.backends.remote import RemoteFetcher
from argosy.search.backends.remote_git import OriginRoute, git_environment
from argosy.search.backends.remote_route import REDIRECTS_MAX, resolve
from argosy.search.catalog.addresses import address_of
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch
from argosy.search.settings import FetchSettings
from tests.search.backends.repositories import Repo, all_of, children, put_before_git
from tests.servers.git_http import GitServer, git_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path / "served") as serving:
        yield serving


@pytest.fixture
def other(tmp_path: Path) -> Iterator[GitServer]:
    """Another host, as far as addresses go."""
    with git_server(tmp_path / "elsewhere", "127.0.0.2") as serving:
        yield serving


@pytest.fixture
def settings(tmp_path: Path) -> FetchSettings:
    return FetchSettings(dir=str(tmp_path / "mirrors"))


def only_other_is_private(number: str) -> bool:
    return number == "127.0.0.2"


def spec_of(url: str) -> RepoSpec:
    return RepoSpec("app", url)


async def test_a_redirect_on_the_same_host_is_followed_and_remembered(
    settings: FetchSettings, server: GitServer, repo: Repo
) -> None:
    commit = repo.commit({"a": b"a"})
    server.serve_clone(repo, "new.git")
    server.faults.redirects["old.git"] = server.url("new.git")
    fetcher = RemoteFetcher(settings)
    spec = spec_of(server.url("old.git"))
    assert await fetcher.heads(spec) == (Branch("main", commit),)
    async with fetcher.fetch(spec) as source:
        assert all_of(source) == {b"a": b"a"}
        assert source.repository.source == server.url("old.git"), (
            "the requested address, not the target of the redirect"
        )
    server.faults.requests.clear()
    await fetcher.heads(spec)
    assert not any(path.startswith("/old.git") for _, path, _ in server.faults.requests)


async def test_a_remembered_redirect_that_has_ended_is_resolved_again(
    settings: FetchSettings, server: GitServer, repo: Repo
) -> None:
    repo.commit({"a": b"a"})
    server.serve_clone(repo, "new.git")
    server.faults.redirects["old.git"] = server.url("new.git")
    fetcher = RemoteFetcher(settings)
    spec = spec_of(server.url("old.git"))
    before = await fetcher.heads(spec)
    (server.folder / "new.git").rename(server.folder / "newer.git")
    server.faults.redirects["old.git"] = server.url("newer.git")
    assert await fetcher.heads(spec) == before
    (server.folder / "newer.git").rename(server.folder / "old.git")
    server.faults.redirects.clear()
    assert await fetcher.heads(spec) == before


async def test_a_redirect_from_private_to_private_is_followed(
    settings: FetchSettings, server: GitServer, other: GitServer, repo: Repo
) -> None:
    commit = repo.commit({"a": b"a"})
    other.serve_clone(repo, "app.git")
    server.faults.redirects["app.git"] = other.url("app.git")
    assert await RemoteFetcher(settings).heads(spec_of(server.url("app.git"))) == (Branch("main", commit),)


@pytest.mark.parametrize("allow_private", [True, False])
async def test_a_redirect_from_a_public_to_a_private_address_is_never_followed(
    allow_private: bool, settings: FetchSettings, server: GitServer, other: GitServer, repo: Repo
) -> None:
    repo.commit({"a": b"a"})
    other.serve_clone(repo, "app.git")
    server.faults.redirects["app.git"] = other.url("app.git")
    fetcher = RemoteFetcher(replace(settings, allow_private=allow_private), private=only_other_is_private)
    with pytest.raises(Forbidden, match=r"127\.0\.0\.1:\d+ redirects to 127\.0\.0\.2:\d+, a private address"):
        await fetcher.heads(spec_of(server.url("app.git")))
    assert other.faults.requests == []


async def test_a_redirect_by_a_name_for_a_private_address_is_not_followed(
    settings: FetchSettings, server: GitServer, other: GitServer
) -> None:
    server.faults.redirects["app.git"] = f"http://innocent.example:{other.port}/app.git"

    async def resolver(host: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.2",) if host == "innocent.example" else (host,)

    fetcher = RemoteFetcher(settings, resolver=resolver, private=only_other_is_private)
    with pytest.raises(Forbidden, match=r"redirects to innocent\.example:\d+, a private address"):
        await fetcher.heads(spec_of(server.url("app.git")))
    assert other.faults.requests == []


async def test_a_private_origin_is_rejected_unless_it_is_allowed(settings: FetchSettings, server: GitServer) -> None:
    fetcher = RemoteFetcher(replace(settings, allow_private=False))
    for url in (server.url("app.git"), f"http://localhost:{server.port}/app.git", "ssh://git@127.0.0.1/x", "::1:x"):
        with pytest.raises((Forbidden, Invalid), match=r"has a private address|invalid address"):
            await fetcher.heads(spec_of(url))
    assert server.faults.requests == []


async def test_a_name_that_changes_its_address_after_the_check_is_not_resolved_again(
    settings: FetchSettings, server: GitServer, other: GitServer, repo: Repo
) -> None:
    commit = repo.commit({"a": b"a"})
    server.serve_clone(repo, "app.git")
    answers = [("127.0.0.1",), ("127.0.0.2",)]

    async def resolver(host: str, port: int) -> tuple[str, ...]:
        return answers.pop(0)

    fetcher = RemoteFetcher(replace(settings, allow_private=False), resolver=resolver, private=only_other_is_private)
    spec = spec_of(f"http://rebinding.example:{server.port}/app.git")
    assert await fetcher.heads(spec) == (Branch("main", commit),)
    with pytest.raises(Forbidden, match="has a private address"):
        await fetcher.heads(spec)


async def test_a_git_that_cannot_pin_an_address_is_not_used_where_it_matters(
    settings: FetchSettings, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ['test "$1" = --version && exec echo git version 2.36.9', 'exec $GIT "$@"']
    put_before_git(tmp_path / "bin", monkeypatch, old)
    fetcher = RemoteFetcher(replace(settings, allow_private=False), private=only_other_is_private)
    with pytest.raises(Invalid, match=r"cannot be restricted to checked network addresses; install git 2\.37"):
        await fetcher.heads(spec_of(server.url("app.git")))
    assert server.faults.requests == []


async def test_a_host_with_one_private_address_among_public_ones_is_private(settings: FetchSettings) -> None:
    async def resolver(host: str, port: int) -> tuple[str, ...]:
        return "93.184.216.34", "10.0.0.1"

    fetcher = RemoteFetcher(replace(settings, allow_private=False), resolver=resolver)
    with pytest.raises(Forbidden, match="has a private address"):
        await fetcher.heads(spec_of("https://two.example/x"))


async def test_a_protocol_that_cannot_be_pinned_is_rejected_where_pinning_is_required(settings: FetchSettings) -> None:
    async def resolver(host: str, port: int) -> tuple[str, ...]:
        return ("93.184.216.34",)

    fetcher = RemoteFetcher(replace(settings, allow_private=False), resolver=resolver)
    with pytest.raises(Forbidden, match="cannot be pinned; use its https or ssh address"):
        await fetcher.heads(spec_of("git://public.example/x"))


async def test_redirects_in_a_circle_end(settings: FetchSettings, server: GitServer) -> None:
    before = children()
    server.faults.redirects.update({"a.git": server.url("b.git"), "b.git": server.url("a.git")})
    with pytest.raises(Invalid, match=f"redirects more than {REDIRECTS_MAX} times"):
        await RemoteFetcher(settings).heads(spec_of(server.url("a.git")))
    assert len(server.faults.requests) == REDIRECTS_MAX + 1
    assert children() == before


@pytest.mark.parametrize(
    ("target", "kind", "reason"),
    [
        ("ext::sh -c x", Invalid, "unsupported address"),
        ("file:///etc", Invalid, "unsupported address"),
        ("ftp://host/x", Invalid, "unsupported address"),
        ("ssh://git@host/x", Forbidden, "a ssh address, which is less secure"),
    ],
)
async def test_a_redirect_to_another_protocol_is_rejected(
    target: str, kind: type[Exception], reason: str, settings: FetchSettings, server: GitServer
) -> None:
    server.faults.redirects["app.git"] = target
    with pytest.raises(kind, match=reason):
        await RemoteFetcher(settings).heads(spec_of(server.url("app.git")))


async def test_a_redirect_to_an_html_page_is_rejected(settings: FetchSettings, server: GitServer) -> None:
    server.faults.redirects["app.git"] = server.url("login?then=")
    with pytest.raises(Invalid, match=r"unsupported address|not a repository"):
        await RemoteFetcher(settings).heads(spec_of(server.url("app.git")))


async def test_credentials_do_not_follow_a_redirect_to_another_host(
    settings: FetchSettings, server: GitServer, other: GitServer, repo: Repo, tmp_path: Path
) -> None:
    commit = repo.commit({"a": b"a"})
    other.serve_clone(repo, "app.git")
    server.serve_clone(repo, "next.git")
    server.faults.passwords.update({"app.git": "me:hunter2", "next.git": "me:hunter2"})
    credentials = tmp_path / "credentials"
    lines = [f"http://me:hunter2@{each.host}:{each.port}\n" for each in (server, other)]
    credentials.write_text("".join(lines))
    fetcher = RemoteFetcher(replace(settings, credentials_file=str(credentials)))
    server.faults.redirects["app.git"] = other.url("app.git")
    assert await fetcher.heads(spec_of(server.url("app.git"))) == (Branch("main", commit),)
    assert {authorization for _, _, authorization in other.faults.requests} == {""}
    server.faults.redirects["near.git"] = server.url("next.git")
    assert await fetcher.heads(spec_of(server.url("near.git"))) == (Branch("main", commit),)


async def test_names_are_resolved_as_the_system_does() -> None:
    assert await resolve("127.0.0.1", 80) == ("127.0.0.1",)
    assert await resolve("2130706433", 80) == ("127.0.0.1",), "however it is written"
    with pytest.raises(Unavailable, match=r"cannot resolve host nowhere\.invalid"):
        await resolve("nowhere.invalid", 80)


def test_ssh_connects_to_the_checked_address_and_never_prompts() -> None:
    environment = git_environment(OriginRoute(address_of("ssh://git@host.example:2222/o/r"), ("192.0.2.7",)))
    assert "-oHostName=192.0.2.7 -oHostKeyAlias=[host.example]:2222" in environment["GIT_SSH_COMMAND"]
    assert "-oBatchMode=yes" in environment["GIT_SSH_COMMAND"]
    assert (environment["GIT_ALLOW_PROTOCOL"], environment["GIT_TERMINAL_PROMPT"]) == ("ssh", "0")
