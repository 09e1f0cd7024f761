"""The servers that benches and tests start are real, and leave nothing behind."""

import os
import socket

import pytest

from argosy.base.backends import servers
from argosy.base.backends.servers import Etcd, Server, Valkey
from argosy.base.errors import Invalid, Unavailable


@pytest.mark.parametrize("kind", [Valkey, Etcd])
def test_a_server_answers_until_it_is_stopped(kind: type[Server]) -> None:
    with kind() as server:
        home, port, pid = server.home, server.port, server.pid
        with socket.create_connection((servers.HOST, port), timeout=1):
            assert home.is_dir()
    assert not home.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("kind", [Valkey, Etcd])
def test_a_killed_server_starts_again_at_the_same_address(kind: type[Server]) -> None:
    with kind() as server:
        before, url = server.pid, server.url
        server.kill()
        server.start()
        assert server.pid != before
        assert server.url == url


@pytest.mark.parametrize(("kind", "request_"), [(Valkey, b"PING\r\n"), (Etcd, b"GET /health HTTP/1.0\r\n\r\n")])
def test_a_paused_server_stops_answering_and_resumes(kind: type[Server], request_: bytes) -> None:
    with kind() as server:
        server.pause()
        assert servers.exchange(server.port, request_) == b""
        server.resume()
        assert servers.exchange(server.port, request_)


def test_a_server_that_does_not_start_reports_why() -> None:
    with pytest.raises(Unavailable, match="valkey did not start; its log ends"):
        Valkey(options=("--no-such-option", "yes"))


def test_a_missing_wheel_of_a_tool_is_named() -> None:
    with pytest.raises(Invalid, match="wheel 'no_such_wheel' is not installed; run `make setup`"):
        servers.program("no_such_wheel", "*")
