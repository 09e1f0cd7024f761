"""The port of `argosy up`: the default may change, a configured one does not."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from argosy.app.http_server import open_port
from argosy.app.settings import NodeSettings
from argosy.app.working_sets import RunningUp
from argosy.base.errors import Invalid


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def running_at(port: int) -> RunningUp:
    return RunningUp(1, f"127.0.0.1:{port}", "/data", None, (), 0.0)


def test_another_port_is_chosen_and_reported_if_another_argosy_uses_the_default(taken: int) -> None:
    port = open_port(NodeSettings(port=taken), given_by=None, running=[running_at(taken)])
    with closing(port.listener):
        used = port.listener.getsockname()[1]
        assert used != taken
        assert port.note == f"port {taken} is in use by another argosy; using {used}"
        with socket.create_connection(("127.0.0.1", used), timeout=5):
            pass  # it listens already, so no other process can bind it


def test_a_port_used_by_another_program_is_reported(taken: int) -> None:
    port = open_port(NodeSettings(port=taken), given_by=None)
    with closing(port.listener):
        assert port.note.startswith(f"port {taken} is in use by another program; using ")


@pytest.mark.parametrize("given_by", ["--port", "ARGOSY_NODE_PORT", "argosy.toml"])
def test_a_configured_port_in_use_is_an_error_that_names_its_setting(taken: int, given_by: str) -> None:
    with pytest.raises(Invalid, match=f"port {taken}, set by {given_by}, is in use by another program"):
        open_port(NodeSettings(port=taken), given_by=given_by)


def test_a_host_that_is_not_here_is_an_error_and_no_other_port_is_tried() -> None:
    with pytest.raises(Invalid, match=r"cannot listen on 192\.0\.2\.1"):
        open_port(NodeSettings(host="192.0.2.1"), given_by=None)
