"""The scripts of one space, run on the shared Redis client.

A script is sent once. Most are not idempotent (a second claim is refused, a second close hides who won), so a script
whose reply is lost is `Unavailable`: it may have taken effect, and the caller, who can read the state, decides.
"""

import asyncio
from typing import Any

from argosy.base.backends.redis.connection import Arg
from argosy.base.backends.redis.errors import unreachable
from argosy.base.backends.redis.mux import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S, RedisMux
from argosy.base.backends.redis.scripts import Script, load_script
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import Clock, Random
from argosy.ownership.backends.redis_keys import Keys, lua_names

FACTS_KEPT_MAX = 10_000  # events kept in the stream for watchers that lag; past that they are given a snapshot
CLIENT_NAME = "argosy-ownership"  # in CLIENT LIST


class SpaceScripts:
    """Runs the scripts of one space, and bounds every call."""

    def __init__(self, mux: RedisMux, keys: Keys, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.keys = keys
        self._mux = mux
        self._call_timeout_s = call_timeout_s

    @classmethod
    def connect_to(
        cls, url: str, keys: Keys, *, clock: Clock, random: Random, connect_timeout_s: float = CONNECT_TIMEOUT_S
    ) -> "SpaceScripts":
        """Nothing connects before the first call."""
        mux = RedisMux(
            parse_redis_url(url),
            clock=clock,
            random=random,
            client_name=CLIENT_NAME,
            permissions="all commands on this space's keys",
            connect_timeout_s=connect_timeout_s,
            encoding="utf-8",
        )
        return cls(mux, keys)

    def sibling(self, *, call_timeout_s: float) -> "SpaceScripts":
        """The same scripts on a connection of their own, for reads that block."""
        return SpaceScripts(self._mux.sibling(call_timeout_s=call_timeout_s), self.keys, call_timeout_s=call_timeout_s)

    async def run(self, name: str, *args: str, more_keys: tuple[str, ...] = ()) -> Any:
        """Runs the script of this name."""
        keys = self.keys
        try:
            # The connection bounds each request; this bounds the call, with the wait for a connection.
            async with asyncio.timeout(self._call_timeout_s):
                return await self._mux.script(
                    space_script(name),
                    (*keys.shared, *more_keys),
                    (keys.bids_stem, str(FACTS_KEPT_MAX), *args),
                )
        except TimeoutError as error:
            raise self._overdue() from error

    async def call(self, *args: Arg) -> Any:
        """Runs one command."""
        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await self._mux.call(*args)
        except TimeoutError as error:
            raise self._overdue() from error

    def _overdue(self) -> Exception:
        return unreachable(self._mux.name, f"no answer within {self._call_timeout_s} s", may_have_happened=True)

    async def close(self) -> None:
        await self._mux.close()


def space_script(name: str) -> Script:
    """A whole script: the keys' names, the prelude that all share, and the body of this one."""
    return load_script("argosy.ownership.backends", name, prelude=("prelude",), header=lua_names())
