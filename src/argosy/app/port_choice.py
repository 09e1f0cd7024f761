"""The port of `argosy up`: the default one or, if it is taken, the next free one. A configured port that is taken is an
error.

The returned listener is listening already: on Linux two sockets can be bound to one port as long as neither listens, so
a process that only binds could find out much later that the port is taken.
"""

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.app.settings import NodeSettings
from argosy.app.working_sets import RunningUp
from argosy.base.errors import Invalid

PORT_TRIES_MAX = 50  # ports after the default one; then the system selects one


@dataclass(frozen=True)
class OpenPort:
    listener: socket.socket
    note: str = ""  # to show to the user


def open_port(node: NodeSettings, *, given_by: str | None, running: Sequence[RunningUp] = ()) -> OpenPort:
    """Listens on the port of the settings; `given_by` names the source of the port, None for the default."""
    try:
        return OpenPort(_listen(node.host, node.port))
    except OSError as error:
        if given_by is not None or error.errno != errno.EADDRINUSE:
            raise _listen_error(node, error, given_by, running) from error
    for port in [*range(node.port + 1, min(node.port + 1 + PORT_TRIES_MAX, 65536)), 0]:
        try:
            listener = _listen(node.host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise _listen_error(node, error, given_by, running) from error
            continue
        used = listener.getsockname()[1]
        return OpenPort(listener, f"port {node.port} is in use by {_user_of(node.port, running)}; using {used}")
    raise Invalid(f"no free port on {node.host}; set node.host, or pass --port")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm, which delays small responses, only if the protocol is given explicitly.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _listen_error(node: NodeSettings, error: OSError, given_by: str | None, running: Sequence[RunningUp]) -> Invalid:
    if error.errno == errno.EADDRINUSE:
        user = _user_of(node.port, running)
        return Invalid(
            f"port {node.port}, set by {given_by}, is in use by {user}; choose another one, or 0 for any free one"
        )
    return Invalid(
        f"cannot listen on {node.host}:{node.port}: {error.strerror}; set node.host or node.port, or pass --port"
    )


def _user_of(port: int, running: Sequence[RunningUp]) -> str:
    here = any(each.address.rpartition(":")[2] == str(port) for each in running)
    return "another argosy" if here else "another program"
