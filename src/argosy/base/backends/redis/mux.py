"""The multiplexed connection to a primary: finds it, logs in, runs scripts, reconnects.

A call that finds no connection waits for the next attempt to open one, of which there is one at a time, with back-off.
A call that was sent is never sent again, unless the server has answered that it did nothing: it does not know the
script, or it is not the primary. A call in flight when the connection breaks is `Unavailable`: it may or may not have
taken effect, and the caller, who can read the state, decides.

Behind Sentinel the primary is looked up for every new connection, and again every `SENTINEL_CHECK_S`: after a failover
an old primary that is alive but cut off from Sentinel would otherwise go on serving this client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha1
from importlib.resources import files
from typing import Any
from weakref import WeakSet

from argosy.base.backends.redis.connection import Arg, RedisConnection, connect
from argosy.base.backends.redis.errors import ALL_COMMANDS, ReplyError, reply_unavailable, unreachable
from argosy.base.backends.redis.url import Address, RedisTopology, RedisUrl
from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.base.retry import Backoff


@dataclass(frozen=True)
class Script:
    name: str
    text: str

    @cached_property
    def digest(self) -> str:
        """The hash by which a server knows the script: EVALSHA's first argument."""
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def load_script(package: str, name: str, *, prelude: tuple[str, ...] = (), header: str = "") -> Script:
    """The script `lua/<name>.lua` of a package, after a header and other files that it shares with its siblings."""
    folder = files(package) / "lua"
    parts = [(folder / f"{part}.lua").read_text(encoding="utf-8") for part in (*prelude, name)]
    return Script(name, "".join([header, *parts]))


CONNECT_TIMEOUT_S = 5.0  # a server in the same site answers in milliseconds; past this it is unreachable
CALL_TIMEOUT_S = 5.0  # for any one request; shorter than a session's TTL, so that a lease keeper learns of it in time
RECONNECT = Backoff(first_s=0.02, ceiling_s=1.0)
HOPS_MAX = 3  # from node to node of a cluster, or after a failover that is still under way
SENTINEL_CHECK_S = 2.0  # well below the TTLs of leases; one short connection each

OnConnect = Callable[[RedisConnection], Awaitable[None]]


class RedisMux:
    """One shared connection to the primary that a URL leads to."""

    def __init__(
        self,
        url: RedisUrl,
        *,
        clock: Clock,
        random: Random,
        client_name: str = "argosy",
        permissions: str = ALL_COMMANDS,
        on_connect: OnConnect | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        call_timeout_s: float = CALL_TIMEOUT_S,
        encoding: str | None = None,
    ) -> None:
        """`on_connect` is awaited on each new connection before anything else is sent. `permissions` lists, for
        an error message, what the user of the URL must be allowed to do. With an `encoding` replies are text."""
        self._url = url
        self._clock = clock
        self._random = random
        self._client_name = client_name
        self._permissions = permissions
        self._on_connect = on_connect
        self._connect_timeout_s = connect_timeout_s
        self._call_timeout_s = call_timeout_s
        self._encoding = encoding
        self._tls = url.tls()
        self._connection: RedisConnection | None = None
        self._opening: asyncio.Task[RedisConnection] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._failures = 0  # to connect, in a row
        self._moved_to: Address | None = None  # the node of a cluster that has the keys
        # Weak, because a sibling that its owner has dropped must not be kept alive by this one.
        self._siblings: WeakSet[RedisMux] = WeakSet()
        self.is_closed = False

    @property
    def name(self) -> str:
        return self._url.name

    async def call(self, *args: Arg) -> Any:
        """Runs one command. An error reply is `Unavailable` with advice, except NOSCRIPT, which is `ReplyError`."""
        # Twice: the first reply may reveal that the primary is elsewhere, which also means that nothing was done here.
        for is_last in (False, True):
            connection = self._connection
            if connection is None or not connection.is_alive:
                connection = await self.connection()
            if connection.is_full:
                await connection.wait_capacity()
            try:
                return await connection.send(*args)
            except ReplyError as error:
                if not error.is_elsewhere:
                    raise self.to_error(error) from error
                self.leave(connection, error)
                if is_last or not self.can_find_primary:
                    raise self.unavailable(error) from error
        raise AssertionError("the loop returns or raises")

    def post(self, script: Script, keys: Sequence[Arg], args: Sequence[Arg]) -> "asyncio.Future[Any] | None":
        """The future of the server's own reply, if the script can be sent this instant; else None."""
        connection = self._connection
        # No waiting here: the caller falls back to `script`, which waits for a connection.
        if connection is None or not connection.is_ready:
            return None
        return connection.send("EVALSHA", script.digest, len(keys), *keys, *args)

    async def script(self, script: Script, keys: Sequence[Arg], args: Sequence[Arg]) -> Any:
        """Runs a script by its hash, and loads its text first if the server does not know the hash."""
        command = ("EVALSHA", script.digest, len(keys), *keys, *args)
        try:
            return await self.call(*command)
        # NOSCRIPT is the only ReplyError that `call` lets through: the server restarted, or failed over to another one.
        except ReplyError:
            await self.call("SCRIPT", "LOAD", script.text)
        try:
            return await self.call(*command)
        except ReplyError as error:
            raise self.unavailable(error) from error

    async def pipeline(self, commands: Sequence[Sequence[Arg]], *, asking: bool = False) -> list[Any]:
        """Sends commands together and returns their replies in order, error replies as values; none is sent again.
        `asking` precedes each with ASKING, which a node needs that is taking over a slot."""
        connection = await self.connection()
        futures: list[asyncio.Future[Any]] = []
        for command in commands:
            if connection.is_full:
                await connection.wait_capacity()
            if asking:
                connection.send("ASKING").add_done_callback(_retrieve)
            futures.append(connection.send(*command))
        # All replies are awaited even after an error: each belongs to a command that may have taken effect.
        replies: list[Any] = await asyncio.gather(*futures, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, ReplyError):
                if reply.code in ("READONLY", "MASTERDOWN"):
                    self.leave(connection, reply)
            elif isinstance(reply, BaseException):
                raise reply
        return replies

    def sibling(self, *, call_timeout_s: float) -> "RedisMux":
        """Another connection to the same server, for reads that block and for messages."""
        sibling = RedisMux(
            self._url,
            clock=self._clock,
            random=self._random,
            client_name=self._client_name,
            permissions=self._permissions,
            connect_timeout_s=self._connect_timeout_s,
            call_timeout_s=call_timeout_s,
            encoding=self._encoding,
        )
        sibling.is_closed = self.is_closed
        self._siblings.add(sibling)
        return sibling

    async def subscribe(self, channel: str) -> RedisConnection:
        """A connection whose `messages` are those of a channel from now on, as the server sends them."""
        connection = await self.connection()
        # Before SUBSCRIBE is sent, because messages may follow its reply at once.
        connection.messages = asyncio.Queue()
        await self.call("SUBSCRIBE", channel)
        return connection

    async def connection(self) -> RedisConnection:
        """The living connection: the present one, or the result of the next attempt to open one."""
        if self.is_closed:
            raise self._connection_closed()
        if self._connection is not None and self._connection.is_alive:
            return self._connection
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(_retrieve)
        opening = self._opening
        try:
            # Shielded: the attempt belongs to all callers that wait for a connection, and one of them may be cancelled.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                raise self._connection_closed() from None  # the attempt was cancelled and not the caller
            raise

    async def close(self) -> None:
        self.is_closed = True
        running = [task for task in (self._opening, self._checking) if task is not None and not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self._connection is not None:
            self._connection.abort("the client was closed")
            await self._connection.closed.wait()
            self._connection = None
        # Siblings read in loops that end only when their connection is closed.
        for sibling in tuple(self._siblings):
            await sibling.close()

    # -- errors -------------------------------------------------------------------------------------------------------

    def to_error(self, error: ReplyError) -> Exception:
        """What to raise for an error reply: advice, or for NOSCRIPT the reply itself."""
        return error if error.code == "NOSCRIPT" else self.unavailable(error)

    def unavailable(self, error: ReplyError) -> Unavailable:
        return reply_unavailable(self.name, error, permissions=self._permissions)

    def _connection_closed(self) -> Unavailable:
        return Unavailable(f"the connection to redis at {self.name} has been closed")

    # -- finding the primary ------------------------------------------------------------------------------------------

    @property
    def can_find_primary(self) -> bool:
        """Whether the address of the current primary can be looked up."""
        return self._moved_to is not None or self._url.topology is RedisTopology.SENTINEL

    def leave(self, connection: RedisConnection, error: ReplyError) -> None:
        """The primary is elsewhere: ends a connection that is of no use any more."""
        self._moved_to = redirect_target(error, connection.address) if error.code == "MOVED" else None
        connection.abort(error)

    async def _open(self) -> RedisConnection:
        # No pause before the first attempt: most connections break because a server was restarted, and it is back
        # already.
        if self._failures:
            await self._clock.sleep(RECONNECT.delay(self._failures, self._random))
        # Counted before the attempt, so that a failure of any kind delays the next one; reset after a success.
        self._failures += 1
        for hop in range(HOPS_MAX):
            # A connection that leads to a replica or another node is left, and the next hop goes where the reply
            # points.
            connection = await self._connect()
            try:
                await self._log_in(connection)
                if self._on_connect is not None:
                    await self._on_connect(connection)
            except ReplyError as error:
                self.leave(connection, error)
                if not error.is_elsewhere or not self.can_find_primary or hop == HOPS_MAX - 1:
                    raise self.unavailable(error) from error
                continue
            except BaseException as error:
                connection.abort(error)
                raise
            break
        # Only after login and `on_connect`: a server that accepts connections and rejects logins must not be called in
        # a loop.
        self._failures = 0
        self._connection = connection
        if self._url.topology is RedisTopology.SENTINEL:
            if self._checking is not None:
                self._checking.cancel()
            self._checking = asyncio.create_task(self._check_primary(connection))
        return connection

    async def _connect(self) -> RedisConnection:
        if self._url.topology is RedisTopology.SENTINEL:
            return await self._connect_to(await self._lookup_primary())
        # The node that MOVED named may be gone by now, so it is tried once; the next attempt uses the URL again.
        moved_to, self._moved_to = self._moved_to, None
        hosts = (moved_to,) if moved_to is not None else self._url.hosts
        # Any of the hosts may be down; only the failure of the last one is reported.
        for host in hosts[:-1]:
            try:
                return await self._connect_to(host)
            except Unavailable:
                continue
        return await self._connect_to(hosts[-1])

    async def _connect_to(self, address: Address) -> RedisConnection:
        return await connect(
            self.name,
            address,
            self._tls,
            connect_s=self._connect_timeout_s,
            call_s=self._call_timeout_s,
            encoding=self._encoding,
        )

    async def _lookup_primary(self) -> Address:
        """The primary as the first Sentinel that answers names it."""
        causes = []
        for host in self._url.hosts:
            try:
                sentinel = await connect(
                    self.name, host, self._tls, connect_s=self._connect_timeout_s, call_s=self._call_timeout_s
                )
                try:
                    address = await sentinel.send("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._url.service or "")
                finally:
                    sentinel.abort("done")
            # One Sentinel may be down or not know the service yet; all of them together are authoritative.
            except (Unavailable, ReplyError) as error:
                causes.append(str(error))
                continue
            if address:
                return address[0].decode(), int(address[1])
            causes.append(f"{host[0]}:{host[1]} knows no service {self._url.service!r}")
        raise unreachable(self.name, "; ".join(causes), may_have_happened=False)

    async def _check_primary(self, connection: RedisConnection) -> None:
        """Ends a connection whose server Sentinel no longer names as the primary."""
        while connection.is_alive:
            # Polled and not subscribed: a message of Sentinel can be lost, and the check needs no second open
            # connection.
            await self._clock.sleep(SENTINEL_CHECK_S)
            try:
                primary = await self._lookup_primary()
            except Unavailable:
                continue  # without Sentinel there is no failover either
            # A partitioned old primary accepts writes that the new one will never have, so the connection is given up.
            if primary != connection.address:
                connection.abort(f"{primary[0]}:{primary[1]} is the primary now")

    async def _log_in(self, connection: RedisConnection) -> None:
        url = self._url
        futures = []
        if url.password is not None:
            user = [url.user] if url.user else []
            futures.append(connection.send("AUTH", *user, url.password))
        if url.db:
            futures.append(connection.send("SELECT", str(url.db)))
        futures.append(connection.send("CLIENT", "SETNAME", self._client_name))
        # Sent together and awaited together, so that a login costs one round trip.
        *replies, named = await asyncio.gather(*futures, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        # The name is for CLIENT LIST only: a user that may not set it may still be allowed all that the store needs.
        if isinstance(named, BaseException) and not (isinstance(named, ReplyError) and named.code == "NOPERM"):
            raise named


def redirect_target(error: ReplyError, origin: Address) -> Address:
    """Of `MOVED 3999 10.0.0.2:6381` or ASK; a node that does not know its own name leaves the host out."""
    host, _, port = str(error).split()[2].rpartition(":")
    return host or origin[0], int(port)


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Marks the failure of an attempt without waiters as retrieved, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
