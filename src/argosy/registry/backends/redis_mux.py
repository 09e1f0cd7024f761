"""The way to the primary: finds it, logs in, runs scripts, and comes back when it was lost.

A call that found no connection waits for the next attempt to make one, of which there is one at a time, with back-off.
A call that was sent is never sent again, except when the server has said that it did nothing: it did not know the
script, or it is not the primary. What was in flight when a connection broke is `Unavailable`: it may or may not have
taken effect, and the caller, who can look, decides.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakSet

from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.base.retry import Backoff
from argosy.registry.backends.redis_codec import Arg
from argosy.registry.backends.redis_errors import Refused, away, unavailable
from argosy.registry.backends.redis_scripts import Script
from argosy.registry.backends.redis_url import Address, Target
from argosy.registry.backends.redis_wire import Wire, connect

CONNECT_TIMEOUT_S = 5.0  # a server in the same site answers in milliseconds; past this it is away
CALL_TIMEOUT_S = 5.0  # for any one request
RECONNECT = Backoff(first_s=0.02, ceiling_s=1.0)
HOPS_MAX = 3  # from node to node of a cluster, or after a failover that is still under way
CLIENT_NAME = "argosy-registry"


class RedisMux:
    """One shared connection to the primary that a target leads to."""

    def __init__(
        self,
        target: Target,
        *,
        clock: Clock,
        random: Random,
        greet: Callable[[Wire], Awaitable[None]] | None = None,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        """`greet` is done on each new connection before anything else is sent."""
        self._target = target
        self._clock = clock
        self._random = random
        self._greet = greet
        self._call_timeout_s = call_timeout_s
        self._tls = target.tls()
        self._wire: Wire | None = None
        self._opening: asyncio.Task[Wire] | None = None
        self._failures = 0  # to connect, in a row
        self._moved_to: Address | None = None  # the node of a cluster that has the registry
        self._siblings: WeakSet[RedisMux] = WeakSet()
        self.is_closed = False

    @property
    def name(self) -> str:
        return self._target.name

    async def call(self, *args: Arg) -> Any:
        """One command. A server's error reply is `Unavailable` with advice, but for NOSCRIPT, which is `Refused`."""
        for is_last in (False, True):
            wire = self._wire
            if wire is None or not wire.is_alive:
                wire = await self.connected()
            if wire.is_full:
                await wire.room()
            try:
                return await wire.send(*args)
            except Refused as error:
                if not error.is_elsewhere:
                    raise self.told(error) from error
                self._follow(wire, error)
                if is_last or not self._knows_where(error):
                    raise unavailable(self.name, error) from error
        raise AssertionError("the loop returns or raises")

    def post(self, script: Script, keys: Sequence[Arg], args: Sequence[Arg]) -> "asyncio.Future[Any] | None":
        """The server's own reply to come, if the script can be sent this instant; else None."""
        wire = self._wire
        if wire is None or not wire.is_ready:
            return None
        return wire.send("EVALSHA", script.digest, len(keys), *keys, *args)

    async def script(self, script: Script, keys: Sequence[Arg], args: Sequence[Arg]) -> Any:
        """Runs a script by its hash, and gives the server its text when it does not know that."""
        called = ("EVALSHA", script.digest, len(keys), *keys, *args)
        try:
            return await self.call(*called)
        except Refused:
            await self.call("SCRIPT", "LOAD", script.text)
        try:
            return await self.call(*called)
        except Refused as error:
            raise unavailable(self.name, error) from error

    def sibling(self, *, call_timeout_s: float) -> "RedisMux":
        """Another connection to the same server, for reads that block and for messages."""
        sibling = RedisMux(self._target, clock=self._clock, random=self._random, call_timeout_s=call_timeout_s)
        sibling.is_closed = self.is_closed
        self._siblings.add(sibling)
        return sibling

    async def subscribed(self, channel: str) -> Wire:
        """A connection whose `pushed` are the messages of a channel from now on, as the server sends them."""
        wire = await self.connected()
        wire.pushed = asyncio.Queue()
        await self.call("SUBSCRIBE", channel)
        return wire

    async def connected(self) -> Wire:
        """The living connection: the present one, or the outcome of the next attempt to make one."""
        if self.is_closed:
            raise self._closed()
        if self._wire is not None and self._wire.is_alive:
            return self._wire
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(_retrieve)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                raise self._closed() from None  # the attempt was cancelled and not the caller
            raise

    async def close(self) -> None:
        self.is_closed = True
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._wire is not None:
            self._wire.end("the registry was closed")
            await self._wire.closed.wait()
            self._wire = None
        for sibling in tuple(self._siblings):
            await sibling.close()

    def _closed(self) -> Unavailable:
        return Unavailable(f"the registry at {self.name} has been closed")

    def told(self, error: Refused) -> Exception:
        """What to raise for an error reply: advice, or for NOSCRIPT the reply itself."""
        return error if error.code == "NOSCRIPT" else unavailable(self.name, error)

    # -- finding the primary ----------------------------------------------------------------------------------

    def _follow(self, wire: Wire, error: Refused) -> None:
        """The primary is elsewhere: this connection is of no use any more."""
        self._moved_to = _named(error, self._target.hosts[0][0]) if error.code == "MOVED" else None
        wire.end(error)

    def _knows_where(self, error: Refused) -> bool:
        return self._moved_to is not None or self._target.service is not None

    async def _open(self) -> Wire:
        if self._failures:
            await self._clock.sleep(RECONNECT.delay(self._failures, self._random))
        self._failures += 1
        for hop in range(HOPS_MAX):
            wire = await connect(
                self.name, await self._primary(), self._tls, connect_s=CONNECT_TIMEOUT_S, call_s=self._call_timeout_s
            )
            try:
                await self._log_in(wire)
                if self._greet is not None:
                    await self._greet(wire)
            except Refused as error:
                self._follow(wire, error)
                if not error.is_elsewhere or not self._knows_where(error) or hop == HOPS_MAX - 1:
                    raise unavailable(self.name, error) from error
                continue
            except BaseException as error:
                wire.end(error)
                raise
            break
        self._failures = 0
        self._wire = wire
        return wire

    async def _primary(self) -> Address:
        if self._target.service is not None:
            return await self._ask_sentinels(self._target.service)
        # The node that was named may be gone; then whoever the URL names knows better.
        address, self._moved_to = self._moved_to or self._target.hosts[0], None
        return address

    async def _ask_sentinels(self, service: str) -> Address:
        causes = []
        for host in self._target.hosts:
            try:
                wire = await connect(self.name, host, None, connect_s=CONNECT_TIMEOUT_S, call_s=CALL_TIMEOUT_S)
                try:
                    found = await wire.send("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
                finally:
                    wire.end("asked")
            except (Unavailable, Refused) as error:
                causes.append(str(error))
                continue
            if found:
                return found[0].decode(), int(found[1])
            causes.append(f"{host[0]}:{host[1]} knows no service {service!r}")
        raise away(self.name, "; ".join(causes), may_have_happened=False)

    async def _log_in(self, wire: Wire) -> None:
        target = self._target
        asked = []
        if target.password is not None:
            user = [target.user] if target.user else []
            asked.append(wire.send("AUTH", *user, target.password))
        asked.append(wire.send("CLIENT", "SETNAME", CLIENT_NAME))
        if target.db:
            asked.append(wire.send("SELECT", str(target.db)))
        for reply in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(reply, BaseException):
                raise reply


def _named(error: Refused, host: str) -> Address:
    """`MOVED 3999 10.0.0.2:6381`; a node that does not know its own name leaves it out."""
    named, _, port = str(error).split()[2].rpartition(":")
    return named or host, int(port)


def _retrieve(task: asyncio.Task[Wire]) -> None:
    """An attempt that nobody waits for any more may fail in silence."""
    if not task.cancelled():
        task.exception()
