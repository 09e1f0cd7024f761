"""What a store that lost its memory may do: wait before it grants.

etcd forgets nothing it acknowledged, but it can be wiped while nodes still serve what they held. `meta` is the proof of
memory. Whoever finds it missing writes it anew together with `grace`, which stands for as long as a forgotten lease
could; and every grant is made on condition that `meta` is the one known and `grace` is gone (OWN-1).

An old backup brings its `meta` back and cannot be told from memory: who restores one deletes `meta` before nodes come.
"""

import math

from argosy.base.clock import Clock
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import found, get, is_absent, is_value, put
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_records import MetaValue, decode, encode

# etcd names whole seconds that are left and looks for ended leases twice a second.
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
        """Learns the store's base, or gives it one and starts the grace."""
        meta = await self._client.get(self._keys.meta)
        self._adopt(meta if meta is not None else await self._create())

    async def wait_s(self, grace: pb.KeyValue) -> float:
        """How much longer the grace stands, rather a little too long than too short."""
        left_s = await self._client.time_to_live(grace.lease)
        return max(0, left_s) + _EXPIRY_SLACK_S

    async def _create(self) -> pb.KeyValue:
        """Any number of nodes may come at once: the first one's base and grace are everybody's."""
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
        theirs = found(reply.responses[0])
        assert theirs is not None  # the transaction failed because it is there
        return theirs

    def _adopt(self, meta: pb.KeyValue) -> None:
        self._meta = meta.value
        self.base = decode(meta, MetaValue).base
