"""An indexer in memory behind the port, for tests of the HTTP APIs; nothing is synced."""

from collections.abc import Mapping, Sequence

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from argosy.ipni.formats import privacy
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement
from argosy.ipni.model import Assignment, IndexerStatus, Peer, Provider, ProviderResult, StoreStats


class IndexerDouble:
    """Tests set and read the public fields."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.results: dict[bytes, tuple[ProviderResult, ...]] = {}
        self.known: dict[str, Provider] = {}
        self.announced: list[Announcement] = []
        self.registered: list[tuple[Peer, int]] = []
        self.statuses: dict[str, object] = {}
        self.indexed: set[Cid] = set()
        self.allow_list: dict[str, str] | None = {}
        self.preferred: list[str] = []
        self.forbidden: set[str] = set()
        self.running: list[str] = []
        self.counted: dict[str, tuple[int, float, int]] = {}
        self.calls: list[tuple[object, ...]] = []
        self.is_frozen = False
        self.can_freeze = True
        self.is_reachable = True
        self.size = StoreStats(0, 0, 0)

    async def announce(self, announce: Announcement) -> None:
        self._check(announce.publisher.id)
        self.announced.append(announce)

    async def register(self, peer: Peer, sequence: int) -> None:
        self.registered.append((peer, sequence))

    def sync_status(self, publisher: str | None = None) -> Mapping[str, object]:
        return {id: status for id, status in self.statuses.items() if publisher in (None, id)}

    async def is_indexed(self, ad: Cid) -> bool:
        return ad in self.indexed

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        return [self.results.get(each, ()) for each in multihashes]

    async def find_encrypted(self, second_hashes: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        by_second = {privacy.second_hash(each): each for each in self.results}
        return [self._encrypted(by_second.get(second)) for second in second_hashes]

    def _encrypted(self, multihash: bytes | None) -> tuple[bytes, ...]:
        if multihash is None:
            return ()
        keys = [privacy.value_key(each.provider.id, each.context) for each in self.results[multihash]]
        return tuple(privacy.encrypt_value_key(key, multihash) for key in keys)

    async def encrypted_metadata(self, value_key_hash: bytes) -> bytes | None:
        for each in (result for results in self.results.values() for result in results):
            key = privacy.value_key(each.provider.id, each.context)
            if privacy.value_key_hash(key) == value_key_hash:
                return privacy.encrypt_metadata(each.metadata, key)
        return None

    async def sample(self, provider: str, context: bytes, *, beacon: bytes, multihashes_max: int) -> list[bytes]:
        self.calls.append(("sample", provider, context, beacon, multihashes_max))
        of_context = [
            multihash
            for multihash, results in self.results.items()
            if any(each.provider.id == provider and each.context == context for each in results)
        ]
        return of_context[:multihashes_max]

    def providers(self) -> Sequence[Provider]:
        return list(self.known.values())

    def provider(self, id: str) -> Provider:
        if id not in self.known or self.known[id].is_inactive:
            raise NotFound("provider not found")
        return self.known[id]

    async def stats(self) -> StoreStats:
        return self.size

    async def check_health(self) -> None:
        if not self.is_reachable:
            raise Unavailable("the store does not answer")

    def status(self) -> IndexerStatus:
        return IndexerStatus(self.id, self.is_frozen, 12.5)

    async def freeze(self) -> None:
        if not self.can_freeze:
            raise Invalid("freezing disabled")
        self.is_frozen = True

    async def assign(self, publisher: str) -> None:
        self._assign(publisher, "")

    def _assign(self, publisher: str, continued: str) -> None:
        assigned = self._assigned()
        self._check(publisher)
        if self.is_frozen:
            raise Conflict("this indexer is frozen: assign the publisher to another")
        if publisher in assigned:
            raise Invalid("publisher already assigned")
        assigned[publisher] = continued

    async def unassign(self, publisher: str) -> None:
        if self._assigned().pop(publisher, None) is None:
            raise NotFound("peer was not assigned")

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        self._assign(publisher, frozen_id)
        self.calls.append(("handoff", publisher, frozen_id, frozen_url))

    def assignments(self) -> Sequence[Assignment]:
        return [Assignment(publisher, continued) for publisher, continued in self._assigned().items()]

    def _assigned(self) -> dict[str, str]:
        if self.allow_list is None:
            raise Unavailable("not configured to work with assigner service")
        return self.allow_list

    def preferred_publishers(self) -> Sequence[str]:
        self._assigned()
        return self.preferred

    def allow(self, peer: str) -> None:
        self.forbidden.discard(peer)

    def block(self, peer: str) -> None:
        self.forbidden.add(peer)

    def _check(self, peer: str) -> None:
        if peer in self.forbidden:
            raise Forbidden("announce requests not allowed from peer")

    async def sync(
        self, publisher: str, address: str | None = None, *, depth: int = 0, is_resync: bool = False
    ) -> None:
        if publisher in self.running:
            raise Conflict("already syncing with this publisher")
        self.running.append(publisher)
        self.calls.append(("sync", publisher, address, depth, is_resync))

    def syncs(self) -> Sequence[str]:
        return self.running

    async def remove_provider(self, id: str, *, is_blocked: bool = False) -> None:
        if self.known.pop(id, None) is None:
            raise NotFound("provider not found")
        if is_blocked:
            self.block(id)

    async def import_providers(self, url: str) -> int:
        if not self.is_reachable:
            raise Unavailable(f"{url} does not answer")
        self.calls.append(("import", url))
        return 0

    async def mark_processed(self, provider: str, ad: Cid) -> None:
        if provider not in self.known:
            raise NotFound("provider not found")
        self.indexed.add(ad)

    def telemetry(self) -> Mapping[str, tuple[int, float, int]]:
        counted, self.counted = self.counted, {}
        return counted

    async def reload(self) -> None:
        self.calls.append(("reload",))
