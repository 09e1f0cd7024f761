"""The shard map as a client knows it: which node has a tenant's jobs. Hints update it between two reads."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

from argosy.base.errors import NotFound, Unavailable
from argosy.base.hashing import hash64
from argosy.jobs.broker import ClusterMember, ShardInfo
from argosy.jobs.silo import silo_pb2 as silo


class ShardMap:
    """Immutable; `with_address` returns a copy."""

    def __init__(self, places: Iterable[ShardInfo], members: Iterable[ClusterMember]) -> None:
        self.shards = sorted(places, key=lambda place: place.range_start)
        self.members = tuple(members)
        self._starts = [place.range_start for place in self.shards]

    @classmethod
    def read(cls, response: silo.GetClusterInfoResponse) -> "ShardMap":
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

    def with_address(self, shard_id: str, address: str) -> "ShardMap":
        """A copy with the address that a node has given for the shard."""
        places = [replace(place, address=address) if place.id == shard_id else place for place in self.shards]
        return ShardMap(places, self.members)

    def addresses(self) -> list[str]:
        """Addresses of nodes that serve shards, each once."""
        return list(dict.fromkeys(place.address for place in self.shards if place.node or place.address))
