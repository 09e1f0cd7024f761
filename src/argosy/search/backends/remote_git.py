"""Runs a git that talks to origins: bounded in time, in output and in what it puts on the disk, and always ended.

Nobody's configuration is read, neither the user's nor the system's, so nothing there can start a program or send a
secret; what git needs to know is in its environment. Of all transports only the one of the address is allowed. A git
runs in a process group of its own, because it starts others that must end with it.
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
from argosy.search.backends.git_errors import failure
from argosy.search.catalog.addresses import Address

OUTPUT_BYTES_MAX = 64 << 20  # a list of some 800,000 branches
WORDS_BYTES_MAX = 4096  # of git's complaints, the last that were said
READ_BYTES = 64 << 10
ENDING_S_MAX = 2.0  # a git asked to end tidies up after itself for so long, then it is killed
CONNECT_S = 20
SILENCE_S = 120  # an origin that sends nothing for so long has gone; they stay in touch every 5 s
WATCH_S = 0.25  # between two looks at how much there is on the disk
_T = TypeVar("_T")

# What the operator may set: where git's parts are and whom to trust. Proxies are not git's, and are kept as well.
_KEPT = {"GIT_EXEC_PATH", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"}
_NOT_HANDED_ON = ("GIT_", "ARGOSY_", "SSH_ASKPASS", "XDG_CONFIG_HOME")  # our own settings may hold secrets
_SET = {
    "HOME": os.devnull,  # no .netrc; ssh finds its user's folder by itself
    "LC_ALL": "C",  # complaints are recognised by their words
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set and empty: nobody is asked
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_CONFIG = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "credential.helper": "",
    "credential.interactive": "false",
    "fetch.fsckObjects": "false",  # half of the older repositories would be refused, and nothing is checked out
    "fetch.unpackLimit": "1",  # packs, not a file for every object
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",  # never beside a reader
    "maintenance.auto": "false",
    "http.followRedirects": "false",  # we look first; this also leaves out what a dumb server says is elsewhere
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
class Way:
    """How to get to an origin: the address to use, and for its host the network addresses that were checked."""

    address: Address
    pinned: tuple[str, ...] = ()
    user: str = ""
    secret: str = field(default="", repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.secret, f"{self.user}:{self.secret}") if self.secret else ()


# Reads the name and password from the environment, which only this user can look at; argv is open to everybody.
_HELPER = '!f() { test "$1" = get && printf "username=%s\\npassword=%s\\n" "$ARGOSY_USER" "$ARGOSY_SECRET"; }; f'


def variables(way: Way) -> dict[str, str]:
    """The environment for a git that goes this way and no other."""
    address = way.address
    config = [*_CONFIG.items(), (f"protocol.{address.scheme}.allow", "always")]
    if way.secret:
        config.append((f"credential.{address.scheme}://{address.host_port}.helper", _HELPER))
    if way.pinned and address.is_web and ":" not in address.host:
        numbers = ",".join(f"[{number}]" if ":" in number else number for number in way.pinned)
        config.append(("http.curloptResolve", f"{address.host}:{address.port}:{numbers}"))
    kept = {name: text for name, text in os.environ.items() if name in _KEPT or not name.startswith(_NOT_HANDED_ON)}
    return {
        **kept,
        **_SET,
        "GIT_ALLOW_PROTOCOL": address.scheme,
        "GIT_SSH_COMMAND": _ssh(way),
        **({"ARGOSY_USER": way.user, "ARGOSY_SECRET": way.secret} if way.secret else {}),
        "GIT_CONFIG_COUNT": str(len(config)),
        **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(config)},
        **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(config)},
    }


def _ssh(way: Way) -> str:
    if not way.pinned or way.address.scheme != "ssh":
        return _SSH
    host, port = way.address.host, way.address.port
    alias = host if port == 22 else f"[{host}]:{port}"
    return f"{_SSH} -oHostName={way.pinned[0]} -oHostKeyAlias={alias}"


@dataclass(frozen=True)
class Bounds:
    """How long a git may take, and how large a folder may grow while it runs."""

    time_s: float
    folder: str = ""
    folder_bytes_max: int = 0
    held: tuple[int, ...] = ()  # descriptors of locks: held until git ends, even if this process does not last


async def require_pinning(way: Way) -> None:
    """Invalid if this git cannot be held to network addresses that were checked."""
    found = _VERSION.match(await run_git(way, ("--version",), Bounds(SILENCE_S)))
    if found is None or (int(found[1]), int(found[2])) < _PINNING:
        raise Invalid("this git cannot be held to addresses that were checked: install git 2.37 or later")


_VERSION = re.compile(rb"git version (\d+)\.(\d+)")
_PINNING = (2, 37)  # before that http.curloptResolve is silently passed over


_RECEIVED = re.compile(rb"Receiving objects: +(\d+)%")
_PASSING = re.compile(rb"[^\r\n]*\d% \(\d+/\d+\)[^\r\n]*[\r\n]")  # progress, which is no complaint


class TooLarge(Exception):
    """The folder has outgrown its bound."""


def ignored(part: float) -> None:
    """Nobody wants to know how far it has come."""


Progress = Callable[[float], None]  # told the part that has arrived, 0 to 1


async def run_git(way: Way, arguments: Sequence[str], bounds: Bounds, progress: Progress = ignored) -> bytes:
    """What git writes. Raises FetchFailed, TimeoutError or TooLarge; when this returns, all it started has ended."""
    process = await _started(arguments, variables(way), bounds.held)
    try:
        async with asyncio.timeout(bounds.time_s):
            output, words = await _beside(_talk(process, progress), _watch(bounds))
            code = await process.wait()
    finally:
        await to_the_end(_end(process))
    if bounds.folder and await asyncio.to_thread(folder_bytes, bounds.folder) > bounds.folder_bytes_max:
        raise TooLarge
    if code != 0:
        text = words.decode(errors="replace")
        raise failure(way.address, f"ended by signal {-code}; {text}" if code < 0 else text, secrets=way.secrets)
    return output


async def _started(
    arguments: Sequence[str], environment: Mapping[str, str], held: tuple[int, ...]
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
            pass_fds=held,
        )
    except FileNotFoundError as error:
        raise Invalid("git is not installed, or not on the PATH: install git 2.37 or later") from error
    except OSError as error:
        raise Unavailable(f"git could not be started ({error.strerror}): retry with back-off") from error


async def _beside(talk: Awaitable[tuple[bytes, bytes]], watch: Awaitable[None]) -> tuple[bytes, bytes]:
    """What is said, unless the watch ends it first."""
    talking, watching = asyncio.ensure_future(talk), asyncio.ensure_future(watch)
    try:
        await asyncio.wait((talking, watching), return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()
        return await talking
    finally:
        await _dropped((talking, watching))


async def _dropped(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _talk(process: subprocess.Process, progress: Progress) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    output, words = bytearray(), bytearray()

    def heard(chunk: bytes) -> None:
        output.extend(chunk)
        if len(output) > OUTPUT_BYTES_MAX:
            raise Invalid(f"the origin lists more than {OUTPUT_BYTES_MAX >> 20} MiB of branches: it cannot be followed")

    def complained(chunk: bytes) -> None:
        if told := _RECEIVED.findall(chunk):
            progress(int(told[-1]) / 100)
        words.extend(chunk)
        words[:] = _PASSING.sub(b"", words)[-WORDS_BYTES_MAX:]

    readers = [asyncio.ensure_future(_each(process.stdout, heard))]
    readers.append(asyncio.ensure_future(_each(process.stderr, complained)))
    try:
        await asyncio.gather(*readers)
    finally:
        await _dropped(readers)
    return bytes(output), bytes(words)


async def _each(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while chunk := await stream.read(READ_BYTES):
        take(chunk)


async def _watch(bounds: Bounds) -> None:
    """Raises once the folder is too large; never returns otherwise."""
    if not bounds.folder:
        await asyncio.Event().wait()
    while True:
        if await asyncio.to_thread(folder_bytes, bounds.folder) > bounds.folder_bytes_max:
            raise TooLarge
        await asyncio.sleep(WATCH_S)


async def to_the_end(job: Awaitable[_T]) -> _T:
    """Waits for what must not be left half done; being cancelled meanwhile counts afterwards."""
    task = asyncio.ensure_future(job)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


async def _end(process: subprocess.Process) -> None:
    """Ends the group: politely, for git then removes what is half written, and for good.

    A group is signalled only while one of it holds a pipe open: later its number may be somebody else's.
    """
    if process.returncode is not None and _is_silent(process):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_S_MAX):
                await _drained(process)
                return
    await process.wait()


def _is_silent(process: subprocess.Process) -> bool:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.at_eof() and process.stderr.at_eof()


async def _drained(process: subprocess.Process) -> None:
    """Waits for the end; what is still said meanwhile is thrown away, or a full pipe would hold it up."""
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        while await stream.read(READ_BYTES):
            pass
    await process.wait()


def folder_bytes(path: str) -> int:
    """How much lies in a folder; what vanishes meanwhile does not count."""
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
