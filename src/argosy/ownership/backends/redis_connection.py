"""The way to one Redis or Valkey server: runs scripts, bounds every wait, and speaks of trouble in the house's words.

A request is sent once. Most scripts are not harmless when a lost reply makes a client send them again (the second
claim would be refused, the second close would hide who won), so the library's own retries are off; `Unavailable` says
that the call may or may not have taken effect, and the caller, who can look, decides.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from argosy.base.errors import Invalid, Unavailable
from argosy.base.redact import redact
from argosy.base.urls import split_url
from argosy.ownership.backends.redis_keys import Keys, lua_names

# The scheme says which server people run, and whether the wire is encrypted; the protocol is the same.
SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}

CONNECT_TIMEOUT_S = 5.0  # a server in the same site answers in milliseconds; past this it is away
CALL_TIMEOUT_S = 5.0  # shorter than any sensible session TTL, so that a keeper hears of trouble in time
CONNECTIONS_MAX = 16  # per store; a server works one request at a time, more would only wait there
FACTS_KEPT_MAX = 10_000  # facts kept for watchers that lag behind; past that they are given a snapshot

_ADVICE: tuple[tuple[type[RedisError], str], ...] = (
    (AuthenticationError, "refused the login: check the user and the password in the URL"),
    (NoPermissionError, "does not allow this user to do that: give it all commands on this space's keys"),
    (ReadOnlyError, "is a replica: point the URL at the primary"),
    (MovedError, "is one node of a cluster and another serves this space: point the URL at that one"),
    (ResponseError, "answered with an error: see the server's log"),
    (RedisError, "cannot be reached: check that it runs and that the URL is right, then retry"),
)


class RedisConnection:
    """A bounded pool of connections to one server, for the scripts of one space."""

    def __init__(
        self,
        url: str,
        keys: Keys,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        call_timeout_s: float = CALL_TIMEOUT_S,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self.keys = keys
        self._url = url
        self._connect_timeout_s = connect_timeout_s
        self._call_timeout_s = call_timeout_s
        self._name = _shown(url)
        try:
            pool = BlockingConnectionPool.from_url(
                _spoken(url),
                max_connections=connections_max,
                timeout=connect_timeout_s,
                socket_connect_timeout=connect_timeout_s,
                socket_timeout=None,  # `asking` bounds the whole call
                socket_keepalive=True,
                retry=Retry(NoBackoff(), 0),
                decode_responses=True,
                protocol=2,
            )
        except ValueError as error:
            raise Invalid(f"{self._name} is not a Redis URL: {redact(str(error))}") from error
        self.client: Redis = Redis.from_pool(pool)
        self._scripts: dict[str, AsyncScript] = {}

    def dedicated(self, *, call_timeout_s: float) -> "RedisConnection":
        """One connection of its own, for reads that block."""
        return RedisConnection(
            self._url,
            self.keys,
            connect_timeout_s=self._connect_timeout_s,
            call_timeout_s=call_timeout_s,
            connections_max=1,
        )

    async def run(self, name: str, *args: str, more_keys: tuple[str, ...] = ()) -> Any:
        """Runs the script of this name: by its hash, and with its text when the server does not know that."""
        if (script := self._scripts.get(name)) is None:
            script = self._scripts[name] = self.client.register_script(script_text(name))
        async with self.asking():
            return await script(
                keys=[*self.keys.shared, *more_keys],
                args=[self.keys.bids_stem, str(FACTS_KEPT_MAX), *args],
            )

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Bounds a call, and raises Unavailable for whatever goes wrong on the way to the server or there.

        The library's own timeout of a write is `asyncio.wait_for`, which in Python 3.11 may swallow a cancellation: a
        watcher that was told to stop would go on for ever.
        """
        try:
            async with asyncio.timeout(self._call_timeout_s):
                yield
        except (RedisError, OSError) as error:
            if isinstance(error, ReadOnlyError):
                # After a failover the name leads elsewhere, but idle connections still lead to the old primary.
                await self.client.connection_pool.disconnect(inuse_connections=False)
            cause = redact(str(error)) or f"no answer within {self._call_timeout_s} s"
            advice = next((text for kind, text in _ADVICE if isinstance(error, kind)), _ADVICE[-1][1])
            raise Unavailable(f"redis at {self._name} {advice} ({cause})") from error

    async def close(self) -> None:
        await self.client.aclose()


@cache
def script_text(name: str) -> str:
    """A whole script: the keys' names, the prelude that all share, and the body of this one."""
    folder = files(__package__) / "lua"
    return "".join([lua_names(), *((folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("prelude", name))])


def _spoken(url: str) -> str:
    """The URL as the library knows it."""
    scheme, separator, rest = url.partition("://")
    return SCHEMES.get(scheme, scheme) + separator + rest


def _shown(url: str) -> str:
    """The server's name for people: no user, no password, no options."""
    parts = split_url(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
