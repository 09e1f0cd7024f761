"""Credentials by host: from a file in the format of `git credential-store`, or from a command that prints short-lived
ones.

A credential is sent to its own host only. Over plain HTTP it is sent only if the file has an `http://` line for the
host, or to this machine itself. The command's output is cached for five minutes, and invalidated when an origin rejects
it.
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

# Short, because the command prints short-lived credentials; a rejected one is dropped at once.
CACHED_S = 300.0
CACHED_MAX = 1024  # hosts
COMMAND_S_MAX = 20.0
ANSWER_BYTES_MAX = 64 << 10
FILE_BYTES_MAX = 1 << 20
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class Credential:
    user: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class _CachedCredential:
    """An output of the command; None: it has no credential for the host."""

    credential: Credential | None


class Credentials:
    """The configured credentials."""

    def __init__(self, *, file: str | None = None, command: str | None = None, clock: Clock | None = None) -> None:
        self._file = file
        self._command = shlex.split(command) if command else []
        self._clock = clock or SystemClock()
        self._cache: Cache[str, _CachedCredential] = Cache(entries_max=CACHED_MAX)
        self._locks: dict[str, asyncio.Lock] = {}

    async def for_address(self, address: Address) -> Credential | None:
        """None if none is configured: the origin may be public."""
        if not address.is_web:
            return None
        found = await asyncio.to_thread(self._from_file, address) if self._file else None
        if found is None and self._command and (address.scheme == "https" or address.host in _LOOPBACK):
            return await self._from_command(address.host_port)
        return found

    def invalidate(self, address: Address) -> bool:
        """Drops a rejected credential; returns whether the command may have a newer one."""
        return self._cache.remove(address.host_port)

    def _from_file(self, address: Address) -> Credential | None:
        assert self._file is not None
        try:
            with Path(self._file).open(encoding="utf-8", errors="replace") as file:
                text = file.read(FILE_BYTES_MAX)
        except OSError as error:
            raise Invalid(f"cannot read fetch.credentials_file: {error.strerror}; fix or unset it") from error
        for line in text.splitlines():
            # One invalid line must not disable the others.
            with suppress(ValueError):  # an invalid line, which must not be shown: it may contain a secret
                split = urlsplit(line.strip())
                origin = (split.scheme, split.hostname, split.port or PORTS.get(split.scheme))
                if origin == (address.scheme, address.host, address.port) and split.password:
                    return Credential(unquote(split.username or ""), unquote(split.password))
        return None

    # A lock per host and not one for all, so that one slow host does not delay the others.
    async def _from_command(self, host: str) -> Credential | None:
        lock = self._locks.setdefault(host, asyncio.Lock())
        try:
            async with lock:  # for many repositories of one host the command runs once
                cached = self._cache.get(host, self._clock.now())
                if cached is None:
                    cached = _CachedCredential(await self._run_command(host))
                    self._cache.put(host, cached, expires_at=self._clock.now() + CACHED_S)
                return cached.credential
        finally:
            # Removed when no one waits, because hosts come from users and the table would grow.
            if not lock.locked():
                self._locks.pop(host, None)

    async def _run_command(self, host: str) -> Credential | None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                host,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # it might print a secret
                start_new_session=True,
            )
        except OSError as error:
            raise Invalid(f"cannot run fetch.credentials_command: {error.strerror}; fix or unset it") from error
        assert process.stdout is not None
        try:
            async with asyncio.timeout(COMMAND_S_MAX):
                output = await process.stdout.read(ANSWER_BYTES_MAX)
                while len(output) < ANSWER_BYTES_MAX and (more := await process.stdout.read(ANSWER_BYTES_MAX)):
                    output += more
                code = await process.wait()
        except TimeoutError:
            raise Unavailable(f"fetch.credentials_command timed out after {COMMAND_S_MAX:.0f} s for {host}") from None
        finally:
            # The group, because the command may be a script that has started others.
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                await process.wait()
        if code != 0:
            raise Unavailable(f"fetch.credentials_command failed for {host} with status {code}; run it manually")
        return _parse(output.decode(errors="replace").strip(), host)


def _parse(output: str, host: str) -> Credential | None:
    if not output:
        return None
    user, colon, secret = output.partition(":")
    if not colon or not secret or not output.isprintable():
        raise Invalid(f"fetch.credentials_command printed no user:token for {host}; fix it")
    return Credential(user, secret)
