"""The port of `argosy up`: the default one or, if that is taken, the next free one; a port that was given is binding.

The listener is listening when it is returned: on Linux two sockets can be bound to one port as long as neither listens,
so a process that only binds may learn much later that the port belongs to another.
"""

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.app.settings import NodeSettings
from argosy.app.working_sets import RunningUp
from argosy.base.errors import Invalid

PORT_TRIES_MAX = 50  # ports after the default one; then any free one is taken


@dataclass(frozen=True)
class OpenPort:
    listener: socket.socket
    note: str = ""  # what the user should know


def open_port(node: NodeSettings, *, given_by: str | None, running: Sequence[RunningUp] = ()) -> OpenPort:
    """Listens at the port of the settings; `given_by` names what set it, and is None for the default."""
    try:
        return OpenPort(_listen(node.host, node.port))
    except OSError as why:
        if given_by is not None or why.errno != errno.EADDRINUSE:
            raise _refusal(node, why, given_by, running) from why
    for port in [*range(node.port + 1, min(node.port + 1 + PORT_TRIES_MAX, 65536)), 0]:
        try:
            listener = _listen(node.host, port)
        except OSError as why:
            if why.errno != errno.EADDRINUSE:
                raise _refusal(node, why, given_by, running) from why
            continue
        used = listener.getsockname()[1]
        return OpenPort(listener, f"port {node.port} is in use by {_user_of(node.port, running)}; using {used}")
    raise Invalid(f"no port is free on {node.host}: set node.host, or give --port")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns off Nagle's algorithm, which holds small answers back.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _refusal(node: NodeSettings, why: OSError, given_by: str | None, running: Sequence[RunningUp]) -> Invalid:
    if why.errno == errno.EADDRINUSE:
        user = _user_of(node.port, running)
        return Invalid(f"port {node.port}, set by {given_by}, is in use by {user}: choose another one, or 0 for any")
    return Invalid(f"cannot listen on {node.host}:{node.port} ({why.strerror}): set node.host or node.port, or --port")


def _user_of(port: int, running: Sequence[RunningUp]) -> str:
    here = any(each.address.rpartition(":")[2] == str(port) for each in running)
    return "another argosy" if here else "another program"
