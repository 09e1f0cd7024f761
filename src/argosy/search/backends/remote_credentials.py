"""Credentials by host: from a file in the form of git's own store, or from a command that prints short-lived ones.

They belong to one host and are given to no other. Over a connection that can be listened to they are sent only where
the file says `http://` outright, or to this machine itself. The command's answer is kept for five minutes, and dropped
at once when an origin refuses it.
"""

import asyncio
import os
import shlex
from asyncio import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from argosy.base.cache import Cache
from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Invalid, Unavailable
from argosy.search.catalog.addresses import PORTS, Address

KEPT_S = 300.0
KEPT_MAX = 1024  # hosts
COMMAND_S_MAX = 20.0
ANSWER_BYTES_MAX = 64 << 10
FILE_BYTES_MAX = 1 << 20
_OWN = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class Credential:
    user: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class _Answer:
    """What the command said, which may be that it has no credential."""

    credential: Credential | None


class Credentials:
    """Whom to be at which host."""

    def __init__(self, *, file: str | None = None, command: str | None = None, clock: Clock | None = None) -> None:
        self._file = file
        self._command = shlex.split(command) if command else []
        self._clock = clock or SystemClock()
        self._answers: Cache[str, _Answer] = Cache(entries_max=KEPT_MAX)
        self._asking: dict[str, asyncio.Lock] = {}

    async def for_address(self, address: Address) -> Credential | None:
        """None where nobody has any: the origin may be open to all."""
        if not address.is_web:
            return None
        found = await asyncio.to_thread(self._from_file, address) if self._file else None
        if found is None and self._command and (address.scheme == "https" or address.host in _OWN):
            return await self._from_command(address.host_port)
        return found

    def refused(self, address: Address) -> bool:
        """Forgets what an origin has refused; whether asking again may bring something else."""
        return self._answers.remove(address.host_port)

    def _from_file(self, address: Address) -> Credential | None:
        assert self._file is not None
        try:
            with Path(self._file).open(encoding="utf-8", errors="replace") as file:
                text = file.read(FILE_BYTES_MAX)
        except OSError as error:
            raise Invalid(f"fetch.credentials_file cannot be read ({error.strerror}): mend it, or unset it") from error
        for line in text.splitlines():
            with suppress(ValueError):  # a line that makes no sense, which must not be shown
                split = urlsplit(line.strip())
                place = (split.scheme, split.hostname, split.port or PORTS.get(split.scheme))
                if place == (address.scheme, address.host, address.port) and split.password:
                    return Credential(unquote(split.username or ""), unquote(split.password))
        return None

    async def _from_command(self, place: str) -> Credential | None:
        lock = self._asking.setdefault(place, asyncio.Lock())
        try:
            async with lock:  # many repositories of one host ask at once: the command runs once
                answer = self._answers.get(place, self._clock.now())
                if answer is None:
                    answer = _Answer(await self._ask(place))
                    self._answers.put(place, answer, expires_at=self._clock.now() + KEPT_S)
                return answer.credential
        finally:
            if not lock.locked():
                self._asking.pop(place, None)

    async def _ask(self, place: str) -> Credential | None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                place,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # it might print what it should not
                start_new_session=True,
            )
        except OSError as error:
            raise Invalid(f"fetch.credentials_command cannot be run ({error.strerror}): mend or unset it") from error
        assert process.stdout is not None
        try:
            async with asyncio.timeout(COMMAND_S_MAX):
                answer = await process.stdout.read(ANSWER_BYTES_MAX)
                while len(answer) < ANSWER_BYTES_MAX and (more := await process.stdout.read(ANSWER_BYTES_MAX)):
                    answer += more
                code = await process.wait()
        except TimeoutError:
            raise Unavailable(f"fetch.credentials_command took longer than {COMMAND_S_MAX:.0f} s for {place}") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                await process.wait()
        if code != 0:
            raise Unavailable(f"fetch.credentials_command failed for {place} with status {code}: run it by hand")
        return _told(answer.decode(errors="replace").strip(), place)


def _told(answer: str, place: str) -> Credential | None:
    if not answer:
        return None
    user, colon, secret = answer.partition(":")
    if not colon or not secret or not answer.isprintable():
        raise Invalid(f"fetch.credentials_command printed something else than user:token for {place}: mend it")
    return Credential(user, secret)
