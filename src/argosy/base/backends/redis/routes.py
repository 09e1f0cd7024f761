"""The server of each key: one server for all, or the node of a cluster that serves the key's slot.

For stores whose every command touches one key. Stores whose scripts touch several keys give them one hash tag and use a
`RedisMux`, which follows MOVED to the one node that serves them.
"""

import asyncio
from binascii import crc_hqx
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from argosy.base.backends.redis.connection import Arg
from argosy.base.backends.redis.errors import ReplyError, unreachable
from argosy.base.backends.redis.mux import HOPS_MAX, RedisMux, Script, redirect_target
from argosy.base.backends.redis.url import Address, RedisTopology, RedisUrl
from argosy.base.errors import Unavailable

SLOTS = 16384


class KeyCommand(NamedTuple):
    """A command, and the key that says which server runs it."""

    key: str
    args: Sequence[Arg]


def slot_of(key: str) -> int:
    """The slot of a key: of what stands between its first braces, if anything does."""
    start = key.find("{")
    if start >= 0 and (end := key.find("}", start + 1)) > start + 1:
        key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


class RedisRoutes:
    """Runs batches of commands on one server, on the primary behind Sentinel, or on the nodes of a cluster."""

    def __init__(self, url: RedisUrl, **options: Any) -> None:
        """`options` are those of `RedisMux`. Nothing connects before the first call."""
        self._url = url
        self._options = options
        self._seed = RedisMux(url, **options)
        self._is_cluster = url.topology is RedisTopology.CLUSTER
        self._nodes: dict[Address, RedisMux] = {}
        self._slots: list[Address | None] | None = None  # None until it is read, and after it turned out to be wrong
        self._reading: asyncio.Task[list[Address | None]] | None = None

    @property
    def name(self) -> str:
        return self._url.name

    async def ping(self, key: str) -> None:
        (reply,) = await self.run([KeyCommand(key, ("PING",))])
        if isinstance(reply, ReplyError):
            raise self.unavailable(reply)

    async def run(self, commands: Sequence[KeyCommand]) -> list[Any]:
        """The replies, in order; error replies are values. Commands of one server are sent together, in order.

        A command that another server must run is sent there. No other command is sent twice.
        """
        if not self._is_cluster:
            return await self._run_on_primary(commands)
        replies: list[Any] = [None] * len(commands)
        todo = list(range(len(commands)))
        redirects: dict[int, tuple[Address, bool]] = {}  # of a command: the node that was named, and whether by ASK
        # Only commands that a node has redirected are sent again: a redirect proves that the node did nothing.
        for hop in range(HOPS_MAX):
            groups: dict[tuple[Address, bool], list[int]] = {}
            for place in todo:
                target = redirects.get(place) or (await self._node_of(commands[place].key), False)
                groups.setdefault(target, []).append(place)
            todo, redirects = [], {}
            for (address, is_asking), places in groups.items():
                for place, reply in zip(
                    places, await self._run_on_node(address, [commands[n] for n in places], is_asking), strict=True
                ):
                    replies[place] = reply
                    if isinstance(reply, ReplyError) and reply.code in ("MOVED", "ASK") and hop < HOPS_MAX - 1:
                        todo.append(place)
                        redirects[place] = redirect_target(reply, address), reply.code == "ASK"
                        # ASK concerns one key of a slot that is being migrated; only MOVED says that the map is out of
                        # date.
                        if reply.code == "MOVED":
                            self._slots = None
            if not todo:
                break
        return replies

    async def load(self, keys: Iterable[str], *scripts: Script) -> None:
        """Loads scripts into the servers of some keys, after NOSCRIPT."""
        # One key for each server: a script is loaded once into a server, whichever keys it has.
        nodes = {await self._node_of(key) if self._is_cluster else None: key for key in keys}
        commands = [KeyCommand(key, ("SCRIPT", "LOAD", script.text)) for key in nodes.values() for script in scripts]
        for reply in await self.run(commands):
            if isinstance(reply, ReplyError):
                raise self.unavailable(reply)

    def unavailable(self, error: ReplyError) -> Unavailable:
        return self._seed.unavailable(error)

    def forget(self) -> None:
        """Reads the cluster's slots again before the next call."""
        self._slots = None

    async def close(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        for mux in (self._seed, *self._nodes.values()):
            await mux.close()

    async def _run_on_primary(self, commands: Sequence[KeyCommand]) -> list[Any]:
        replies = await self._seed.pipeline([command.args for command in commands])
        if self._url.topology is not RedisTopology.SENTINEL:
            return replies
        # After a failover: the old primary has refused these and done nothing, and Sentinel knows the new one.
        refused = [n for n, reply in enumerate(replies) if isinstance(reply, ReplyError) and reply.is_elsewhere]
        if refused:
            again = await self._seed.pipeline([commands[n].args for n in refused])
            for place, reply in zip(refused, again, strict=True):
                replies[place] = reply
        return replies

    # -- the nodes of a cluster ---------------------------------------------------------------------------------------

    async def _run_on_node(self, address: Address, commands: Sequence[KeyCommand], is_asking: bool) -> list[Any]:
        mux = self._nodes.get(address)
        if mux is None:
            url = replace(self._url, topology=RedisTopology.SINGLE, hosts=(address,))
            mux = self._nodes[address] = RedisMux(url, **self._options)
        try:
            return await mux.pipeline([command.args for command in commands], asking=is_asking)
        # Where the slots are now is read again by the next call; this one is not repeated, because it may have taken
        # effect.
        except Unavailable:
            self._slots = None  # a replica may have taken over
            raise

    async def _node_of(self, key: str) -> Address:
        slots = self._slots
        if slots is None:
            if self._reading is None or self._reading.done():
                # One task for all callers: a restart of the cluster would otherwise cause a read per request in flight.
                self._reading = asyncio.create_task(self._read_slots())
                self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
            # Shielded, because all callers wait for the same read, and one of them may be cancelled.
            slots = await asyncio.shield(self._reading)
        address = slots[slot_of(key)]
        if address is None:
            self._slots = None
            cause = f"no node serves slot {slot_of(key)}"
            raise unreachable(self.name, cause, may_have_happened=False)
        return address

    async def _read_slots(self) -> list[Address | None]:
        """The cluster's map, from whichever node answers; nodes that have left it are closed."""
        connection = await self._seed.connection()
        try:
            reply = await connection.send("CLUSTER", "SLOTS")
        except ReplyError as error:
            raise self.unavailable(error) from error
        slots: list[Address | None] = [None] * SLOTS
        for first, last, (host, port, *_), *_ in reply:
            # A node that does not know its own name omits it or returns ?; it is the one that was called.
            text = host.decode() if isinstance(host, bytes) else host
            address = (connection.address[0] if text in (None, "", "?") else text, int(port))
            slots[first : last + 1] = [address] * (last + 1 - first)
        for departed in self._nodes.keys() - set(slots):
            await self._nodes.pop(departed).close()
        self._slots = slots
        return slots
