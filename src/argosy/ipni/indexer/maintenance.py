"""Background maintenance of an indexer: resumes syncs, polls, hides and removes providers, frees space."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from argosy.base import logs
from argosy.base.errors import ArgosyError, NotFound
from argosy.ipni import metrics as counted
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.contact_log import ContactLog
from argosy.ipni.indexer.freeze import Freeze, Freezer, Usage, UsageRead
from argosy.ipni.indexer.progress import PublisherStatuses
from argosy.ipni.indexer.provider_table import ProviderTable
from argosy.ipni.indexer.resolver import Resolver
from argosy.ipni.indexer.shared_state import SharedState
from argosy.ipni.model import Peer, Provider

log = logs.get("ipni.indexer")


class SyncPort(Protocol):
    """The sync service as maintenance uses it."""

    contacts: ContactLog
    statuses: PublisherStatuses

    def running(self) -> int: ...
    def is_accepted(self, publisher: str) -> bool: ...
    def poll(self, publisher: Peer, head: Cid | None = None) -> None: ...
    async def set_inactive(self, provider: Provider, is_inactive: bool) -> None: ...


class IndexerMaintenance:
    def __init__(
        self,
        shared: SharedState,
        resolver: Resolver,
        syncs: SyncPort,
        freezer: Freezer,
        usage: Usage,
        *,
        freeze_if_full: Callable[[], Awaitable[bool]],
        remove: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = shared.store
        self._sync_state = shared.sync_state
        self._provider_table = shared.providers
        self._provider_locks = shared.provider_locks
        self._settings = shared.settings
        self._metrics = shared.metrics
        self._clock = shared.clock
        self._resolver = resolver
        self._syncs = syncs
        self._freezer = freezer
        self._usage = usage
        self._freeze_if_full = freeze_if_full
        self._remove = remove
        self._resumed = 0

    def resume(self, limit: int | None = None) -> None:
        """Resumes chains whose requested head has not been reached, least recently tried first."""
        contacts = self._syncs.contacts
        cursors = [cursor for cursor in self._sync_state.cursors() if cursor.wanted is not None]
        due = [cursor for cursor in cursors if contacts.may_poll(cursor.publisher.id)]
        first = self._resumed % len(due) if due else 0
        chosen = (due[first:] + due[:first])[:limit]
        self._resumed += len(chosen)
        for cursor in chosen:
            if cursor.publisher.addresses and self._syncs.is_accepted(cursor.publisher.id):
                self._syncs.poll(cursor.publisher, cursor.wanted)

    async def run(self) -> None:
        while True:
            await self.run_once()
            await self._clock.sleep(self._settings.tick_s)

    async def run_once(self) -> None:
        """Runs one round; an error of the store is logged, and the next round tries again."""
        try:
            await self._watch_usage()
            self.resume(self._polls_max())
            await self._poll()
            await self._measure()
        except ArgosyError as error:
            log.warning("maintenance failed", error=str(error))

    async def sweep(self) -> None:
        while True:
            try:
                await self._drop_orphans()
                freed = await self._store.sweep(self._settings.sweep_entries)
                if freed:
                    self._metrics.inc(counted.SWEPT, freed)
            except ArgosyError as error:
                log.warning("sweep failed", error=str(error))
            await self._clock.sleep(self._settings.sweep_s)

    def _polls_max(self) -> int:
        return max(1, self._settings.workers_max // 2)

    async def _watch_usage(self) -> None:
        percent = self._usage.percent()
        self._metrics.set(counted.USAGE_PERCENT, percent)
        freezer, now = self._freezer, self._clock.now()
        self._metrics.set(counted.IS_FROZEN, int(freezer.is_frozen))
        if now < (freezer.deadline() or 0.0) and not freezer.is_over(percent):
            return
        for effect in freezer.handle(UsageRead(percent), now):
            if isinstance(effect, Freeze):
                await self._freeze_if_full()
            else:
                tell = log.info if effect.level == "ok" else log.warning
                shown = round(percent, 1)
                tell("disk usage", level_of_usage=effect.level, percent=shown, freeze_at=freezer.limit_percent)

    async def _poll(self) -> None:
        syncs, now = self._syncs, self._clock.now()
        known = [each for each in self._provider_table.all() if each.publisher and syncs.is_accepted(each.publisher.id)]
        findings = syncs.contacts.plan_polls(known, self._settings, now, polls_max=self._polls_max())
        for publisher in findings.polls:
            syncs.contacts.on_poll(publisher, now)
            syncs.poll(_publisher(self._provider_table, publisher))
        for id in findings.deactivations:
            await syncs.set_inactive(self._provider_table.get(id), True)
            log.info("provider deactivated: no contact", provider=id)
        for id in findings.removals:
            await self._remove(id)
            log.info("provider removed: no contact", provider=id)

    async def _measure(self) -> None:
        stats = await self._store.stats()
        self._metrics.set(counted.ENTRIES, stats.entries)
        self._metrics.set(counted.DISK_BYTES, stats.disk_bytes)
        self._metrics.set(counted.PROVIDERS, len(self._provider_table))
        self._metrics.set(counted.ADS_LEFT, self._syncs.statuses.distance())
        self._metrics.set(counted.SYNCS_RUNNING, self._syncs.running())

    async def _drop_orphans(self) -> None:
        """Removes contexts that finds encountered and whose provider is unknown, unless it has become known since."""
        while self._resolver.orphans:
            provider, context = next(iter(self._resolver.orphans))
            del self._resolver.orphans[provider, context]
            async with self._provider_locks.hold(provider):
                if self._provider_table.find(provider) is None:
                    await self._store.remove_context(provider, context)


def _publisher(provider_table: ProviderTable, id: str) -> Peer:
    for provider in provider_table.of_publisher(id):
        if provider.publisher is not None and provider.publisher.addresses:
            return provider.publisher
    raise NotFound(f"no address of publisher {id} is known")
