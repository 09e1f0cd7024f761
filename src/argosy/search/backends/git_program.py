"""Runs git on repositories that nobody vouches for, and tells in our words what went wrong in git's.

A repository's own configuration may name programs (a file-system monitor, hooks, a credential helper, a transport).
None is ever started: what could start one is switched off for every command, no transport is allowed, so nothing is
fetched, and git has no terminal to ask at. The operator's own settings (system and user) stay in force, because git
looks for `safe.directory` there and nowhere else. A git that was started is always reaped, also when its reader leaves.
"""

import os
import select
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any

from argosy.base.errors import ArgosyError, Invalid, NotFound, Unavailable
from argosy.base.redact import redact

QUIET_S_MAX = 120.0  # a git that says nothing for so long hangs on a dead disk or mount
OUTPUT_BYTES_MAX = 256 << 20  # of one command: a listing of two to three million files
READ_BYTES = 1 << 20  # asked of the pipe at a time
WORDS_BYTES_MAX = 4096  # of git's complaint that are looked at
WORDS_SHOWN_MAX = 300

# What the operator may set for git in the environment; every other GIT_ variable (a hook's GIT_DIR, a tracing target)
# would change what is read.
_KEPT = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES"}
_SET = {
    "LC_ALL": "C",  # complaints are recognised by their words
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # reading writes nothing
    "GIT_NO_LAZY_FETCH": "1",  # git 2.45; before that the next line is what stops it
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
    """This process's environment for a git that listens to nobody but the operator."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    return inherited | _SET


@dataclass(frozen=True)
class Git:
    """git, pointed at one place, which errors name in quotes: it may hold any character."""

    place: str
    arguments: tuple[str, ...]
    variables: Mapping[str, str]

    @classmethod
    def at(cls, path: str) -> "Git":
        """git as if started in a folder of the repository. It checks who owns the repository before it reads there."""
        return cls(path, ("-C", path), environment())

    def run(self, *command: str, feed: bytes = b"", accepted: tuple[int, ...] = (0,)) -> bytes:
        """What the command writes, at most OUTPUT_BYTES_MAX."""
        with self.stream(*command, feed=feed) as running:
            output = running.rest()
            running.finish(accepted)
        return output

    @contextmanager
    def stream(self, *command: str, feed: bytes = b"") -> Iterator["Running"]:
        """Starts the command; when the block is left, however that is, it has ended.

        A thread of its own writes `feed`: git answers before it has read everything, and two full pipes would wait for
        each other.
        """
        with TemporaryFile() as complaints:  # and not a pipe, which nobody would be emptying
            process = self._start(command, complaints, is_fed=bool(feed))
            feeder = Thread(target=_feed, args=(process.stdin, feed), name="argosy-git-feed", daemon=True)
            if feed:
                feeder.start()
            try:
                yield Running(self, command[0], process, complaints)
            finally:
                process.kill()
                process.wait()
                if feed:
                    feeder.join()
                assert process.stdout is not None
                process.stdout.close()

    def _start(self, command: tuple[str, ...], complaints: IO[bytes], *, is_fed: bool) -> subprocess.Popen[bytes]:
        switches = [word for setting in _SWITCHED_OFF for word in ("-c", setting)]
        try:
            return subprocess.Popen(
                ["git", *self.arguments, *switches, *command],
                stdin=subprocess.PIPE if is_fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                bufsize=0,
                env=self.variables,
                start_new_session=True,  # no terminal to prompt at; Ctrl-C is for us, who then end it
            )
        except FileNotFoundError as error:
            raise Invalid("git is not installed, or not on the PATH: install git 2.31 or later") from error
        except OSError as error:
            raise Unavailable(f"git could not be started ({error.strerror}): retry with back-off") from error


class Running:
    """A git at work. `out` is what it writes; a reader that waits for QUIET_S_MAX gives up."""

    def __init__(self, git: Git, command: str, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
        assert process.stdout is not None
        self._git = git
        self._command = command
        self._process = process
        self._complaints = complaints
        self.out = BufferedReader(_Outlet(process.stdout.fileno(), git.place), READ_BYTES)

    def rest(self) -> bytes:
        """All that is still to come; more than OUTPUT_BYTES_MAX is refused (a few small trees can name 10^10 files)."""
        chunks, length = [], 0
        while chunk := self.out.read1(READ_BYTES):
            chunks.append(chunk)
            length += len(chunk)
            if length > OUTPUT_BYTES_MAX:
                raise Invalid(
                    f"git {self._command} lists more than {OUTPUT_BYTES_MAX >> 20} MiB of names in "
                    f"{self._git.place!r}: split the repository, or leave this branch out"
                )
        return b"".join(chunks)

    def finish(self, accepted: tuple[int, ...] = (0,)) -> None:
        """Waits for the end of a git whose output has been read; raises what it complained of."""
        if self.code() not in accepted:
            raise self.error()

    def code(self) -> int:
        try:
            return self._process.wait(QUIET_S_MAX)
        except subprocess.TimeoutExpired as error:
            raise _hangs(self._git.place) from error

    def error(self) -> ArgosyError:
        self._complaints.seek(0)
        words = self._complaints.read(WORDS_BYTES_MAX).decode(errors="replace")
        if self._process.returncode < 0:
            words = f"ended by signal {-self._process.returncode}; {words}"
        return told(self._git.place, self._command, words)


class _Outlet(RawIOBase):
    """The end of a pipe, read with a bound on its silence."""

    def __init__(self, descriptor: int, place: str) -> None:
        self._descriptor = descriptor
        self._place = place
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._poll.poll(QUIET_S_MAX * 1000):
            raise _hangs(self._place)
        return os.readv(self._descriptor, [buffer])


def _feed(pipe: IO[bytes], text: bytes) -> None:
    """Writes everything and closes. A git that has ended no longer reads; why it has is for its reader to tell."""
    view = memoryview(text)
    with suppress(BrokenPipeError):
        while view:
            view = view[pipe.write(view) :]
    with suppress(BrokenPipeError):
        pipe.close()


def _hangs(place: str) -> Unavailable:
    return Unavailable(f"git has said nothing about {place!r} for {QUIET_S_MAX:.0f} s: check its disk, then retry")


# What git's words mean, and what to do. The first that is found counts.
_REMEDIES: tuple[tuple[str, type[ArgosyError], str], ...] = (
    ("cannot change to", NotFound, "name a folder that exists"),
    ("not a git repository", NotFound, "name a git repository, or mend the .git that is there"),
    ("repository extension", Invalid, "it was made by a later git: install that"),
    ("git repo version", Invalid, "it was made by a later git: install that"),
    ("bad config", Invalid, "mend its configuration"),
    ("config value", Invalid, "mend its configuration"),
    ("must be run in a work tree", Invalid, "it has no working files: name the branches to read"),
    ("index file", Unavailable, "rebuild its index with `git reset`, or name the branches to read"),
)


def told(place: str, command: str, words: str) -> ArgosyError:
    """The error for git's complaint, with what to do. Nothing in it is secret or moves a terminal's cursor."""
    if "dubious ownership" in words:
        return Invalid(
            f"git will not read {place!r}, because it belongs to another user: if you trust what it holds, run "
            f"`git config --global --add safe.directory {_quoted(place)}`"
        )
    for part, kind, remedy in _REMEDIES:
        if part in words:
            return kind(f"git {command} failed on {place!r} (git: {_tidy(words)}): {remedy}")
    return Unavailable(
        f"git {command} failed on {place!r} (git: {_tidy(words)}): look at it with `git fsck`, or clone it anew"
    )


def _quoted(place: str) -> str:
    return shlex.quote(place) if place.isprintable() else repr(place)


def _tidy(words: str) -> str:
    lines = (line.strip() for line in words.splitlines())
    text = redact("; ".join(line for line in lines if line) or "it said nothing")
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= WORDS_SHOWN_MAX else f"{text[:WORDS_SHOWN_MAX]}…"
