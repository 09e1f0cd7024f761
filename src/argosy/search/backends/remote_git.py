"""Runs git against origins: bounded in time, in output and in disk usage, and always ended.

No configuration is read, neither the user's nor the system's, so that nothing there can start a program or send a
secret; what git needs is passed in its environment. Of all transports only the one of the address is allowed. git runs
in a process group of its own, because it starts processes that must end with it.
"""

import asyncio
import os
import re
import signal
from asyncio import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from argosy.base.errors import Invalid, Unavailable
from argosy.search.backends.git_errors import fetch_error
from argosy.search.catalog.addresses import Address

OUTPUT_BYTES_MAX = 64 << 20  # a list of some 800,000 branches
STDERR_BYTES_MAX = 4096  # the end of git's messages
READ_BYTES = 64 << 10
TERMINATE_S_MAX = 2.0  # time for a terminated git to delete its temporary files, before it is killed
CONNECT_S = 20
SILENCE_S = 120  # without data for so long the origin counts as unreachable; a server sends a keep-alive every 5 s
DISK_CHECK_S = 0.25  # between two measurements of the folder
_T = TypeVar("_T")

# Variables that an operator may set: where git is installed, and which certificates to trust. Proxy variables are
# curl's and not git's, so they pass as well.
_KEPT = {"GIT_EXEC_PATH", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"}
_REMOVED = ("GIT_", "ARGOSY_", "SSH_ASKPASS", "XDG_CONFIG_HOME")  # our own settings may contain secrets
_SET = {
    "HOME": os.devnull,  # no .netrc; ssh finds its user's directory without it
    "LC_ALL": "C",  # messages are recognised by their English text
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set and empty: no program is started
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_CONFIG = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "credential.helper": "",
    "credential.interactive": "false",
    "fetch.fsckObjects": "false",  # would reject half of the older repositories, and nothing is checked out
    "fetch.unpackLimit": "1",  # packs, not one file per object
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",  # never while others read
    "maintenance.auto": "false",
    "http.followRedirects": "false",  # decision 0023; this also ignores alternates that a dumb server names
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": str(SILENCE_S),
    "http.emptyAuth": "false",
    "transfer.bundleURI": "false",
    "transfer.credentialsInUrl": "die",
    "protocol.allow": "never",
    "protocol.version": "2",
}
_SSH = (
    f"ssh -oBatchMode=yes -oConnectTimeout={CONNECT_S} -oServerAliveInterval=30 -oForwardAgent=no"
    " -oClearAllForwardings=yes -oPermitLocalCommand=no -oControlMaster=no -oControlPath=none"
)


@dataclass(frozen=True)
class OriginRoute:
    """How to reach an origin: the address to use, the network addresses of its host that were checked, a credential."""

    address: Address
    pinned: tuple[str, ...] = ()
    user: str = ""
    secret: str = field(default="", repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.secret, f"{self.user}:{self.secret}") if self.secret else ()


# Prints the credential from the environment, which only this user can read; arguments are visible to every user.
_HELPER = '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$ARGOSY_USER" "$ARGOSY_SECRET"; }; f'


def git_environment(route: OriginRoute) -> dict[str, str]:
    """The environment of a git that can use this route and no other."""
    address = route.address
    config = [*_CONFIG.items(), (f"protocol.{address.scheme}.allow", "always")]
    if route.secret:
        config.append((f"credential.{address.scheme}://{address.host_port}.helper", _HELPER))
    if route.pinned and address.is_web and ":" not in address.host:
        numbers = ",".join(f"[{number}]" if ":" in number else number for number in route.pinned)
        config.append(("http.curloptResolve", f"{address.host}:{address.port}:{numbers}"))
    inherited = {name: text for name, text in os.environ.items() if name in _KEPT or not name.startswith(_REMOVED)}
    return {
        **inherited,
        **_SET,
        "GIT_ALLOW_PROTOCOL": address.scheme,
        "GIT_SSH_COMMAND": _ssh_command(route),
        **({"ARGOSY_USER": route.user, "ARGOSY_SECRET": route.secret} if route.secret else {}),
        "GIT_CONFIG_COUNT": str(len(config)),
        **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(config)},
        **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(config)},
    }


def _ssh_command(route: OriginRoute) -> str:
    if not route.pinned or route.address.scheme != "ssh":
        return _SSH
    host, port = route.address.host, route.address.port
    alias = host if port == 22 else f"[{host}]:{port}"  # the name in known_hosts
    return f"{_SSH} -oHostName={route.pinned[0]} -oHostKeyAlias={alias}"


@dataclass(frozen=True)
class GitLimits:
    """How long git may run, and how large a folder may become meanwhile."""

    time_s: float
    folder: str = ""
    folder_bytes_max: int = 0
    lock_fds: tuple[int, ...] = ()  # inherited by git, which so keeps the locks even if this process dies


_VERSION = re.compile(rb"git version (\d+)\.(\d+)")
_PINNING_VERSION = (2, 37)  # older versions silently ignore http.curloptResolve


async def require_pinning(route: OriginRoute) -> None:
    """Invalid if this git cannot be restricted to network addresses that were checked."""
    found = _VERSION.match(await run_git(route, ("--version",), GitLimits(SILENCE_S)))
    if found is None or (int(found[1]), int(found[2])) < _PINNING_VERSION:
        raise Invalid("git too old: it cannot be restricted to checked network addresses; install git 2.37 or later")


_RECEIVED = re.compile(rb"Receiving objects: +(\d+)%")
_PROGRESS = re.compile(rb"[^\r\n]*\d% \(\d+/\d+\)[^\r\n]*[\r\n]")  # lines that are no error


class FolderTooLarge(Exception):
    """The folder exceeded its limit."""


def no_progress(fraction: float) -> None:
    """A `Progress` that ignores the reports."""


Progress = Callable[[float], None]  # called with the fraction that has arrived, 0 to 1


async def run_git(
    route: OriginRoute, arguments: Sequence[str], limits: GitLimits, progress: Progress = no_progress
) -> bytes:
    """The output of git. Raises FetchFailed, TimeoutError or FolderTooLarge. On return all its processes have ended."""
    process = await _start(arguments, git_environment(route), limits.lock_fds)
    try:
        async with asyncio.timeout(limits.time_s):
            output, stderr = await _read_with_disk_limit(process, limits, progress)
            code = await process.wait()
    finally:
        # Also after success: ssh or a helper may still run, and would keep the inherited locks.
        await run_to_end(_terminate(process))
    # Once more at the end, because a fast fetch can grow between two checks.
    if limits.folder and await asyncio.to_thread(folder_bytes, limits.folder) > limits.folder_bytes_max:
        raise FolderTooLarge
    if code != 0:
        text = stderr.decode(errors="replace")
        text = f"ended by signal {-code}; {text}" if code < 0 else text
        raise fetch_error(route.address, text, secrets=route.secrets)
    return output


async def _start(
    arguments: Sequence[str], environment: Mapping[str, str], lock_fds: tuple[int, ...]
) -> subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            # So the locks stay if this process dies: git may still be writing into the mirror.
            pass_fds=lock_fds,
        )
    except FileNotFoundError as error:
        raise Invalid("git not found on PATH; install git 2.37 or later") from error
    except OSError as error:
        raise Unavailable(f"cannot start git: {error.strerror}; retry with back-off") from error


async def _read_with_disk_limit(
    process: subprocess.Process, limits: GitLimits, progress: Progress
) -> tuple[bytes, bytes]:
    """Output and messages of git; FolderTooLarge as soon as the folder exceeds its limit."""
    reading, checking = asyncio.ensure_future(_read(process, progress)), asyncio.ensure_future(_check_disk(limits))
    try:
        await asyncio.wait((reading, checking), return_when=asyncio.FIRST_COMPLETED)
        if checking.done():
            checking.result()
        return await reading
    finally:
        await _cancel_all((reading, checking))


async def _cancel_all(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _read(process: subprocess.Process, progress: Progress) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    output, stderr = bytearray(), bytearray()

    def on_output(chunk: bytes) -> None:
        output.extend(chunk)
        if len(output) > OUTPUT_BYTES_MAX:
            raise Invalid(f"the origin lists more than {OUTPUT_BYTES_MAX >> 20} MiB of branches, which is unsupported")

    def on_stderr(chunk: bytes) -> None:
        if received := _RECEIVED.findall(chunk):
            progress(int(received[-1]) / 100)
        stderr.extend(chunk)
        # Progress lines are rewritten constantly and would push the error out of the bounded tail.
        stderr[:] = _PROGRESS.sub(b"", stderr)[-STDERR_BYTES_MAX:]

    readers = [
        asyncio.ensure_future(_read_chunks(process.stdout, on_output)),
        asyncio.ensure_future(_read_chunks(process.stderr, on_stderr)),
    ]
    try:
        await asyncio.gather(*readers)
    finally:
        await _cancel_all(readers)
    return bytes(output), bytes(stderr)


async def _read_chunks(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while chunk := await stream.read(READ_BYTES):
        take(chunk)


async def _check_disk(limits: GitLimits) -> None:
    """Raises once the folder is too large; never returns otherwise."""
    if not limits.folder:
        # Cancelled when git ends; without a folder there is nothing to check.
        await asyncio.Event().wait()
    while True:
        if await asyncio.to_thread(folder_bytes, limits.folder) > limits.folder_bytes_max:
            raise FolderTooLarge
        await asyncio.sleep(DISK_CHECK_S)


async def run_to_end(work: Awaitable[_T]) -> _T:
    """Awaits work that must not be interrupted; a cancellation meanwhile is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    # In a loop: each further cancellation interrupts the wait, but must not interrupt the work.
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def _terminate(process: subprocess.Process) -> None:
    """Ends the process group: with SIGTERM, on which git deletes unfinished files, then with SIGKILL.

    A group is signalled only while one of its processes holds a pipe open: later its id may belong to another group.
    """
    if process.returncode is not None and _has_closed_output(process):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(TERMINATE_S_MAX):
                await _drain(process)
                return
    await process.wait()


def _has_closed_output(process: subprocess.Process) -> bool:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.at_eof() and process.stderr.at_eof()


async def _drain(process: subprocess.Process) -> None:
    """Waits for the end and discards further output: a process that writes into a full pipe would never end."""
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        while await stream.read(READ_BYTES):
            pass
    await process.wait()


def folder_bytes(path: str) -> int:
    """The size of all files in a folder; files that are deleted meanwhile do not count."""
    total, folders = 0, [path]
    while folders:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_size
    return total
