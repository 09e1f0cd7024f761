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
    """The shard map as a client knows it. Immutable, so concurrent calls see one state."""

    def __init__(self, shards: Iterable[ShardInfo], members: Iterable[ClusterMember]) -> None:
        self.shards = sorted(shards, key=lambda shard: shard.range_start)
        self.members = tuple(members)
        self._starts = [shard.range_start for shard in self.shards]

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
        """The tenant's shard: the last whose range starts at or before the tenant's hash."""
        at = bisect_right(self._starts, f"{hash64(tenant):016x}") - 1
        if at < 0:
            raise Unavailable("the cluster has no shards yet; retry")
        return self.shards[at]

    def by_id(self, shard_id: str) -> ShardInfo:
        found = next((shard for shard in self.shards if shard.id == shard_id), None)
        if found is None:
            raise NotFound(f"shard {shard_id} not found; run `argosy shard list` for the existing ones")
        return found

    def with_address(self, shard_id: str, address: str) -> "RoutingTable":
        """A copy with the address that a node has given for the shard."""
        shards = [replace(shard, address=address) if shard.id == shard_id else shard for shard in self.shards]
        return RoutingTable(shards, self.members)

    def addresses(self) -> list[str]:
        """Addresses of nodes that serve shards, each once."""
        return list(dict.fromkeys(shard.address for shard in self.shards if shard.node or shard.address))


T = TypeVar("T")
R = TypeVar("R")

TIMEOUT_S = 30.0  # of one call
# About 16 s in all: the lease of a crashed node expires after 10 s, and by then its shards are open elsewhere.
BACKOFF = Backoff(first_s=0.1, ceiling_s=5.0, attempts_max=9)
# Followed at once. Two nodes that name each other during a handoff must not be called in a tight loop: further hints
# wait like other retries.
HINTS_MAX = 2
BATCH_ITEMS_MAX = 1_000  # of one call: as many as a shard enqueues in one
BATCH_BYTES_MAX = 8 << 20  # far below gRPC's bound of 128 MiB: a node decodes several batches at a time
SENDS_MAX = 8  # batches of one call in progress

Send = Callable[[str, Sequence[tuple[T, ShardInfo]]], Awaitable[Sequence[R | ArgosyError]]]


class SharedRouting:
    """State shared by all callers of a client: the links and the newest map."""

    def __init__(self, links: NodeLinks, seeds: Sequence[str]) -> None:
        if not seeds:
            raise Invalid("a client needs the address of at least one node")
        self.links = links
        self.seeds = tuple(seeds)
        self.table: RoutingTable | None = None
        # One read of the map at a time, for all callers.
        self.reading = asyncio.Lock()


class ShardRouter:
    """Makes calls for one caller, whose headers it sends."""

    def __init__(
        self,
        shared: SharedRouting,
        *,
        clock: Clock,
        random: Random,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self.shared = shared
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

    async def table(self) -> RoutingTable:
        return self.shared.table or await self.refresh()

    async def refresh(self) -> RoutingTable:
        """A newer map; concurrent callers share one read."""
        # After a failure many callers come here at the same time. Those that waited for the lock find a new table.
        before = self.shared.table
        async with self.shared.reading:
            if self.shared.table is not None and self.shared.table is not before:
                return self.shared.table
            return await self.read()

    async def read(self) -> RoutingTable:
        """The map from the first node that answers this caller."""
        shared, failure = self.shared, Unavailable("no known node of the cluster")
        # Members first: the seeds may have been replaced long ago, but serve if all known members are gone.
        members = [member.address for member in shared.table.members] if shared.table else []
        for address in dict.fromkeys([*members, *shared.seeds]):
            try:
                response = await self.call(address, CLUSTER, silo.GetClusterInfoRequest())
            except Unavailable as error:
                failure = error
                continue
            shared.table = RoutingTable.read(response)
            return shared.table
        raise failure

    def call(self, address: str, call: RpcMethod, request: Any, *, timeout_s: float | None = None) -> Awaitable[Any]:
        """Calls one node, once."""
        link = self.shared.links.link(address)
        return link.call(call, request, timeout_s=timeout_s or self._timeout_s, headers=self._headers)

    async def call_shard(
        self,
        locate: Callable[[RoutingTable], ShardInfo],
        call: RpcMethod,
        request: Callable[[ShardInfo], Any],
        *,
        attempts_max: int | None = None,
    ) -> Any:
        """Calls the node that has the shard; retries while that may help."""
        failures, hints = 0, 0
        while True:
            shard: ShardInfo | None = None
            try:
                shard = locate(await self.table())
                return await self.call(shard.address, call, request(shard))
            except ArgosyError as error:
                if not is_retryable(error):
                    raise
                if self._follow_hint(shard, error) and (hints := hints + 1) <= HINTS_MAX:
                    continue
                failures += 1
                if failures >= (attempts_max or self._backoff.attempts_max):
                    raise
                await self._pause(failures, error)

    async def send_by_node(
        self,
        items: Sequence[T],
        tenant_of: Callable[[T], str],
        size_of: Callable[[T], int],
        send: "Send[T, R]",
        *,
        attempts_max: int | None = None,
    ) -> list[R | ArgosyError]:
        """Sends each node its items; items with a retryable error are sent again.

        One call a node and not one a shard: a gRPC call costs the server 0.3 to 0.5 ms, more than a job. Each attempt
        locates the items again, because a shard may have moved or have been split since.
        """
        # Retryable from the start, so that the loop treats unsent items like failed ones.
        answers: list[R | ArgosyError] = [Unavailable("not sent")] * len(items)
        waiting, failures, hints = list(range(len(items))), 0, 0
        while waiting:
            has_new_hint = await self._send_once(items, waiting, tenant_of, size_of, send, answers)
            waiting = [at for at in waiting if is_retryable(_error(answers[at]))]
            if not waiting or (has_new_hint and (hints := hints + 1) <= HINTS_MAX):
                continue
            failures += 1
            if failures >= (attempts_max or self._backoff.attempts_max):
                break
            await self._pause(failures, _error(answers[waiting[0]]))
        return answers

    async def _send_once(
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
            shards = await self.table()
            for_shard = [(at, shards.shard_of(tenant_of(items[at]))) for at in waiting]
        except Unavailable as error:
            # Every waiting item gets the reason; the next attempt may replace it.
            for at in waiting:
                answers[at] = error
            return False
        has_new_hint = False
        bound = asyncio.Semaphore(SENDS_MAX)

        async def one(batch: Sequence[tuple[int, ShardInfo]]) -> None:
            nonlocal has_new_hint
            async with bound:
                try:
                    response = await send(batch[0][1].address, [(items[at], shard) for at, shard in batch])
                except ArgosyError as error:
                    response = [error] * len(batch)
            for (at, shard), answer in zip(batch, response, strict=True):
                answers[at] = answer
                has_new_hint |= self._follow_hint(shard, _error(answer))

        await asyncio.gather(*(one(batch) for batch in _batches(for_shard, lambda at: size_of(items[at]))))
        return has_new_hint

    def _follow_hint(self, shard: ShardInfo | None, error: BaseException | None) -> bool:
        """Stores the address that a node has given for the shard; returns whether it is another than the one called."""
        if shard is None or not isinstance(error, NotOwner) or not error.hint or self.shared.table is None:
            return False
        self.shared.table = self.shared.table.with_address(shard.id, error.hint)
        return error.hint != shard.address

    async def _pause(self, failures: int, error: BaseException | None) -> None:
        # With jitter: the clients of a crashed node would otherwise return in step.
        wait_s = self._backoff.delay(failures, self.random)
        # The node's own time, but bounded: a caller has a timeout.
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
