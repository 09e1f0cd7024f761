"""The store of an ingest node: its rows are local, entries go to the query nodes that own them.

Rows are written after every owner has the data on disk, so the cursor is never ahead; data sent before a failure is
sent again without effect. Every node receives every value, because a change of metadata or a removal concerns all
multihashes of a context, wherever they are.

Several indexers write to the same nodes. An indexer finds only its own providers, because it would treat contexts of
unknown providers as leftovers and delete them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Fenced, NotOwner, Unavailable
from argosy.base.retry import Backoff
from argosy.ipni.backends.layout import place
from argosy.ipni.keyspace import wire
from argosy.ipni.keyspace.layout import KeyspaceLayout, by_slot, slot_of
from argosy.ipni.keyspace.ports import Membership, QueryNode
from argosy.ipni.model import IndexValue, StoreStats
from argosy.ipni.ports import IndexStore, Rows

BACKOFF = Backoff(first_s=0.05, ceiling_s=2.0, attempts_max=6)
UNREACHABLE_S = 2.0  # for this long a node that did not answer is tried last

T = TypeVar("T")
Connect = Callable[[str], QueryNode]
IsOwn = Callable[[str], Awaitable[bool]]  # whether a provider is one of this indexer


class ShardedStore:
    """An IndexStore over the nodes of a layout; `local` stores the rows."""

    def __init__(
        self,
        local: IndexStore,
        membership: Membership,
        connect: Connect,
        *,
        clock: Clock,
        random: Random,
        backoff: Backoff = BACKOFF,
        unreachable_s: float = UNREACHABLE_S,
        is_own: IsOwn | None = None,
    ) -> None:
        self._local = local
        self._membership = membership
        self._connect = connect
        self._clock = clock
        self._random = random
        self._backoff = backoff
        self._unreachable_s = unreachable_s
        self._is_own = is_own
        self._is_closed = False
        self._nodes: dict[str, QueryNode] = {}
        self._unreachable_until: dict[str, float] = {}  # by URL: until then tried last

    # -- writes -------------------------------------------------------------------------------------------------------

    async def put(
        self,
        value: IndexValue,
        multihashes: Sequence[bytes] = (),
        rows: Rows | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        # Rows move the cursor, so what they describe must be on the nodes' disks first.
        is_synced = is_durable or bool(rows)
        slots = by_slot(multihashes)

        async def send(layout: KeyspaceLayout, name: str) -> None:
            own = [each for slot, hashes in slots.items() if name in layout.owners[slot] for each in hashes]
            # At least one request: a node without any of these multihashes still needs the value.
            for at in range(0, max(len(own), 1), wire.PUT_MAX):
                share = own[at : at + wire.PUT_MAX]
                is_last = at + wire.PUT_MAX >= len(own)
                await self._node(layout, name).put(layout.version, value, share, is_durable=is_synced and is_last)

        await self._write_everywhere(send)
        await self._write(rows, is_durable=is_durable)

    async def remove_context(self, provider: str, context: bytes, rows: Rows | None = None) -> None:
        await self._remove(provider, context, rows)

    async def remove_provider(self, provider: str, rows: Rows | None = None) -> None:
        await self._remove(provider, None, rows)

    async def _remove(self, provider: str, context: bytes | None, rows: Rows | None) -> None:
        async def send(layout: KeyspaceLayout, name: str) -> None:
            await self._node(layout, name).remove(layout.version, provider, context, is_durable=bool(rows))

        await self._write_everywhere(send)
        await self._write(rows)

    async def _write(self, rows: Rows | None, *, is_durable: bool = False) -> None:
        if rows:
            await self._local.write(rows, is_durable=is_durable)

    async def sweep(self, entries_max: int) -> int:
        """Frees local space only; query nodes sweep on their own."""
        return await self._local.sweep(entries_max)

    # -- reads --------------------------------------------------------------------------------------------------------

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        requested = by_slot(list(dict.fromkeys(multihashes)))
        found = await self._retry(lambda layout: self._find(layout, requested))
        own = await self._own({value.provider for values in found.values() for value in values})
        return [tuple([value for value in found[each] if value.provider in own]) for each in multihashes]

    async def _own(self, providers: set[str]) -> set[str]:
        if self._is_own is None:
            return providers
        return {each for each in providers if await self._is_own(each)}

    async def _find(
        self, layout: KeyspaceLayout, requested: dict[int, list[bytes]]
    ) -> dict[bytes, tuple[IndexValue, ...]]:
        """Reads each slot from the first of its owners that answers."""
        found: dict[bytes, tuple[IndexValue, ...]] = {}
        # By node and slot: during a move a node may lack one slot and have all others.
        declined: set[tuple[str, int]] = set()
        pending = requested
        while pending:
            batches = self._batches(layout, pending, declined)
            got = await asyncio.gather(
                *(self._query_node(layout, name, hashes) for name, hashes in batches), return_exceptions=True
            )
            raise_fatal(got)
            for (name, hashes), answer in zip(batches, got, strict=True):
                if isinstance(answer, BaseException):
                    declined.update((name, slot_of(each)) for each in hashes)
                else:
                    found.update(zip(hashes, answer, strict=True))
            missing = [each for hashes in pending.values() for each in hashes if each not in found]
            pending = by_slot(missing)
        return found

    def _batches(
        self, layout: KeyspaceLayout, pending: dict[int, list[bytes]], declined: set[tuple[str, int]]
    ) -> list[tuple[str, list[bytes]]]:
        shares: dict[tuple[str, int], list[bytes]] = {}
        for slot, hashes in pending.items():
            names = [name for name in layout.owners[slot] if (name, slot) not in declined]
            if not names:
                raise Unavailable(f"no owner of slot {slot} answers ({', '.join(layout.owners[slot])}); try again")
            name = min(names, key=lambda name: self._is_unreachable(layout.urls[name]))  # the first reachable one
            # A new owner may have one slot and lack another. One request per slot, so that it declines only what it
            # lacks.
            is_new = layout.previous is not None and name not in layout.previous.owners[slot]
            shares.setdefault((name, slot if is_new else -1), []).extend(hashes)
        return [
            (name, hashes[at : at + wire.FIND_MAX])
            for (name, _), hashes in shares.items()
            for at in range(0, len(hashes), wire.FIND_MAX)
        ]

    async def _query_node(self, layout: KeyspaceLayout, name: str, hashes: list[bytes]) -> list[tuple[IndexValue, ...]]:
        return await self._track_reachability(
            layout, name, lambda: self._node(layout, name).find(layout.version, hashes)
        )

    async def find_second(self, digests: Sequence[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for at in range(0, len(digests), wire.FIND_MAX):
            part = digests[at : at + wire.FIND_MAX]
            # Second hashes have no slot, so every node is queried; likewise for a value and a context.
            answers = await self._query_all(lambda node, version, part=part: node.find_second(version, part))  # type: ignore[misc]
            found += [next((each for each in every if each is not None), None) for every in zip(*answers, strict=True)]
        return found

    async def find_value(self, value_key_hash: bytes) -> IndexValue | None:
        answers = await self._query_all(lambda node, version: node.find_value(version, value_key_hash))
        found = next((each for each in answers if each is not None), None)
        return found if found and await self._own({found.provider}) else None

    async def multihashes(self, provider: str, context: bytes, *, start: bytes, limit: int) -> list[bytes]:
        limit = min(limit, wire.LIST_MAX)
        answers = await self._query_all(
            lambda node, version: node.multihashes(version, provider, context, start=start, limit=limit)
        )
        return sorted({each for every in answers for each in every}, key=place)[:limit]

    async def context_size(self, provider: str, context: bytes) -> int:
        """An estimate: each node counts its own entries, and moved ones may be counted twice until they are cleared."""
        answers = await self._query_all(lambda node, version: node.context_size(version, provider, context))
        # Rounded up: a context with one multihash must not count as empty.
        return -(-sum(answers) // self._copies())

    async def stats(self) -> StoreStats:
        answers = await self._query_all(lambda node, version: node.status(version))
        local = await self._local.stats()
        return StoreStats(
            entries=sum(each.stats.entries for each in answers) // self._copies(),
            # Every node has every value; one that has just joined has fewer.
            values=max(each.stats.values for each in answers),
            disk_bytes=sum(each.stats.disk_bytes for each in answers) + local.disk_bytes,
        )

    # -- rows ---------------------------------------------------------------------------------------------------------

    async def write(self, rows: Rows, *, is_durable: bool = False) -> None:
        await self._local.write(rows, is_durable=is_durable)

    async def read(self, key: bytes) -> bytes | None:
        return await self._local.read(key)

    def scan(self, prefix: bytes) -> AsyncIterator[tuple[bytes, bytes]]:
        return self._local.scan(prefix)

    async def close(self) -> None:
        self._is_closed = True
        await self._local.close()

    # -- requests to nodes --------------------------------------------------------------------------------------------

    async def _write_everywhere(self, send: Callable[[KeyspaceLayout, str], Awaitable[None]]) -> None:
        """Repeats until all nodes have confirmed the write at one version; a node that has confirmed is not called
        again.

        Confirmations of an older version do not count: under the newer layout other slots belong to the node.
        """
        done: set[tuple[int, str]] = set()

        async def attempt(layout: KeyspaceLayout) -> None:
            left = [name for name in layout.urls if (layout.version, name) not in done]
            got = await asyncio.gather(
                *(self._track_reachability(layout, name, partial(send, layout, name)) for name in left),
                return_exceptions=True,
            )
            done.update((layout.version, name) for name, why in zip(left, got, strict=True) if why is None)
            raise_fatal(got)
            for why in got:
                if isinstance(why, BaseException):
                    raise why

        await self._retry(attempt)

    async def _query_all(self, query: Callable[[QueryNode, int], Awaitable[T]]) -> list[T]:
        """Queries all nodes; some may be unreachable, as long as every slot has an owner among those that answer."""

        async def attempt(layout: KeyspaceLayout) -> list[T]:
            names = list(layout.urls)
            queries = [partial(query, self._node(layout, name), layout.version) for name in names]
            got = await asyncio.gather(
                *(self._track_reachability(layout, name, each) for name, each in zip(names, queries, strict=True)),
                return_exceptions=True,
            )
            raise_fatal(got)
            unreachable = {name for name, each in zip(names, got, strict=True) if isinstance(each, BaseException)}
            check_covered(layout, unreachable)
            return [each for each in got if not isinstance(each, BaseException)]

        return await self._retry(attempt)

    async def _retry(self, attempt: Callable[[KeyspaceLayout], Awaitable[T]]) -> T:
        """Attempts a request a few times, each time with the newest layout."""
        if self._is_closed:
            raise Unavailable("the sharded store is closed")
        for failures in range(1, self._backoff.attempts_max):
            layout = self._membership.layout
            try:
                return await attempt(layout)
            # A kind of Unavailable that no retry cures: this process may no longer write.
            except Fenced:
                raise
            except (Conflict, Unavailable):
                newest = await self._membership.reload()
                # A new layout is tried at once; without one only time can help.
                if newest.version == layout.version:
                    await self._clock.sleep(self._backoff.delay(failures, self._random))
        try:
            return await attempt(self._membership.layout)
        except Conflict as why:
            raise Unavailable(f"the layout file here is older than that of the query nodes ({why})") from None

    async def _track_reachability(self, layout: KeyspaceLayout, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Records which nodes are unreachable."""
        url = layout.urls[name]
        try:
            answer = await call()
        except Unavailable:
            self._unreachable_until[url] = self._clock.now() + self._unreachable_s
            raise
        self._unreachable_until.pop(url, None)
        return answer

    def _is_unreachable(self, url: str) -> bool:
        return self._unreachable_until.get(url, 0.0) > self._clock.now()

    def _node(self, layout: KeyspaceLayout, name: str) -> QueryNode:
        url = layout.urls[name]
        if url not in self._nodes:
            self._nodes[url] = self._connect(url)
        return self._nodes[url]

    def _copies(self) -> int:
        now = self._membership.layout.now
        return min(now.replicas, len(now.nodes))


def raise_fatal(got: Iterable[object]) -> None:
    """Raises errors that another owner cannot compensate: an outdated layout first, because it may cause the others."""
    failures = [each for each in got if isinstance(each, BaseException)]
    for why in failures:
        if isinstance(why, Conflict):
            raise why
    for why in failures:
        if not isinstance(why, Unavailable | NotOwner):
            raise why


def check_covered(layout: KeyspaceLayout, unreachable: set[str]) -> None:
    """Raises Unavailable if some slot has no reachable owner that certainly has all of it: an incomplete answer would
    look like a miss."""
    if not unreachable:
        return
    # While slots move, only the previous owners certainly have everything.
    side = layout.previous or layout.now
    for slot, owners in enumerate(side.owners):
        having = set(owners) - layout.lost
        if having and having <= unreachable:
            raise Unavailable(f"no owner of slot {slot} answers ({', '.join(sorted(having))}); try again")
