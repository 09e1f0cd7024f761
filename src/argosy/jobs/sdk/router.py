"""Routing: sends each call to the node that serves its shard, follows hints, and retries within bounds.

The client caches the shard map (`RoutingTable`); a node that no longer serves a shard answers NOT_OWNER, with the new
owner's address if it knows it. No call needs the coordination store.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from argosy.base.clock import Clock, Random
from argosy.base.errors import ArgosyError, Invalid, NotFound, NotOwner, Throttled, Unavailable
from argosy.base.hashing import hash64
from argosy.base.retry import Backoff
from argosy.jobs.ports import ClusterMember, ShardInfo
from argosy.jobs.sdk.errors import is_retryable
from argosy.jobs.sdk.links import CLUSTER, NodeLinks, RpcMethod
from argosy.jobs.silo import silo_pb2 as silo


class RoutingTable:
    """Immutable; `with_address` returns a copy."""

    def __init__(self, places: Iterable[ShardInfo], members: Iterable[ClusterMember]) -> None:
        self.shards = sorted(places, key=lambda place: place.range_start)
        self.members = tuple(members)
        self._starts = [place.range_start for place in self.shards]

    @classmethod
    def read(cls, response: silo.GetClusterInfoResponse) -> "RoutingTable":
        return cls(
            [
                ShardInfo(owner.shard_id, owner.range_start, owner.range_end, owner.node_id, owner.grpc_addr)
                for owner in response.shard_owners
            ],
            [ClusterMember(member.node_id, member.grpc_addr) for member in response.members],
        )

    def shard_of(self, tenant: str) -> ShardInfo:
        """The tenant's shard."""
        at = bisect_right(self._starts, f"{hash64(tenant):016x}") - 1
        if at < 0:
            raise Unavailable("the cluster has no shards yet; retry")
        return self.shards[at]

    def by_id(self, shard_id: str) -> ShardInfo:
        found = next((place for place in self.shards if place.id == shard_id), None)
        if found is None:
            raise NotFound(f"shard {shard_id} not found; run `argosy shard list` for the existing ones")
        return found

    def with_address(self, shard_id: str, address: str) -> "RoutingTable":
        """A copy with the address that a node has given for the shard."""
        places = [replace(place, address=address) if place.id == shard_id else place for place in self.shards]
        return RoutingTable(places, self.members)

    def addresses(self) -> list[str]:
        """Addresses of nodes that serve shards, each once."""
        return list(dict.fromkeys(place.address for place in self.shards if place.node or place.address))


T = TypeVar("T")
R = TypeVar("R")

TIMEOUT_S = 30.0  # of one call
BACKOFF = Backoff(
    first_s=0.1, ceiling_s=5.0, attempts_max=9
)  # about 16 s: by then the shards of a crashed node have moved
HINTS_MAX = 2  # followed at once; further ones wait like other retries
BATCH_ITEMS_MAX = 1_000  # of one call
BATCH_BYTES_MAX = 8 << 20
SENDS_MAX = 8  # batches of one call in progress

Send = Callable[[str, Sequence[tuple[T, ShardInfo]]], Awaitable[Sequence[R | ArgosyError]]]


class SharedRouting:
    """State shared by all callers of a client: the links and the newest map."""

    def __init__(self, links: NodeLinks, seeds: Sequence[str]) -> None:
        if not seeds:
            raise Invalid("a client needs the address of at least one node")
        self.links = links
        self.seeds = tuple(seeds)
        self.map: RoutingTable | None = None
        self.reading = asyncio.Lock()


class ShardRouter:
    """Makes calls for one caller, whose headers it sends."""

    def __init__(
        self,
        known: SharedRouting,
        *,
        clock: Clock,
        random: Random,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.known = known
        self.clock = clock
        self.random = random
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._backoff = backoff

    def with_headers(self, headers: Mapping[str, str]) -> "ShardRouter":
        """The same router for another caller."""
        other = copy(self)
        other._headers = dict(headers)
        return other

    async def map(self) -> RoutingTable:
        return self.known.map or await self.refresh()

    async def refresh(self) -> RoutingTable:
        """A newer map; concurrent callers share one read."""
        before = self.known.map
        async with self.known.reading:
            if self.known.map is not None and self.known.map is not before:
                return self.known.map
            return await self.read()

    async def read(self) -> RoutingTable:
        """The map from the first node that answers this caller."""
        known, failure = self.known, Unavailable("no known node of the cluster")
        members = [member.address for member in known.map.members] if known.map else []
        for address in dict.fromkeys([*members, *known.seeds]):
            try:
                response = await self.call(address, CLUSTER, silo.GetClusterInfoRequest())
            except Unavailable as error:
                failure = error
                continue
            known.map = RoutingTable.read(response)
            return known.map
        raise failure

    async def call(self, address: str, call: RpcMethod, request: Any, *, timeout_s: float | None = None) -> Any:
        """Calls one node, once."""
        link = self.known.links.link(address)
        return await link.call(call, request, timeout_s=timeout_s or self._timeout_s, headers=self._headers)

    async def call_shard(
        self,
        place: Callable[[RoutingTable], ShardInfo],
        call: RpcMethod,
        request: Callable[[ShardInfo], Any],
        *,
        attempts_max: int | None = None,
    ) -> Any:
        """Calls the node that has the shard; retries while that may help."""
        failures, hints = 0, 0
        while True:
            here: ShardInfo | None = None
            try:
                here = place(await self.map())
                return await self.call(here.address, call, request(here))
            except ArgosyError as error:
                if not is_retryable(error):
                    raise
                if self._follow(here, error) and (hints := hints + 1) <= HINTS_MAX:
                    continue
                failures += 1
                if failures >= (attempts_max or self._backoff.attempts_max):
                    raise
                await self._pause(failures, error)

    async def spread(
        self,
        items: Sequence[T],
        tenant_of: Callable[[T], str],
        size_of: Callable[[T], int],
        send: "Send[T, R]",
        *,
        attempts_max: int | None = None,
    ) -> list[R | ArgosyError]:
        """Sends each node its items; items with a retryable error are sent again."""
        answers: list[R | ArgosyError] = [Unavailable("not sent")] * len(items)
        waiting, failures, hints = list(range(len(items))), 0, 0
        while waiting:
            is_hinted = await self._round(items, waiting, tenant_of, size_of, send, answers)
            waiting = [at for at in waiting if is_retryable(_error(answers[at]))]
            if not waiting or (is_hinted and (hints := hints + 1) <= HINTS_MAX):
                continue
            failures += 1
            if failures >= (attempts_max or self._backoff.attempts_max):
                break
            await self._pause(failures, _error(answers[waiting[0]]))
        return answers

    async def _round(
        self,
        items: Sequence[T],
        waiting: Sequence[int],
        tenant_of: Callable[[T], str],
        size_of: Callable[[T], int],
        send: "Send[T, R]",
        answers: list[R | ArgosyError],
    ) -> bool:
        """Fills in the answers; returns whether a hint was followed."""
        try:
            shards = await self.map()
            for_shard = [(at, shards.shard_of(tenant_of(items[at]))) for at in waiting]
        except Unavailable as error:
            for at in waiting:
                answers[at] = error
            return False
        is_hinted = False
        bound = asyncio.Semaphore(SENDS_MAX)

        async def one(batch: Sequence[tuple[int, ShardInfo]]) -> None:
            nonlocal is_hinted
            async with bound:
                try:
                    response = await send(batch[0][1].address, [(items[at], place) for at, place in batch])
                except ArgosyError as error:
                    response = [error] * len(batch)
            for (at, place), answer in zip(batch, response, strict=True):
                answers[at] = answer
                is_hinted |= self._follow(place, _error(answer))

        await asyncio.gather(*(one(batch) for batch in _batches(for_shard, lambda at: size_of(items[at]))))
        return is_hinted

    def _follow(self, place: ShardInfo | None, error: BaseException | None) -> bool:
        """Stores the address that another node has given for the shard."""
        if place is None or not isinstance(error, NotOwner) or not error.hint or self.known.map is None:
            return False
        self.known.map = self.known.map.with_address(place.id, error.hint)
        return error.hint != place.address

    async def _pause(self, failures: int, error: BaseException | None) -> None:
        wait_s = self._backoff.delay(failures, self.random)
        if isinstance(error, Throttled):
            wait_s = max(wait_s, min(error.retry_after_s, self._backoff.ceiling_s))
        await self.clock.sleep(wait_s)
        try:
            await self.refresh()
        except Unavailable:
            pass  # the next attempt raises it


def _error(answer: object) -> ArgosyError | None:
    return answer if isinstance(answer, ArgosyError) else None


def _batches(
    for_shard: Sequence[tuple[int, ShardInfo]], size_of: Callable[[int], int]
) -> list[list[tuple[int, ShardInfo]]]:
    """Batches by node, in order, within the bounds."""
    by_address: dict[str, list[tuple[int, ShardInfo]]] = {}
    for each in for_shard:
        by_address.setdefault(each[1].address, []).append(each)
    batches: list[list[tuple[int, ShardInfo]]] = []
    for entries in by_address.values():
        batch: list[tuple[int, ShardInfo]] = []
        size_bytes = 0
        for each in entries:
            more_bytes = size_of(each[0])
            if batch and (len(batch) >= BATCH_ITEMS_MAX or size_bytes + more_bytes > BATCH_BYTES_MAX):
                batches.append(batch)
                batch, size_bytes = [], 0
            batch.append(each)
            size_bytes += more_bytes
        batches.append(batch)
    return batches
