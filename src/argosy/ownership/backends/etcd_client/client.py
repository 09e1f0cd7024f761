"""A thin etcd v3 client: the calls that ownership makes, each with a deadline, each failure an error by remedy."""

from collections.abc import AsyncGenerator, Sequence
from typing import Self

from argosy.base.errors import NotFound
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.channel import CALL_DEADLINE_S, Channel
from argosy.ownership.backends.etcd_client.ops import prefix_end
from argosy.ownership.backends.etcd_client.url import EtcdUrl

PAGE_KEYS = 2000  # keys of one page of a listing: a few hundred kB


class EtcdClient:
    """One connection to one cluster."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    @classmethod
    async def open(cls, url: EtcdUrl, *, connect_timeout_s: float = CALL_DEADLINE_S) -> Self:
        """Connects and logs in, so that a wrong address or password fails here and not later.

        Unavailable after a second if nothing listens there, else after `connect_timeout_s`.
        """
        channel = Channel(url)
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
        """All keys with a prefix as they stood at one revision, and that revision; read in pages, so of any size."""
        kvs: list[pb.KeyValue] = []
        request = pb.RangeRequest(key=prefix, range_end=prefix_end(prefix), limit=PAGE_KEYS)
        while True:
            reply = await self.channel.call("/etcdserverpb.KV/Range", request, pb.RangeResponse)
            kvs.extend(reply.kvs)
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
        """One atomic step; without conditions `then` is what is done."""
        request = pb.TxnRequest(compare=when, success=then, failure=otherwise)
        return await self.channel.call("/etcdserverpb.KV/Txn", request, pb.TxnResponse)

    # -- leases -----------------------------------------------------------------------------------------------------

    async def grant(self, ttl_s: int) -> int:
        """A new lease's id. etcd may give it a longer life than was asked for, never a shorter one."""
        request = pb.LeaseGrantRequest(TTL=ttl_s)
        return (await self.channel.call("/etcdserverpb.Lease/LeaseGrant", request, pb.LeaseGrantResponse)).ID

    async def revoke(self, lease: int) -> bool:
        """Ends a lease and deletes its keys, in one revision; False if it had ended before."""
        request = pb.LeaseRevokeRequest(ID=lease)
        try:
            await self.channel.call("/etcdserverpb.Lease/LeaseRevoke", request, pb.LeaseRevokeResponse)
        except NotFound:
            return False
        return True

    async def keep_alive(self, lease: int) -> int:
        """Extends a lease by its TTL, which is returned; 0 if the lease has ended."""
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
        """One watch stream, from its `created` reply on; see `watch` for one that survives trouble."""
        create = pb.WatchCreateRequest(key=prefix, range_end=prefix_end(prefix), start_revision=start_revision)
        request = pb.WatchRequest(create_request=create)
        stream = await self.channel.stream("/etcdserverpb.Watch/Watch", request, pb.WatchResponse, is_endless=True)
        try:
            while True:
                yield await stream.read()
        finally:
            stream.cancel()
