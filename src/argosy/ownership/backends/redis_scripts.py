"""The scripts of one space, run on the shared Redis client.

A script is sent once. Most are not idempotent: a second claim is rejected, a second close no longer names the winner. A
script whose reply was lost is therefore `Unavailable`: it may have taken effect, and the caller, who can read the
state, decides.
"""

import asyncio
from typing import Any

from argosy.base.backends.redis.connection import Arg
from argosy.base.backends.redis.errors import unreachable
from argosy.base.backends.redis.mux import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S, RedisMux, Script, load_script
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import Clock, Random
from argosy.ownership.backends.redis_records import OwnershipKeys, lua_names

EVENTS_MAX = 10_000  # events in the stream; a watcher that is further behind gets a snapshot
CLIENT_NAME = "argosy-ownership"  # in CLIENT LIST


class SpaceScripts:
    """Runs the scripts of one space, each call within a time limit."""

    def __init__(self, mux: RedisMux, keys: OwnershipKeys, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.keys = keys
        self._mux = mux
        self._call_timeout_s = call_timeout_s

    @classmethod
    def connect_to(
        cls,
        url: str,
        keys: OwnershipKeys,
        *,
        clock: Clock,
        random: Random,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> "SpaceScripts":
        """The connection itself is made by the first call."""
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
        """The same scripts on a connection of their own, for reads that block: on a multiplexed connection a blocking
        read would hold up the replies of all calls sent after it."""
        return SpaceScripts(self._mux.sibling(call_timeout_s=call_timeout_s), self.keys, call_timeout_s=call_timeout_s)

    async def run(self, name: str, *args: str, more_keys: tuple[str, ...] = ()) -> Any:
        """Runs the script `lua/<name>.lua`."""
        keys = self.keys
        try:
            # The connection limits each request; this limits the call, including the wait for a connection.
            async with asyncio.timeout(self._call_timeout_s):
                return await self._mux.script(
                    space_script(name),
                    (*keys.shared, *more_keys),
                    (keys.bids_prefix, str(EVENTS_MAX), *args),
                )
        except TimeoutError as error:
            raise self._timeout_error() from error

    async def call(self, *args: Arg) -> Any:
        """Runs one command."""
        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await self._mux.call(*args)
        except TimeoutError as error:
            raise self._timeout_error() from error

    def _timeout_error(self) -> Exception:
        return unreachable(self._mux.name, f"timed out after {self._call_timeout_s} s", may_have_happened=True)

    async def close(self) -> None:
        await self._mux.close()


def space_script(name: str) -> Script:
    """A complete script: the names of the keys, the prelude that all scripts share, and the body of this one."""
    return load_script("argosy.ownership.backends", name, prelude=("prelude",), header=lua_names())
