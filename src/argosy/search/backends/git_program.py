"""Runs git on local repositories that are not trusted.

A repository's own configuration may name programs (a file-system monitor, hooks, a credential helper, a transport).
None is ever started: every option that could start one is overridden for each command, no transport is allowed, so
nothing is fetched, and git has no terminal to prompt at. The operator's own settings (system and user) stay in force,
because git reads `safe.directory` only there. A started process is always reaped, also when its reader fails.
"""

import os
import select
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.search.backends.git_errors import error_from_git

# Without output for so long git hangs on a dead disk or mount: even a large tree is listed within seconds.
SILENCE_S_MAX = 120.0
OUTPUT_BYTES_MAX = 256 << 20  # of one command: a listing of two to three million files
READ_BYTES = 1 << 20  # of the pipe at a time
STDERR_BYTES_MAX = 4096  # that are read for an error message

# The variables that an operator may set for git. Every other GIT_ variable (GIT_DIR in a hook, a trace target) would
# change what is read.
_KEPT = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES"}
_SET = {
    "LC_ALL": "C",  # messages are recognised by their English text
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # reading writes nothing
    "GIT_NO_LAZY_FETCH": "1",  # git 2.45; before that the next line prevents the fetch
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_SWITCHED_OFF = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.commitGraph=false",  # a stale one contradicts the objects, and nothing here walks history
    "core.warnAmbiguousRefs=false",
    "protocol.allow=never",
)


def environment() -> dict[str, str]:
    """This process's environment, with only the operator's settings for git."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    return inherited | _SET


@dataclass(frozen=True)
class Git:
    """git for one repository; error messages quote `place`, which may contain any character."""

    place: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str]

    @classmethod
    def at(cls, path: str) -> "Git":
        """git as started in a folder of the repository. It checks the repository's owner before it reads its
        configuration."""
        return cls(path, ("-C", path), environment())

    def run(self, *command: str, feed: bytes = b"", accepted: tuple[int, ...] = (0,)) -> bytes:
        """The output of the command, at most OUTPUT_BYTES_MAX."""
        with self.stream(*command, feed=feed) as running:
            output = running.rest()
            running.finish(accepted)
        return output

    @contextmanager
    def stream(self, *command: str, feed: bytes = b"") -> Iterator["RunningGit"]:
        """Starts the command. It has ended when the context is left, whatever the reason.

        A thread writes `feed`: git writes output before it has read all input, so one thread doing both would deadlock
        on two full pipes.
        """
        with TemporaryFile() as stderr:  # a pipe would have to be drained
            process = self._start(command, stderr, is_fed=bool(feed))
            feeder = Thread(target=_feed, args=(process.stdin, feed), name="argosy-git-feed", daemon=True)
            if feed:
                feeder.start()
            try:
                yield RunningGit(self, command[0], process, stderr)
            finally:
                # Also after a normal end, where it does nothing: the reader may have failed or stopped early.
                process.kill()
                process.wait()
                if feed:
                    # After the process has ended: its side of the pipe is closed then, so the thread cannot block any
                    # more.
                    feeder.join()
                assert process.stdout is not None
                process.stdout.close()

    def _start(self, command: tuple[str, ...], stderr: IO[bytes], *, is_fed: bool) -> subprocess.Popen[bytes]:
        switches = [word for setting in _SWITCHED_OFF for word in ("-c", setting)]
        try:
            return subprocess.Popen(
                ["git", *self.arguments, *switches, *command],
                stdin=subprocess.PIPE if is_fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # Unbuffered: reads go through `_TimedPipe`, which must see what is in the pipe.
                bufsize=0,
                env=self.variables,
                start_new_session=True,  # no terminal to prompt at; Ctrl-C reaches this process only, which ends git
            )
        except FileNotFoundError as error:
            raise Invalid("git not found on PATH; install git 2.31 or later") from error
        except OSError as error:
            raise Unavailable(f"cannot start git: {error.strerror}; retry with back-off") from error


class RunningGit:
    """A running git. Reading `out` raises Unavailable after SILENCE_S_MAX without output."""

    def __init__(self, git: Git, command: str, process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
        assert process.stdout is not None
        self._git = git
        self._command = command
        self._process = process
        self._stderr = stderr
        self.out = BufferedReader(_TimedPipe(process.stdout.fileno(), git.place), READ_BYTES)

    def rest(self) -> bytes:
        """The rest of the output. Invalid above OUTPUT_BYTES_MAX: a few small trees can name 10^10 files."""
        chunks, length = [], 0
        while chunk := self.out.read1(READ_BYTES):
            chunks.append(chunk)
            length += len(chunk)
            if length > OUTPUT_BYTES_MAX:
                raise Invalid(
                    f"git {self._command} lists more than {OUTPUT_BYTES_MAX >> 20} MiB of names in "
                    f"{self._git.place!r}; split the repository, or omit this branch"
                )
        return b"".join(chunks)

    def finish(self, accepted: tuple[int, ...] = (0,)) -> None:
        """Waits for the end after the output was read; raises git's error."""
        if self.code() not in accepted:
            raise self.error()

    def code(self) -> int:
        try:
            return self._process.wait(SILENCE_S_MAX)
        except subprocess.TimeoutExpired as error:
            raise _timeout_error(self._git.place) from error

    def error(self) -> ArgosyError:
        self._stderr.seek(0)
        text = self._stderr.read(STDERR_BYTES_MAX).decode(errors="replace")
        if self._process.returncode < 0:
            text = f"ended by signal {-self._process.returncode}; {text}"
        return error_from_git(self._git.place, self._command, text)


class _TimedPipe(RawIOBase):
    """The reading end of a pipe, with a time limit for each read."""

    def __init__(self, descriptor: int, place: str) -> None:
        self._descriptor = descriptor
        self._place = place
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._poll.poll(SILENCE_S_MAX * 1000):
            raise _timeout_error(self._place)
        return os.readv(self._descriptor, [buffer])


def _feed(pipe: IO[bytes], text: bytes) -> None:
    """Writes everything and closes. If git ended early, its reader finds the reason in the exit code."""
    view = memoryview(text)
    with suppress(BrokenPipeError):
        while view:
            view = view[pipe.write(view) :]
    with suppress(BrokenPipeError):
        pipe.close()


def _timeout_error(place: str) -> Unavailable:
    return Unavailable(f"git timed out: no output for {SILENCE_S_MAX:.0f} s on {place!r}; check its disk, then retry")
