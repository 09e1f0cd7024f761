"""Grace period of an etcd store that may have lost leases.

etcd loses nothing that it has acknowledged, but it can be wiped while nodes still serve. The key `meta` proves that the
store still has its data. A node that finds it missing writes it together with `grace`, a key that exists for as long as
a lost lease could be in use. Every grant requires that `meta` is the known one and `grace` is absent (OWN-1).

A restored backup contains its old `meta` and cannot be recognized: delete `meta` before nodes connect to it.
"""

import math

from argosy.base.clock import Clock
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import first_kv, get, is_absent, is_value, put
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_records import MetaValue, decode, encode

# etcd reports whole seconds and expires leases twice a second.
_EXPIRY_SLACK_S = 0.5


class Grace:
    """The conditions of every grant in one space."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, clock: Clock, grace_s: float) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._grace_s = grace_s
        self._meta = b""
        self.base = 0

    def knows_store(self) -> pb.Compare:
        return is_value(self._keys.meta, self._meta)

    def conditions(self) -> list[pb.Compare]:
        return [self.knows_store(), is_absent(self._keys.grace)]

    def is_known(self, meta: pb.KeyValue | None) -> bool:
        return meta is not None and meta.value == self._meta

    async def begin(self) -> None:
        """Reads the store's epoch base, or writes one and starts the grace period."""
        meta = await self._client.get(self._keys.meta)
        self._adopt(meta if meta is not None else await self._create())

    async def wait_s(self, grace: pb.KeyValue) -> float:
        """Remaining grace period, rounded up."""
        left_s = await self._client.time_to_live(grace.lease)
        return max(0, left_s) + _EXPIRY_SLACK_S

    async def _create(self) -> pb.KeyValue:
        """Several nodes may do this at once; all use the base and grace of the first one."""
        meta = pb.KeyValue(key=self._keys.meta, value=encode(MetaValue(base=int(self._clock.wall() * 1e6))))
        writes = [put(meta.key, meta.value)]
        lease = 0
        if self._grace_s > 0:
            lease = await self._client.grant(math.ceil(self._grace_s))
            writes.append(put(self._keys.grace, b"", lease=lease))
        reply = await self._client.txn(when=[is_absent(meta.key)], then=writes, otherwise=[get(meta.key)])
        if reply.succeeded:
            return meta
        if lease:
            await self._client.revoke(lease)
        theirs = first_kv(reply.responses[0])
        assert theirs is not None  # the transaction failed because it is there
        return theirs

    def _adopt(self, meta: pb.KeyValue) -> None:
        self._meta = meta.value
        self.base = decode(meta, MetaValue).base
