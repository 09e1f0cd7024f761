"""The etcd v3 client: the calls that ownership makes, each with a deadline, and a watch that resumes.

Our own client, because none of the published asyncio clients has leases, TLS and a watch without gaps
(docs/decisions/0007). The watch never loses an event, never repeats one, and never passes over a gap silently. Its
rules avoid the errors found in those clients:

- It resumes from the last *event's* revision. The header of a reply has the store's current revision, which is far
  ahead
  while the server catches up; a client that resumed from it lost 2001 of 3002 events.
- It advances only when a whole reply has been delivered, because the events of one transaction share a revision.
- When the history was compacted or the store replaced, it raises `HistoryLost` instead of waiting for a revision that
  has passed or never comes.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Self

from argosy.base.errors import NotFound, Unavailable
from argosy.base.retry import Backoff, RetryBudget
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.channel import CALL_DEADLINE_S, EtcdChannel
from argosy.ownership.backends.etcd_client.ops import prefix_end
from argosy.ownership.backends.etcd_client.url import EtcdUrl

# Far below gRPC's limit for one message, and few enough that a listing does not block the server.
PAGE_KEYS = 2000  # keys of one page of a listing: a few hundred kB


class EtcdClient:
    """One connection to one cluster."""

    def __init__(self, channel: EtcdChannel) -> None:
        self.channel = channel

    @classmethod
    async def open(cls, url: EtcdUrl, *, connect_timeout_s: float = CALL_DEADLINE_S) -> Self:
        """Connects and logs in, so that a wrong address or password fails here and not later.

        Raises `Unavailable` after a second if nothing listens there, else after `connect_timeout_s`.
        """
        channel = EtcdChannel(url)
        try:
            await channel.connect_first(connect_timeout_s)
            await channel.log_in()
        except BaseException:
            await channel.close()
            raise
        return cls(channel)

    async def close(self) -> None:
        await self.channel.close()

    # -- keys -------------------------------------------------------------------------------------------------------

    async def get(self, key: bytes) -> pb.KeyValue | None:
        reply = await self.channel.call("/etcdserverpb.KV/Range", pb.RangeRequest(key=key), pb.RangeResponse)
        return reply.kvs[0] if reply.kvs else None

    async def list(self, prefix: bytes) -> tuple[list[pb.KeyValue], int]:
        """All keys with a prefix at one revision, and that revision; read in pages, so of any size."""
        kvs: list[pb.KeyValue] = []
        request = pb.RangeRequest(key=prefix, range_end=prefix_end(prefix), limit=PAGE_KEYS)
        while True:
            reply = await self.channel.call("/etcdserverpb.KV/Range", request, pb.RangeResponse)
            kvs.extend(reply.kvs)
            # All pages are read at the revision of the first one, so the listing is of one instant.
            request.revision = request.revision or reply.header.revision
            if not reply.more:
                return kvs, request.revision
            request.key = reply.kvs[-1].key + b"\0"

    async def put(self, key: bytes, value: bytes, *, lease: int = 0) -> int:
        """Writes a key and returns the revision of the write."""
        request = pb.PutRequest(key=key, value=value, lease=lease)
        return (await self.channel.call("/etcdserverpb.KV/Put", request, pb.PutResponse)).header.revision

    async def delete(self, key: bytes) -> bool:
        request = pb.DeleteRangeRequest(key=key)
        reply = await self.channel.call("/etcdserverpb.KV/DeleteRange", request, pb.DeleteRangeResponse)
        return reply.deleted > 0

    async def txn(
        self,
        *,
        when: Sequence[pb.Compare] = (),
        then: Sequence[pb.RequestOp] = (),
        otherwise: Sequence[pb.RequestOp] = (),
    ) -> pb.TxnResponse:
        """One atomic step; without conditions it performs `then`."""
        request = pb.TxnRequest(compare=when, success=then, failure=otherwise)
        return await self.channel.call("/etcdserverpb.KV/Txn", request, pb.TxnResponse)

    # -- leases -----------------------------------------------------------------------------------------------------

    async def grant(self, ttl_s: int) -> int:
        """Creates a lease and returns its id. Its TTL may be longer than requested, never shorter."""
        request = pb.LeaseGrantRequest(TTL=ttl_s)
        return (await self.channel.call("/etcdserverpb.Lease/LeaseGrant", request, pb.LeaseGrantResponse)).ID

    async def revoke(self, lease: int) -> bool:
        """Ends a lease and deletes its keys, in one revision. Returns False if it had already ended."""
        request = pb.LeaseRevokeRequest(ID=lease)
        try:
            await self.channel.call("/etcdserverpb.Lease/LeaseRevoke", request, pb.LeaseRevokeResponse)
        # Ended already, which is what was wanted.
        except NotFound:
            return False
        return True

    async def keep_alive(self, lease: int) -> int:
        """Extends a lease by its TTL, which is returned; 0 if the lease has ended."""
        # etcd offers renewals only as a stream; one request on it is one renewal.
        stream = await self.channel.stream(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            pb.LeaseKeepAliveRequest(ID=lease),
            pb.LeaseKeepAliveResponse,
            is_endless=False,
        )
        try:
            return (await stream.read()).TTL
        finally:
            stream.cancel()

    async def time_to_live(self, lease: int) -> int:
        """The seconds a lease has left; -1 if it has ended."""
        request = pb.LeaseTimeToLiveRequest(ID=lease)
        reply = await self.channel.call("/etcdserverpb.Lease/LeaseTimeToLive", request, pb.LeaseTimeToLiveResponse)
        return reply.TTL

    # -- watching ---------------------------------------------------------------------------------------------------

    async def watch(self, prefix: bytes, start_revision: int) -> AsyncGenerator[pb.WatchResponse, None]:
        """One watch stream, beginning with its `created` reply; `follow` is the watch that resumes."""
        create = pb.WatchCreateRequest(key=prefix, range_end=prefix_end(prefix), start_revision=start_revision)
        request = pb.WatchRequest(create_request=create)
        stream = await self.channel.stream("/etcdserverpb.Watch/Watch", request, pb.WatchResponse, is_endless=True)
        try:
            while True:
                yield await stream.read()
        finally:
            stream.cancel()


# Long enough for a restart or an election: about 20 s if nothing answers at all, because each attempt has a deadline,
# too. After that the watch raises `Unavailable`, and its caller decides.
WATCH_BACKOFF = Backoff(first_s=0.05, ceiling_s=2.0, attempts_max=6)


class HistoryLost(Exception):
    """Events since the last delivered one are missing: list everything again. Never leaves the backend."""


async def follow(
    client: EtcdClient,
    prefix: bytes,
    *,
    after_revision: int,
    is_same_store: Callable[[], Awaitable[bool]],
    budget: RetryBudget,
) -> AsyncGenerator[Sequence[pb.Event], None]:
    """The events after a revision, one reply at a time, over as many streams as it takes."""
    # Only moved after a reply was delivered, so that a broken stream resumes exactly behind it.
    seen = after_revision
    while True:
        try:
            # Before every stream: a store that was replaced may have reached the same revision by now.
            if not await is_same_store():
                raise HistoryLost
            # Closed explicitly, here and below: until the garbage collector closes a generator, its stream stays open.
            async with aclosing(_one_stream(client, prefix, seen)) as replies:
                async for reply in replies:
                    budget.reset()
                    if reply.events:
                        yield reply.events
                        seen = reply.events[-1].kv.mod_revision
        except Unavailable as error:
            if client.channel.is_closed:
                raise
            client.channel.invalidate_token()  # a watch without a valid token is cancelled as "permission denied"
            await budget.spend(error)


async def _one_stream(client: EtcdClient, prefix: bytes, seen: int) -> AsyncGenerator[pb.WatchResponse, None]:
    async with aclosing(client.watch(prefix, seen + 1)) as replies:
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                first = await anext(replies)
        except TimeoutError as error:
            raise Unavailable(f"etcd watch: {client.channel.url} did not start within {CALL_DEADLINE_S:g} s") from error
        if first.header.revision < seen:
            raise HistoryLost  # the store is older than the last event: it was wiped, or restored from a backup
        yield _check_reply(first)
        async for reply in replies:
            yield _check_reply(reply)


def _check_reply(reply: pb.WatchResponse) -> pb.WatchResponse:
    assert not reply.fragment  # never requested: a part of a transaction would look like a whole one
    if reply.compact_revision:
        raise HistoryLost
    if reply.canceled:
        raise Unavailable(f"etcd watch: cancelled by the server: {reply.cancel_reason or 'no reason given'}")
    return reply
