"""The indexer: hears of advertisements, reads and applies them, answers who has what, and freezes when it is full.

    indexer = await IndexerService.open(store, sources, settings=settings, usage=DiskUsage([folder]))
    task = asyncio.create_task(indexer.run())
    ...
    await indexer.close()

It implements `ports.Indexer`. What is decided is decided by the pure modules beside it; here it is done.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from argosy.base import logs
from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from argosy.base.keyed import KeyedLock
from argosy.base.metrics import Metrics
from argosy.base.tasks import run_until_first_ends
from argosy.ipni import keys
from argosy.ipni import metrics as counted
from argosy.ipni.formats.announce import Announcement
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.keys import PrivateKey
from argosy.ipni.indexer import freeze_state
from argosy.ipni.indexer import provider_table as rosters
from argosy.ipni.indexer import sync_state as ledgers
from argosy.ipni.indexer.apply_ad import Applier
from argosy.ipni.indexer.assignments import Assignments
from argosy.ipni.indexer.follower import AdMirror, Follower
from argosy.ipni.indexer.freeze_policy import Freezer, Usage
from argosy.ipni.indexer.handoff import takeover
from argosy.ipni.indexer.identity import kept_key, key_of
from argosy.ipni.indexer.maintenance import IndexerMaintenance
from argosy.ipni.indexer.policy import policy_of
from argosy.ipni.indexer.prefetch import EntriesPrefetcher
from argosy.ipni.indexer.progress import IngestRates
from argosy.ipni.indexer.provider_table import ProviderTable
from argosy.ipni.indexer.resolver import Resolver
from argosy.ipni.indexer.rows import APPLIED, AdState, pack, unpack
from argosy.ipni.indexer.sample import sample
from argosy.ipni.indexer.sequences import check_sequence
from argosy.ipni.indexer.sync_queue import FreezeGate, SyncRequest
from argosy.ipni.indexer.sync_service import SyncService
from argosy.ipni.indexer.sync_state import Change, SyncState
from argosy.ipni.model import Assignment, IndexerStatus, Peer, Provider, ProviderResult, StoreStats
from argosy.ipni.ports import IndexStore, PublisherSources
from argosy.ipni.settings import IndexerSettings

log = logs.get("ipni.indexer")

ProvidersOf = Callable[[str], Awaitable[Sequence[Provider]]]  # of another indexer, by the URL of its find API


async def _nobody(url: str) -> Sequence[Provider]:
    raise Unavailable(f"{url} cannot be asked: this indexer was started without a client for other indexers")


class IndexerService:
    """Made by `open`."""

    def __init__(
        self,
        store: IndexStore,
        sources: PublisherSources,
        *,
        settings: IndexerSettings,
        usage: Usage,
        providers_of: ProvidersOf = _nobody,
        mirror: AdMirror | None = None,
        reread: Callable[[], IndexerSettings] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        announcing: Collection[str] = (),
    ) -> None:
        self._store = store
        self._settings = settings
        self._usage = usage
        self._providers_of = providers_of
        self._reread = reread
        self._metrics = metrics or Metrics()
        self._clock = clock or SystemClock()
        self._id = ""
        self._policy = policy_of(settings)
        self._ledger = SyncState(store)
        self._roster = ProviderTable()
        self._assignments = Assignments(store)
        self._freezer = Freezer(settings.freeze_at_percent)
        self._gate = FreezeGate(lambda: self._freezer.is_over(usage.percent()), self._froze)
        self._telemetry = IngestRates()
        self._finder = Resolver(store, self._roster, self._policy)
        applier = Applier(
            store,
            self._roster,
            self._ledger,
            self._gate,
            EntriesPrefetcher(blocks_max=settings.entries_depth_max),
            wall=self._clock.wall,
        )
        self._turns: KeyedLock[str] = KeyedLock()
        follower = Follower(
            store,
            self._ledger,
            self._roster,
            applier,
            self._turns,
            policy=self._policy,
            settings=settings,
            telemetry=self._telemetry,
            metrics=self._metrics,
            clock=self._clock,
            is_frozen=lambda: self._gate.is_frozen,
            mirror=mirror,
        )
        self._syncing = SyncService(
            store,
            sources,
            follower,
            self._ledger,
            self._roster,
            self._assignments,
            policy=self._policy,
            settings=settings,
            metrics=self._metrics,
            clock=self._clock,
            announcing=announcing,
        )
        self._upkeep = IndexerMaintenance(
            store,
            self._ledger,
            self._roster,
            self._finder,
            self._syncing,
            self._turns,
            self._freezer,
            usage,
            freeze_if_full=self._gate.is_open,
            remove=self.remove_provider,
            settings=settings,
            metrics=self._metrics,
            clock=self._clock,
        )

    # -- life ---------------------------------------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        store: IndexStore,
        sources: PublisherSources,
        *,
        settings: IndexerSettings | None = None,
        usage: Usage,
        providers_of: ProvidersOf = _nobody,
        mirror: AdMirror | None = None,
        reread: Callable[[], IndexerSettings] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        announcing: Collection[str] = (),
    ) -> "IndexerService":
        """Reads where it stood. Conflict if it shall unfreeze and the disk is still too full.

        `announcing` names publishers that announce themselves at every start; see `Contacts`.
        """
        indexer = cls(
            store,
            sources,
            settings=settings or IndexerSettings(),
            usage=usage,
            providers_of=providers_of,
            mirror=mirror,
            reread=reread,
            metrics=metrics,
            clock=clock,
            announcing=announcing,
        )
        await indexer._load()
        return indexer

    async def _load(self) -> None:
        path = self._settings.key_file
        key = await asyncio.to_thread(_key_in, path) if path else await kept_key(self._store)
        self._id = key.peer_id
        await self._ledger.load()
        await self._assignments.load()
        async for _, data in self._store.scan(keys.PROVIDERS):
            self._roster.take(unpack(data, Provider))
        if await self._store.read(keys.FROZEN) is not None:
            if self._settings.unfreeze_on_start:
                freeze_state.refuse_if_full(self._freezer, self._usage.percent())
                await freeze_state.thaw(self._store, self._ledger, self._roster)
                log.info("indexer unfroze", indexer=self._id)
            else:
                self._gate.is_frozen = self._freezer.is_frozen = True
                log.warning("indexer is frozen", indexer=self._id, notice=_frozen_notice(self._freezer.limit_percent))
        if self._settings.use_assigner and self._settings.adopt_known and not self._gate.is_frozen:
            await self._assignments.adopt(self._known_publishers())

    async def run(self) -> None:
        """Goes on where it was interrupted, and keeps house, until this task is cancelled."""
        self._upkeep.resume()
        await run_until_first_ends(self._upkeep.tick(), self._upkeep.sweep())

    async def close(self) -> None:
        """Breaks off what is under way; the store stays open, for it was given."""
        await self._syncing.close()

    async def idle(self, publisher: str) -> None:
        """Returns when nothing runs or waits for the publisher."""
        await self._syncing.idle(publisher)

    # -- ingest, public -----------------------------------------------------------------------------------------------

    async def announce(self, announce: Announcement) -> None:
        try:
            outcome = await self._syncing.announce(announce)
        except Forbidden:
            self._metrics.inc(counted.ANNOUNCES, outcome="refused")
            raise
        self._metrics.inc(counted.ANNOUNCES, outcome=outcome)

    async def register(self, peer: Peer, sequence: int) -> None:
        self._policy.check(peer.id)
        last = await self._store.read(keys.sequence(peer.id))
        check_sequence(sequence, last=int(last or b"0"), wall=self._clock.wall())
        known = self._roster.known(peer.id)
        if known is None and self._gate.is_frozen:
            raise Conflict(f"provider {peer.id} is new, and this indexer is frozen: register elsewhere")
        if not peer.addresses:
            raise Invalid(f"the record of {peer.id} has no address")
        provider = replace(known or Provider(peer.id), addresses=peer.addresses)
        await self._store.write({**rosters.row(provider), keys.sequence(peer.id): str(sequence).encode()})
        self._roster.take(provider)

    def sync_status(self, publisher: str | None = None) -> Mapping[str, object]:
        return self._syncing.statuses.shown(self._clock.wall(), publisher)

    async def is_indexed(self, ad: Cid) -> bool:
        mark = await self._ledger.mark(ad)
        return mark is not None and mark.state == APPLIED

    # -- find, public -------------------------------------------------------------------------------------------------

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        return await self._finder.find(multihashes)

    async def find_encrypted(self, second_hashes: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        return await self._finder.find_encrypted(second_hashes)

    async def encrypted_metadata(self, value_key_hash: bytes) -> bytes | None:
        return await self._finder.encrypted_metadata(value_key_hash)

    async def sample(self, provider: str, context: bytes, *, beacon: bytes, multihashes_max: int) -> list[bytes]:
        self.provider(provider)
        return await sample(self._store, provider, context, beacon=beacon, count=multihashes_max)

    def providers(self) -> Sequence[Provider]:
        return [provider for provider in self._roster.all() if self._policy.is_allowed(provider.id)]

    def provider(self, id: str) -> Provider:
        provider = self._roster.get(id)
        if provider.is_inactive or not self._policy.is_allowed(id):
            raise NotFound(f"provider {id} is not shown here")
        return provider

    async def figures(self) -> StoreStats:
        return await self._store.figures()

    # -- admin --------------------------------------------------------------------------------------------------------

    async def check_health(self) -> None:
        await self._store.write({keys.PROBE: b"probe"})
        is_back = await self._store.read(keys.PROBE) == b"probe"
        await self._store.write({keys.PROBE: None})
        if not is_back:
            raise Unavailable("the store did not give back what was just written: look at its disk")

    def status(self) -> IndexerStatus:
        return IndexerStatus(self._id, self._gate.is_frozen, self._usage.percent())

    async def freeze(self) -> None:
        if not self._freezer.is_on:
            raise Invalid("freezing disabled: ipni.freeze_at_percent is negative")
        await self._gate.freeze()

    async def assign(self, publisher: str) -> None:
        self._check_assignable(publisher)
        await self._assignments.add(publisher)

    async def unassign(self, publisher: str) -> None:
        self._need_assigner()
        await self._assignments.remove(publisher)
        await self._syncing.stop(publisher)

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        self._check_assignable(publisher)
        theirs = await self._providers_of(frozen_url)
        self._check_assignable(publisher)  # time has passed: it may have been assigned, or all frozen
        taken = takeover(publisher, theirs, known=self._roster.known, course=self._ledger.course(publisher))
        if taken is None:
            log.info("nothing to hand off", publisher=publisher, frozen=frozen_id)
            return
        for provider in taken.providers:
            self._policy.check(publisher, provider.id)
        await self._assignments.add(publisher, frozen_id, taken.rows)
        self._ledger.take(taken.course)
        for provider in taken.providers:
            self._roster.take(provider)
        if taken.course.publisher.addresses:
            self._syncing.ask(SyncRequest(taken.course.publisher))

    def assigned(self) -> Sequence[Assignment]:
        self._need_assigner()
        return self._assignments.all()

    def preferred(self) -> Sequence[str]:
        self._need_assigner()
        return [publisher for publisher in self._known_publishers() if publisher not in self._assignments]

    def allow(self, peer: str) -> None:
        self._policy.allow(peer)

    def block(self, peer: str) -> None:
        self._policy.block(peer)

    async def sync(
        self, publisher: str, address: str | None = None, *, depth: int = 0, is_resync: bool = False
    ) -> None:
        await self._syncing.sync(publisher, address, depth=depth, is_resync=is_resync)

    def syncs(self) -> Sequence[str]:
        return self._syncing.manual()

    async def remove_provider(self, id: str, *, is_blocked: bool = False) -> None:
        provider = self._roster.get(id)
        publisher = provider.publisher.id if provider.publisher is not None else ""
        if is_blocked:
            self._policy.block(id)
        await self._syncing.stop(publisher)
        async with self._turns.hold(id):  # nothing of it is applied meanwhile, by no chain
            courses, rows = await self._ledger.forget_provider(id, publisher)
            await self._store.remove_provider(id, {**rows, keys.provider(id): None, keys.sequence(id): None})
            for course in courses:
                self._ledger.take(replace(self._ledger.course(course.publisher.id), has_gaps=True))
                self._syncing.forget(course.last)
            self._roster.forget(id)
        self._syncing.contacts.forget(publisher)

    async def import_providers(self, url: str) -> int:
        if self._settings.use_assigner:
            raise Conflict("providers come from the assigner here: they cannot be imported")
        imported = 0
        for theirs in await self._providers_of(url):
            if self._roster.known(theirs.id) is not None or not self._policy.is_allowed(theirs.id):
                continue
            provider = Provider(theirs.id, theirs.addresses, theirs.publisher, extended=theirs.extended)
            await self._store.write(rosters.row(provider))
            self._roster.take(provider)
            imported += 1
            if theirs.publisher is not None and theirs.publisher.addresses:
                course = await self._ledger.want(theirs.publisher, None)
                self._syncing.poll(course.publisher)
        return imported

    async def mark_processed(self, provider: str, ad: Cid) -> None:
        publisher = self._roster.get(provider).publisher
        if publisher is None:
            raise NotFound(f"provider {provider} has no publisher: it has no chain to be marked")
        course = replace(self._ledger.course(publisher.id), last=ad)
        rows: Change = {keys.mark(ad): pack(AdState(APPLIED, provider, publisher.id)), **ledgers.row(course)}
        await self._store.write(rows, is_durable=True)
        self._ledger.take(course)

    def telemetry(self) -> Mapping[str, tuple[int, float, int]]:
        return self._telemetry.taken()

    async def reload(self) -> None:
        if self._reread is None:
            raise Unavailable("this indexer was started without settings that could be read again")
        settings = self._reread()
        self._policy.change(settings)
        self._freezer.limit_percent = settings.freeze_at_percent

    # -- freezing -----------------------------------------------------------------------------------------------------

    async def _froze(self) -> None:
        await freeze_state.freeze(self._store, self._ledger, self._roster, self._clock.wall())
        self._freezer.is_frozen = True
        self._metrics.set(counted.IS_FROZEN, 1)
        log.warning(
            "indexer froze",
            indexer=self._id,
            usage_percent=self._usage.percent(),
            notice=_frozen_notice(self._freezer.limit_percent),
        )

    # -- assignments --------------------------------------------------------------------------------------------------

    def _need_assigner(self) -> None:
        if not self._settings.use_assigner:
            raise Unavailable("not configured to work with assigner service: set ipni.use_assigner")

    def _check_assignable(self, publisher: str) -> None:
        self._need_assigner()
        self._policy.check(publisher)
        self._assignments.refuse_if_assigned(publisher)
        if self._gate.is_frozen:
            raise Conflict(f"this indexer is frozen: assign publisher {publisher} to another")

    def _known_publishers(self) -> list[str]:
        """Those of which something has been indexed here, as far as policy still allows them."""
        known = [course.publisher.id for course in self._ledger.courses() if course.last is not None]
        return sorted(publisher for publisher in known if self._policy.is_allowed(publisher))


def _frozen_notice(limit_percent: float) -> str:
    return (
        f"the content index takes no new entries because its disk is more than {limit_percent:g} % full: free space "
        "and set ipni.unfreeze_on_start, or raise ipni.freeze_at_percent"
    )


def _key_in(path: str) -> PrivateKey:
    try:
        return key_of(Path(path).read_text(encoding="ascii"), path)
    except (OSError, UnicodeError) as wrong:
        raise Invalid(f"the key in {path} cannot be read: {wrong}; mend ipni.key_file or leave it out") from None
