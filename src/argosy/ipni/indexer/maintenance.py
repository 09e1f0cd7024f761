"""Background maintenance of an indexer: resumes syncs, polls, hides and removes providers, frees space.

Announcements are hints and may be lost, so publishers without contact are polled. A provider whose publisher stays
silent is hidden from finds, later removed; the contact log decides when.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Protocol

from argosy.base import logs
from argosy.base.errors import ArgosyError, NotFound
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer import telemetry
from argosy.ipni.indexer.freeze import Freeze, Freezer, Usage, UsageRead
from argosy.ipni.indexer.ingest_state import ProviderTable, SharedState
from argosy.ipni.indexer.resolver import Resolver
from argosy.ipni.indexer.telemetry import PublisherStatuses
from argosy.ipni.model import Peer, Provider
from argosy.ipni.settings import IndexerSettings


@dataclass
class PollPlan:
    """What is due: publishers to poll, providers to hide and providers to remove."""

    polls: list[str] = field(default_factory=list)  # publishers
    deactivations: list[str] = field(default_factory=list)  # providers
    removals: list[str] = field(default_factory=list)  # providers


class ContactLog:
    """Last contact with, and last poll of, each publisher. It is in memory only: after an outage of its own, an
    indexer must not treat everyone as silent.

    `announcing` are publishers that announce themselves at every start, such as those that start together with this
    indexer. Their address may differ from that of the previous run, so they are not polled before their first
    announcement.
    """

    def __init__(self, started_at: float, announcing: Collection[str] = ()) -> None:
        self._started_at = started_at
        self._announcing = frozenset(announcing)
        self._contacted_at: dict[str, float] = {}
        self._polled_at: dict[str, float] = {}

    def on_contact(self, publisher: str, now: float) -> None:
        self._contacted_at[publisher] = now
        self._polled_at.pop(publisher, None)

    def on_poll(self, publisher: str, now: float) -> None:
        self._polled_at[publisher] = now

    def remove(self, publisher: str) -> None:
        self._contacted_at.pop(publisher, None)
        self._polled_at.pop(publisher, None)

    def may_poll(self, publisher: str) -> bool:
        """Whether the stored address of the publisher is current."""
        return publisher in self._contacted_at or publisher not in self._announcing

    def plan_polls(
        self, providers: Iterable[Provider], settings: IndexerSettings, now: float, *, polls_max: int
    ) -> PollPlan:
        """Returns what is due. A provider with an error is polled every time, because its publisher may have fixed it.

        Publishers without contact for longest come first, so that many errors do not keep silent ones from being
        polled.
        """
        plan = PollPlan()
        wanted: dict[str, float] = {}
        for provider in providers:
            if provider.publisher is None:
                continue
            publisher = provider.publisher.id
            # Counted from the start of this process at the earliest, for the reason in the class comment.
            silence_s = now - self._contacted_at.get(publisher, self._started_at)
            # No poll as well: it would be fetched again at once.
            if silence_s >= settings.remove_after_s:
                plan.removals.append(provider.id)
                continue
            if silence_s >= settings.deactivate_after_s and not provider.is_inactive:
                plan.deactivations.append(provider.id)
            is_due = silence_s >= settings.poll_after_s and (
                publisher not in self._polled_at or now - self._polled_at[publisher] >= settings.poll_retry_s
            )
            # Announcements made while this indexer was down were missed: each publisher is polled once after a start.
            is_due = is_due or (publisher not in self._contacted_at and publisher not in self._polled_at)
            if (is_due or provider.last_error) and provider.publisher.addresses and self.may_poll(publisher):
                wanted[publisher] = self._contact(publisher)
        # A bounded number per round: after a long outage thousands are due at the same time.
        plan.polls = nsmallest(polls_max, wanted, key=wanted.__getitem__)
        return plan

    def _contact(self, publisher: str) -> float:
        """Time of the last contact or poll."""
        return max(
            self._contacted_at.get(publisher, self._started_at), self._polled_at.get(publisher, self._started_at)
        )


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
    """Runs two loops: `run` for what is due by time, `sweep` for freeing space."""

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
        """Resumes chains whose requested head has not been reached."""
        # Rotates through them, so that chains which always fail do not keep the others from being tried.
        contacts = self._syncs.contacts
        cursors = [cursor for cursor in self._sync_state.cursors() if cursor.wanted is not None]
        due = [cursor for cursor in cursors if contacts.may_poll(cursor.publisher.id)]
        first = self._resumed % len(due) if due else 0
        selected = (due[first:] + due[:first])[:limit]
        self._resumed += len(selected)
        for cursor in selected:
            # Assignments and policy may have changed since the head was requested.
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
                # Before the sweep, so that what they occupied is freed in the same round.
                await self._drop_orphans()
                freed = await self._store.sweep(self._settings.sweep_entries)
                if freed:
                    self._metrics.inc(telemetry.SWEPT, freed)
            except ArgosyError as error:
                log.warning("sweep failed", error=str(error))
            await self._clock.sleep(self._settings.sweep_s)

    def _polls_max(self) -> int:
        return max(1, self._settings.workers_max // 2)  # the other half is left to announcements

    async def _watch_usage(self) -> None:
        percent = self._usage.percent()
        self._metrics.set(telemetry.USAGE_PERCENT, percent)
        freezer, now = self._freezer, self._clock.now()
        self._metrics.set(telemetry.IS_FROZEN, int(freezer.is_frozen))
        # A full disk is acted on at once; the deadline only spaces out the reports.
        if now < (freezer.deadline() or 0.0) and not freezer.is_over(percent):
            return
        for effect in freezer.handle(UsageRead(percent), now):
            if isinstance(effect, Freeze):
                await self._freeze_if_full()
            else:
                write = log.info if effect.level == "ok" else log.warning
                usage = round(percent, 1)
                write("disk usage", level_of_usage=effect.level, percent=usage, freeze_at=freezer.limit_percent)

    async def _poll(self) -> None:
        syncs, now = self._syncs, self._clock.now()
        known = [each for each in self._provider_table.all() if each.publisher and syncs.is_accepted(each.publisher.id)]
        plan = syncs.contacts.plan_polls(known, self._settings, now, polls_max=self._polls_max())
        for publisher in plan.polls:
            # Recorded before the outcome is known: a publisher that never answers is tried again only after the retry
            # interval.
            syncs.contacts.on_poll(publisher, now)
            syncs.poll(_publisher(self._provider_table, publisher))
        for id in plan.deactivations:
            await syncs.set_inactive(self._provider_table.get(id), True)
            log.info("provider deactivated: no contact", provider=id)
        for id in plan.removals:
            await self._remove(id)
            log.info("provider removed: no contact", provider=id)

    async def _measure(self) -> None:
        stats = await self._store.stats()
        self._metrics.set(telemetry.ENTRIES, stats.entries)
        self._metrics.set(telemetry.DISK_BYTES, stats.disk_bytes)
        self._metrics.set(telemetry.PROVIDERS, len(self._provider_table))
        self._metrics.set(telemetry.ADS_LEFT, self._syncs.statuses.distance())
        self._metrics.set(telemetry.SYNCS_RUNNING, self._syncs.running())

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
