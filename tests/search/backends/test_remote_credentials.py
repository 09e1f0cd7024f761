"""Credentials: found by host, renewed when rejected, and never shown."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import ArgosyError, Invalid, Unauthorized, Unavailable
from argosy.search.backends import remote_credentials
from argosy.search.backends.remote import RemoteFetcher
from argosy.search.backends.remote_credentials import CACHED_S, Credential, Credentials
from argosy.search.backends.remote_git import OriginRoute
from argosy.search.catalog.addresses import address_of
from argosy.search.fleet.model import RepoSpec
from argosy.search.settings import FetchSettings
from tests.search.backends.repositories import Repo, all_of, children, put_before_git
from tests.servers.git_http import GitServer, git_server

SECRET = "hunter2%zebra"


class Moved(SystemClock):
    """A clock that is set forward by hand."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


@pytest.fixture
def server(tmp_path: Path, repo: Repo) -> Iterator[GitServer]:
    """Serves app.git to one user only."""
    repo.commit({"a": b"a"})
    with git_server(tmp_path / "served") as serving:
        serving.serve_clone(repo, "app.git")
        serving.faults.passwords["app.git"] = f"me:{SECRET}"
        yield serving


@pytest.fixture
def settings(tmp_path: Path) -> FetchSettings:
    return FetchSettings(dir=str(tmp_path / "mirrors"))


def command(tmp_path: Path, *lines: str) -> str:
    """A program of these lines, which also counts how often it was run."""
    path = tmp_path / "a command"
    path.write_text("\n".join(["#!/bin/sh", f"echo $1 >> '{tmp_path}/runs'", *lines, ""]))
    path.chmod(0o755)
    return f"'{path}'"


def runs(tmp_path: Path) -> list[str]:
    return (tmp_path / "runs").read_text().split()


def configurations(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.glob("*/config"))


def write_credentials(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "credentials"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


async def test_without_credentials_the_error_names_the_host(settings: FetchSettings, server: GitServer) -> None:
    with pytest.raises(Unauthorized, match=rf"credentials required for 127\.0\.0\.1:{server.port}; add them to fetch"):
        await RemoteFetcher(settings).heads(RepoSpec("app", server.url("app.git")))


async def test_a_file_provides_credentials_by_host(settings: FetchSettings, server: GitServer, tmp_path: Path) -> None:
    path = write_credentials(
        tmp_path,
        "nonsense",
        "http://[broken",
        "https://you:other@example.com",
        f"http://me:hunter2%25zebra@127.0.0.1:{server.port}",
    )
    fetcher = RemoteFetcher(replace(settings, credentials_file=path))
    async with fetcher.fetch(RepoSpec("app", server.url("app.git"))) as source:
        assert all_of(source) == {b"a": b"a"}


async def test_a_file_that_is_changed_is_read_again(settings: FetchSettings, server: GitServer, tmp_path: Path) -> None:
    path = write_credentials(tmp_path, f"http://me:old@127.0.0.1:{server.port}")
    fetcher = RemoteFetcher(replace(settings, credentials_file=path))
    spec = RepoSpec("app", server.url("app.git"))
    with pytest.raises(Unauthorized, match=rf"127\.0\.0\.1:{server.port} rejected the credentials; renew"):
        await fetcher.heads(spec)
    write_credentials(tmp_path, f"http://me:hunter2%25zebra@127.0.0.1:{server.port}")
    assert await fetcher.heads(spec)


async def test_a_command_runs_once_for_many_fetches(settings: FetchSettings, server: GitServer, tmp_path: Path) -> None:
    program = command(tmp_path, f"echo 'me:{SECRET}'")
    fetcher = RemoteFetcher(replace(settings, credentials_command=program))
    spec = RepoSpec("app", server.url("app.git"))
    await asyncio.gather(*(fetcher.heads(spec) for _ in range(4)))
    assert runs(tmp_path) == [f"127.0.0.1:{server.port}"]


async def test_a_command_runs_again_after_its_credentials_were_rejected(
    settings: FetchSettings, server: GitServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("me:short-lived")
    fetcher = RemoteFetcher(replace(settings, credentials_command=command(tmp_path, f"cat '{token}'")))
    server.faults.passwords["app.git"] = "me:short-lived"
    spec = RepoSpec("app", server.url("app.git"))
    await fetcher.heads(spec)
    server.faults.passwords["app.git"] = "me:renewed"
    token.write_text("me:renewed")
    assert await fetcher.heads(spec)
    assert len(runs(tmp_path)) == 2
    server.faults.passwords["app.git"] = "me:closed"
    with pytest.raises(Unauthorized, match="rejected the credentials"):
        await fetcher.heads(spec)
    assert len(runs(tmp_path)) == 3


async def test_the_output_of_a_command_is_cached_for_five_minutes(tmp_path: Path) -> None:
    clock = Moved()
    credentials = Credentials(command=command(tmp_path, "echo u:t"), clock=clock)
    address = address_of("https://host/x")
    assert await credentials.for_address(address) == Credential("u", "t")
    clock.ahead_s = CACHED_S - 1
    await credentials.for_address(address)
    assert len(runs(tmp_path)) == 1
    clock.ahead_s = CACHED_S + 1
    await credentials.for_address(address)
    assert runs(tmp_path) == ["host", "host"]


async def test_a_command_without_output_means_an_anonymous_fetch(tmp_path: Path) -> None:
    credentials = Credentials(command=command(tmp_path, ":"))
    assert await credentials.for_address(address_of("https://host/x")) is None


@pytest.mark.parametrize("url", ["http://example.com/x", "ssh://git@example.com/x", "git://example.com/x"])
async def test_no_credentials_are_given_without_encryption(url: str, tmp_path: Path) -> None:
    path = write_credentials(tmp_path, f"https://me:{SECRET}@example.com")
    credentials = Credentials(file=path, command=command(tmp_path, "echo u:t"))
    assert await credentials.for_address(address_of(url)) is None
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("exit 3", Unavailable, "failed for host with status 3; run it manually"),
        (f"echo {SECRET}", Invalid, "printed no user:token for host"),
        (f"echo a:{SECRET}; echo quit=1", Invalid, "printed no user:token for host"),
    ],
)
async def test_a_failing_command_is_reported_without_its_output(
    line: str, kind: type[ArgosyError], reason: str, tmp_path: Path
) -> None:
    credentials = Credentials(command=command(tmp_path, f"echo {SECRET} >&2", line))
    with pytest.raises(kind, match=reason) as failed:
        await credentials.for_address(address_of("https://host/x"))
    assert SECRET not in str(failed.value)


async def test_a_command_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    monkeypatch.setattr(remote_credentials, "COMMAND_S_MAX", 0.05)
    credentials = Credentials(command=command(tmp_path, "exec tail -f /dev/null"))
    with pytest.raises(Unavailable, match="timed out after 0 s for host"):
        await credentials.for_address(address_of("https://host/x"))
    assert children() == before


async def test_an_unreadable_file_and_a_missing_command_are_reported(tmp_path: Path) -> None:
    address = address_of("https://host/x")
    with pytest.raises(Invalid, match=r"cannot read fetch\.credentials_file: No such file"):
        await Credentials(file=str(tmp_path / "none")).for_address(address)
    with pytest.raises(Invalid, match=r"cannot run fetch\.credentials_command: No such file"):
        await Credentials(command=str(tmp_path / "none")).for_address(address)


async def test_a_secret_is_in_no_argument_no_error_and_no_log(
    settings: FetchSettings,
    server: GitServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    put_before_git(tmp_path / "bin", monkeypatch, [f'echo "$@" >> {tmp_path}/arguments', 'exec $GIT "$@"'])
    path = write_credentials(tmp_path, f"http://me:hunter2%25zebra@127.0.0.1:{server.port}")
    fetcher = RemoteFetcher(replace(settings, credentials_file=path))
    async with fetcher.fetch(RepoSpec("app", server.url("app.git"))):
        pass
    errors = []
    for status in (500, 403, 404):
        server.faults.statuses["echo.git"], server.faults.echoes = status, True
        server.faults.passwords["echo.git"] = f"me:{SECRET}"
        with pytest.raises(ArgosyError) as failed:
            await fetcher.heads(RepoSpec("app", server.url("echo.git")))
        errors.append(str(failed.value))
    arguments = (tmp_path / "arguments").read_text()
    assert "ls-remote" in arguments
    mirrors = configurations(tmp_path / "mirrors")
    assert mirrors
    for text in (
        arguments,
        mirrors,
        *errors,
        caplog.text,
        repr(Credential("me", SECRET)),
        repr(OriginRoute(address_of("https://host/x"), user="me", secret=SECRET)),
    ):
        assert "hunter2" not in text
