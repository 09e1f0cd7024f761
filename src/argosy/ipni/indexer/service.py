"""The indexer service: syncs chains, answers finds, and freezes when its disk is full.

    indexer = await IndexerService.open(store, sources, settings=settings, usage=DiskUsage([path]))
    task = asyncio.create_task(indexer.run())
    ...
    await indexer.close()

It implements `ports.IndexerApi`. Decisions are made by the pure modules beside it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from argosy.base import logs
from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.tasks import KeyedLock, run_until_first_ends
from argosy.ipni import keys
from argosy.ipni.formats.bases import from_base64
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.indexer import telemetry
from argosy.ipni.indexer.apply_ad import Applier
from argosy.ipni.indexer.assignments import Assignments, plan_handoff
from argosy.ipni.indexer.follower import AdMirror, Follower
from argosy.ipni.indexer.freeze import FreezeGate, Freezer, Usage, check_not_full, write_freeze, write_unfreeze
from argosy.ipni.indexer.ingest_state import (
    APPLIED,
    AdState,
    Change,
    SharedState,
    SyncState,
    cursor_row,
    pack,
    provider_row,
    unpack,
)
from argosy.ipni.indexer.maintenance import IndexerMaintenance
from argosy.ipni.indexer.policy import policy_of
from argosy.ipni.indexer.prefetch import EntriesPrefetcher
from argosy.ipni.indexer.resolver import Resolver, sample
from argosy.ipni.indexer.sync_service import SyncRequest, SyncService
from argosy.ipni.indexer.telemetry import IngestRates
from argosy.ipni.model import Assignment, IndexerStatus, Peer, Provider, StoreStats
from argosy.ipni.ports import IndexStore, PublisherSources
from argosy.ipni.settings import IndexerSettings


async def load_or_create_key(store: IndexStore) -> PrivateKey:
    """Loads the indexer's key from the store, creating it at the first start."""
    data = await store.read(keys.IDENTITY)
    if data is not None:
        return PrivateKey.from_protobuf(data)
    key = PrivateKey.generate()
    # Durable at once: assigners and handoffs name an indexer by this id, so it must not change after a crash.
    await store.write({keys.IDENTITY: key.to_protobuf()}, is_durable=True)
    return key


def parse_key(text: str, source: str) -> PrivateKey:
    try:
        return PrivateKey.from_protobuf(from_base64(text.strip()))
    except Invalid as error:
        raise Invalid(f"{source} does not contain a private key in base64: {error}") from None


AGE_S_MAX = 48 * 3600.0  # of a peer record, as in storetheindex: an old record could be replayed


def check_sequence(sequence: int, *, last: int, wall: float) -> None:
    """Checks a sequence, which is a time in nanoseconds since 1970."""
    # Both directions: a record from the future would make all honest later ones look old.
    age_s = abs(wall - sequence / 1e9)
    if age_s > AGE_S_MAX:
        raise Invalid(f"the record is {age_s:.0f} s from now: its sequence must be a time within {AGE_S_MAX:.0f} s")
    if sequence <= last:
        raise Invalid(f"the record's sequence {sequence} is not newer than {last}, the last accepted one")


log = logs.get("ipni.indexer")

ProvidersOf = Callable[[str], Awaitable[Sequence[Provider]]]  # of another indexer, by the URL of its find API


async def _no_client(url: str) -> Sequence[Provider]:
    raise Unavailable(f"{url} cannot be queried: this indexer has no client for other indexers")


class IndexerService:
    """An indexer; create it with `open`."""

    def __init__(
        self,
        store: IndexStore,
        sources: PublisherSources,
        *,
        settings: IndexerSettings,
        usage: Usage,
        providers_of: ProvidersOf = _no_client,
        mirror: AdMirror | None = None,
        reread: Callable[[], IndexerSettings] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        announcing: Collection[str] = (),
    ) -> None:
        shared = SharedState(
            store,
            settings,
            metrics or Metrics(),
            clock or SystemClock(),
            policy_of(settings),
            SyncState(store),
            KeyedLock(),
        )
        self._store = store
        self._settings = settings
        self._metrics = shared.metrics
        self._clock = shared.clock
        self._policy = shared.policy
        self._sync_state = shared.sync_state
        self._provider_table = shared.providers
        self._provider_locks = shared.provider_locks
        self._usage = usage
        self._providers_of = providers_of
        self._reread = reread
        self._id = ""
        self._assignments = Assignments(store)
        self._freezer = Freezer(settings.freeze_at_percent)
        # The gate asks the freezer at every write, the maintenance loop only now and then: a single large sync can fill
        # the disk between two ticks.
        self._gate = FreezeGate(lambda: self._freezer.is_over(usage.percent()), self._on_freeze)
        self._rates = IngestRates()
        self._resolver = Resolver(store, shared.providers, shared.policy)
        # `FindApi` goes straight to the resolver: a method that forwards would cost every find a call.
        self.find = self._resolver.find
        self.find_encrypted = self._resolver.find_encrypted
        self.encrypted_metadata = self._resolver.encrypted_metadata
        applier = Applier(shared, self._gate, EntriesPrefetcher(blocks_max=settings.entries_depth_max))
        follower = Follower(shared, applier, self._rates, is_frozen=lambda: self._gate.is_frozen, mirror=mirror)
        self._syncs = SyncService(shared, sources, follower, self._assignments, announcing=announcing)
        self._maintenance = IndexerMaintenance(
            shared,
            self._resolver,
            self._syncs,
            self._freezer,
            usage,
            freeze_if_full=self._gate.is_open,
            remove=self.remove_provider,
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
        providers_of: ProvidersOf = _no_client,
        mirror: AdMirror | None = None,
        reread: Callable[[], IndexerSettings] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        announcing: Collection[str] = (),
    ) -> "IndexerService":
        """Loads the stored state. Raises Conflict if it is to unfreeze and the disk is still too full.

        `announcing` names publishers that announce themselves at every start; see `ContactLog`.
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
        key = await asyncio.to_thread(_read_key, path) if path else await load_or_create_key(self._store)
        self._id = key.peer_id
        await self._sync_state.load()
        await self._assignments.load()
        async for _, data in self._store.scan(keys.PROVIDERS):
            self._provider_table.apply(unpack(data, Provider))
        # A freeze outlives the process: a restart must not resume storing on a disk that is still full (IPN-2).
        if await self._store.read(keys.FROZEN) is not None:
            if self._settings.unfreeze_on_start:
                check_not_full(self._freezer, self._usage.percent())
                await write_unfreeze(self._store, self._sync_state, self._provider_table)
                log.info("indexer unfroze", indexer=self._id)
            else:
                self._gate.is_frozen = self._freezer.is_frozen = True
                log.warning("indexer is frozen", indexer=self._id, notice=_frozen_notice(self._freezer.limit_percent))
        # Not while frozen: a frozen indexer accepts no assignments.
        if self._settings.use_assigner and self._settings.adopt_known and not self._gate.is_frozen:
            await self._assignments.adopt(self._indexed_publishers())

    async def run(self) -> None:
        """Resumes interrupted syncs and runs maintenance until this task is cancelled."""
        self._maintenance.resume()
        # Two loops, because a sweep runs every second and a round of maintenance every minute; if one ends, the indexer
        # ends.
        await run_until_first_ends(self._maintenance.run(), self._maintenance.sweep())

    async def close(self) -> None:
        """Cancels running syncs; the store stays open, because the caller owns it."""
        await self._syncs.close()

    async def wait_idle(self, publisher: str) -> None:
        """Returns when nothing runs or waits for the publisher."""
        await self._syncs.wait_idle(publisher)

    # -- ingest, public -----------------------------------------------------------------------------------------------

    async def announce(self, announce: Announcement) -> None:
        try:
            outcome = await self._syncs.announce(announce)
        except Forbidden:
            self._metrics.inc(telemetry.ANNOUNCES, outcome="forbidden")
            raise
        self._metrics.inc(telemetry.ANNOUNCES, outcome=outcome)

    async def register(self, peer: Peer, sequence: int) -> None:
        self._policy.check(peer.id)
        last = await self._store.read(keys.sequence(peer.id))
        check_sequence(sequence, last=int(last or b"0"), wall=self._clock.wall())
        # Addresses of a known provider change while frozen too: its entries are still found here and must lead
        # somewhere.
        known = self._provider_table.find(peer.id)
        if known is None and self._gate.is_frozen:
            raise Conflict(f"provider {peer.id} is new, and this indexer is frozen: register elsewhere")
        if not peer.addresses:
            raise Invalid(f"the record of {peer.id} has no address")
        provider = replace(known or Provider(peer.id), addresses=peer.addresses)
        # One batch: without its sequence the record could be replayed after a crash.
        await self._store.write({**provider_row(provider), keys.sequence(peer.id): str(sequence).encode()})
        self._provider_table.apply(provider)

    def sync_status(self, publisher: str | None = None) -> Mapping[str, object]:
        return self._syncs.statuses.to_json(self._clock.wall(), publisher)

    async def is_indexed(self, ad: Cid) -> bool:
        mark = await self._sync_state.ad_state(ad)
        # An advertisement applied while frozen has no entries here, so it does not count as indexed.
        return mark is not None and mark.state == APPLIED

    # -- find, public; `find` itself is the resolver's ----------------------------------------------------------------

    async def sample(self, provider: str, context: bytes, *, beacon: bytes, multihashes_max: int) -> list[bytes]:
        # Raises NotFound for a hidden or blocked provider, as a find does.
        self.provider(provider)
        return await sample(self._store, provider, context, beacon=beacon, count=multihashes_max)

    def providers(self) -> Sequence[Provider]:
        # Also providers of publishers that are not assigned here: a handoff reads them after an operator has unassigned
        # the publisher (decision 29).
        return [provider for provider in self._provider_table.all() if self._policy.is_allowed(provider.id)]

    def provider(self, id: str) -> Provider:
        provider = self._provider_table.get(id)
        if provider.is_inactive or not self._policy.is_allowed(id):
            raise NotFound(f"provider {id} not found")
        return provider

    async def stats(self) -> StoreStats:
        return await self._store.stats()

    # -- admin --------------------------------------------------------------------------------------------------------

    async def check_health(self) -> None:
        # A write and a read: a store whose disk is full or read-only still answers reads.
        await self._store.write({keys.PROBE: b"probe"})
        is_back = await self._store.read(keys.PROBE) == b"probe"
        await self._store.write({keys.PROBE: None})
        if not is_back:
            raise Unavailable("the store did not return what was just written; check its disk")

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
        self._check_assigner()
        await self._assignments.remove(publisher)
        await self._syncs.stop(publisher)

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        self._check_assignable(publisher)
        # Read from the frozen indexer itself: the assigner stores nothing that could be handed over.
        theirs = await self._providers_of(frozen_url)
        self._check_assignable(publisher)  # again: it may have been assigned, or the indexer frozen, in the meantime
        plan = plan_handoff(
            publisher, theirs, known=self._provider_table.find, cursor=self._sync_state.cursor(publisher)
        )
        if plan is None:
            log.info("nothing to hand off", publisher=publisher, frozen=frozen_id)
            return
        for provider in plan.providers:
            self._policy.check(publisher, provider.id)
        # One batch with the assignment: a crash leaves the publisher assigned with its resume point, or not at all.
        await self._assignments.add(publisher, frozen_id, plan.rows)
        self._sync_state.apply(plan.cursor)
        for provider in plan.providers:
            self._provider_table.apply(provider)
        if plan.cursor.publisher.addresses:
            self._syncs.submit(SyncRequest(plan.cursor.publisher))

    def assignments(self) -> Sequence[Assignment]:
        self._check_assigner()
        return self._assignments.all()

    def preferred_publishers(self) -> Sequence[str]:
        self._check_assigner()
        return [publisher for publisher in self._indexed_publishers() if publisher not in self._assignments]

    def allow(self, peer: str) -> None:
        self._policy.allow(peer)

    def block(self, peer: str) -> None:
        self._policy.block(peer)

    async def sync(
        self, publisher: str, address: str | None = None, *, depth: int = 0, is_resync: bool = False
    ) -> None:
        await self._syncs.sync(publisher, address, depth=depth, is_resync=is_resync)

    def syncs(self) -> Sequence[str]:
        return self._syncs.manual()

    async def remove_provider(self, id: str, *, is_blocked: bool = False) -> None:
        provider = self._provider_table.get(id)
        publisher = provider.publisher.id if provider.publisher is not None else ""
        if is_blocked:
            self._policy.block(id)
        await self._syncs.stop(publisher)
        async with self._provider_locks.hold(id):  # no other publisher's chain applies anything of it meanwhile
            cursors, rows = await self._sync_state.plan_removal(id, publisher)
            await self._store.remove_provider(id, {**rows, keys.provider(id): None, keys.sequence(id): None})
            for cursor in cursors:
                self._sync_state.apply(replace(self._sync_state.cursor(cursor.publisher.id), has_gaps=True))
                self._syncs.invalidate_head(cursor.last)
            self._provider_table.remove(id)
        self._syncs.contacts.remove(publisher)

    async def import_providers(self, url: str) -> int:
        if self._settings.use_assigner:
            raise Conflict("providers come from the assigner here: they cannot be imported")
        imported = 0
        for theirs in await self._providers_of(url):
            # What is known here is newer than another indexer's copy.
            if self._provider_table.find(theirs.id) is not None or not self._policy.is_allowed(theirs.id):
                continue
            provider = Provider(theirs.id, theirs.addresses, theirs.publisher, extended=theirs.extended)
            await self._store.write(provider_row(provider))
            self._provider_table.apply(provider)
            imported += 1
            if theirs.publisher is not None and theirs.publisher.addresses:
                cursor = await self._sync_state.set_wanted(theirs.publisher, None)
                self._syncs.poll(cursor.publisher)
        return imported

    async def mark_processed(self, provider: str, ad: Cid) -> None:
        publisher = self._provider_table.get(provider).publisher
        if publisher is None:
            raise NotFound(f"provider {provider} has no publisher and so no chain")
        cursor = replace(self._sync_state.cursor(publisher.id), last=ad)
        # The cursor ends later scans here, the mark answers `is_indexed`.
        rows: Change = {keys.mark(ad): pack(AdState(APPLIED, provider, publisher.id)), **cursor_row(cursor)}
        await self._store.write(rows, is_durable=True)
        self._sync_state.apply(cursor)

    def telemetry(self) -> Mapping[str, tuple[int, float, int]]:
        return self._rates.drain()

    async def reload(self) -> None:
        if self._reread is None:
            raise Unavailable("this indexer was started without a settings file")
        settings = self._reread()
        self._policy.change(settings)
        self._freezer.limit_percent = settings.freeze_at_percent

    # -- freezing -----------------------------------------------------------------------------------------------------

    async def _on_freeze(self) -> None:
        # Stored before the flag is set: an indexer that answers "frozen" has recorded where a successor resumes.
        await write_freeze(self._store, self._sync_state, self._provider_table, self._clock.wall())
        self._freezer.is_frozen = True
        self._metrics.set(telemetry.IS_FROZEN, 1)
        log.warning(
            "indexer froze",
            indexer=self._id,
            usage_percent=self._usage.percent(),
            notice=_frozen_notice(self._freezer.limit_percent),
        )

    # -- assignments --------------------------------------------------------------------------------------------------

    def _check_assigner(self) -> None:
        if not self._settings.use_assigner:
            raise Unavailable("not configured to work with assigner service: set ipni.use_assigner")

    def _check_assignable(self, publisher: str) -> None:
        self._check_assigner()
        self._policy.check(publisher)
        self._assignments.check_unassigned(publisher)
        if self._gate.is_frozen:
            raise Conflict(f"this indexer is frozen: assign publisher {publisher} to another")

    def _indexed_publishers(self) -> list[str]:
        """Publishers with applied advertisements that the policy allows."""
        known = [cursor.publisher.id for cursor in self._sync_state.cursors() if cursor.last is not None]
        return sorted(publisher for publisher in known if self._policy.is_allowed(publisher))


def _frozen_notice(limit_percent: float) -> str:
    return (
        f"the content index takes no new entries because its disk is more than {limit_percent:g} % full: free space "
        "and set ipni.unfreeze_on_start, or raise ipni.freeze_at_percent"
    )


def _read_key(path: str) -> PrivateKey:
    try:
        return parse_key(Path(path).read_text(encoding="ascii"), path)
    except (OSError, UnicodeError) as error:
        raise Invalid(f"the key in {path} cannot be read: {error}; fix or unset ipni.key_file") from None
