"""The assigner service: receives announcements, sends requests to indexers, and polls them to correct its state.

Every publisher is handled on its own, so a slow indexer delays only its own publishers. Nothing is stored: at start
and at every poll all indexers are queried. An announcement that found too few indexers is remembered in memory and
retried at each poll, as are pending handoffs. So is each publisher's newest announcement, for the case that a frozen
indexer turns out to have nothing of it.

An indexer that leaves the pool takes its assignments with it. Its publishers are assigned again at their next
announcement, as the design document says: only an announcement names the publisher's address.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace

from argosy.base.cache import Cache
from argosy.base.clock import Clock, Random
from argosy.base.errors import ArgosyError, Forbidden, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.tasks import KeyedLock, KeyedWorkQueue
from argosy.ipni.assigner.configuration import Configuration
from argosy.ipni.assigner.pool_member import OpenDestination, OpenIndexer, Outbox, PoolMember
from argosy.ipni.assigner.pool_state import AssignmentStep, PoolState
from argosy.ipni.assigner.telemetry import AssignerTelemetry
from argosy.ipni.formats import multiaddr
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement
from argosy.ipni.indexer_client import OutcomeUnknown

HEADS_REMEMBERED_MAX = 64  # as in storetheindex: repeats come close together
# Each waits for requests to indexers most of the time; these are limited per indexer.
PUBLISHERS_AT_ONCE_MAX = 256
PUBLISHERS_WAITING_MAX = 10_000  # announced and not handled yet; beyond that announcements are rejected
# A frozen indexer hands off all of its publishers at once, and every handoff reads its list of providers.
HANDOFFS_AT_ONCE_MAX = 64
HANDOFFS_WAITING_MAX = 100_000  # the rest is queued at the next poll
SHORT_REMEMBERED_MAX = 10_000  # announcements that found too few indexers; the oldest are dropped first
LATEST_REMEMBERED_MAX = 10_000  # publishers whose newest announcement is remembered, in case they must start over


@dataclass
class _Announced:
    """An announcement and the indexers that it was sent to."""

    announce: Announcement
    sent_to: set[str] = field(default_factory=set)


class AssignerService:
    """One assigner for one pool. `run` it until it is cancelled, then `close` it."""

    def __init__(
        self,
        configuration: Configuration,
        open_indexer: OpenIndexer,
        open_destination: OpenDestination,
        *,
        clock: Clock,
        random: Random,
        metrics: Metrics,
    ) -> None:
        self.pool_state = PoolState(Configuration())
        self.telemetry = AssignerTelemetry(metrics)
        self._open_indexer = open_indexer
        self._open_destination = open_destination
        self._clock = clock
        self._random = random
        self._members: dict[str, PoolMember] = {}
        self._forwards: dict[str, Outbox] = {}
        self._heads: Cache[Cid, bool] = Cache(entries_max=HEADS_REMEMBERED_MAX)
        self._short: OrderedDict[str, _Announced] = OrderedDict()
        self._latest: Cache[str, _Announced] = Cache(entries_max=LATEST_REMEMBERED_MAX)
        self._publisher_locks: KeyedLock[str] = KeyedLock()  # announcement and handoff of a publisher take turns
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._announce_queue: KeyedWorkQueue[_Announced] = KeyedWorkQueue(
            self._assign_announced, width=PUBLISHERS_AT_ONCE_MAX, waiting_max=PUBLISHERS_WAITING_MAX
        )
        self._handoff_queue: KeyedWorkQueue[None] = KeyedWorkQueue(
            self._hand_off, width=HANDOFFS_AT_ONCE_MAX, waiting_max=HANDOFFS_WAITING_MAX
        )
        self._is_polled = asyncio.Event()
        self._poll_wanted = asyncio.Event()
        self._install(configuration)

    # -- lifecycle ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Polls the pool at once, then periodically."""
        while True:
            # Before the poll: a reload during it must lead to another one.
            self._poll_wanted.clear()
            await self.poll()
            await self._next_poll()

    async def _next_poll(self) -> None:
        poll_s = self.pool_state.configuration.poll_s
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._poll_wanted.wait())]
        if poll_s > 0:
            waits.append(asyncio.ensure_future(self._clock.sleep(poll_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def close(self) -> None:
        """Stops all work; idempotent."""
        # Queues first, because their work uses the connections that are closed last.
        await self._announce_queue.close()
        await self._handoff_queue.close()
        polls = list(self._polls.values())
        for task in polls:
            task.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        members, self._members = self._members, {}
        forwards, self._forwards = self._forwards, {}
        await _close_all([*members.values(), *forwards.values()])

    async def wait_idle(self) -> None:
        """Returns when no announcement, handoff or delivery is under way."""
        queues: list[KeyedWorkQueue[Announcement] | KeyedWorkQueue[_Announced] | KeyedWorkQueue[None]] = [
            self._announce_queue,
            self._handoff_queue,
        ]
        while True:
            outboxes = [member.outbox for member in self._members.values()] + list(self._forwards.values())
            all_queues = queues + [outbox.queue for outbox in outboxes]
            if not any(len(queue) for queue in all_queues):
                return
            for queue in all_queues:
                await queue.wait_idle()

    def is_ready(self) -> bool:
        """Whether every indexer has been polled once."""
        return self._is_polled.is_set()

    @property
    def short(self) -> tuple[str, ...]:
        """Publishers that were announced and have too few indexers so far."""
        return tuple(self._short)

    # -- configuration ------------------------------------------------------------------------------------------------

    async def reload(self, configuration: Configuration) -> None:
        """Applies a configuration at once; new indexers are polled immediately."""
        await _close_all(self._install(configuration))
        self.telemetry.record_reload(self.pool_state)
        self._poll_wanted.set()

    def _install(self, configuration: Configuration) -> list[PoolMember | Outbox]:
        """Opens new connections; returns those no longer needed."""
        old_entries = {entry.admin_url: entry for entry in self.pool_state.configuration.entries}
        old_members, self._members = self._members, {}
        for entry in configuration.entries:
            url, old = entry.admin_url, old_entries.get(entry.admin_url)
            # Presets are no part of the connection: changing them must not drop queued announcements.
            if old is not None and replace(old, presets=entry.presets) == entry:
                self._members[url] = old_members.pop(url)
            else:
                indexer = self._open_indexer(entry)
                self._members[url] = PoolMember(url, indexer, self.telemetry, clock=self._clock, random=self._random)
        old_forwards, self._forwards = self._forwards, {}
        for url in configuration.forward_urls:
            if url in old_forwards:
                self._forwards[url] = old_forwards.pop(url)
            else:
                destination = self._open_destination(url)
                self._forwards[url] = Outbox(url, destination, self.telemetry, clock=self._clock, random=self._random)
        self.pool_state.configure(configuration)
        return [*old_members.values(), *old_forwards.values()]

    # -- announcements ------------------------------------------------------------------------------------------------

    def announce(self, announce: Announcement) -> None:
        """Queues an announcement. Raises Forbidden by policy, Unavailable when too many wait; a repeat has no
        effect."""
        publisher = announce.publisher.id
        if not self.pool_state.policy.allows(publisher):
            self.telemetry.record_announcement("forbidden", publisher)
            raise Forbidden(f"announcements of {publisher} are not accepted: see the assigner's policy")
        # After the policy, so that an announcement that is refused does not displace others from the cache.
        if self._heads.get(announce.head):
            self.telemetry.record_announcement("repeated", publisher)
            return
        announced = _Announced(self._filter_addresses(announce))
        if self.pool_state.is_short(publisher):
            try:
                self._announce_queue.put(publisher, announced)
            except Unavailable:
                self.telemetry.record_announcement("rejected", publisher)
                raise
        # Remembered only now: a rejected announcement may be repeated.
        self._heads.put(announce.head, True)
        self.telemetry.record_announcement("accepted", publisher)
        self._latest.put(publisher, announced)
        for forward in self._forwards.values():
            forward.put(announced.announce)
        self._pass_on(announced)

    def _filter_addresses(self, announce: Announcement) -> Announcement:
        if not self.pool_state.configuration.is_filtering:
            return announce
        public = tuple(address for address in announce.publisher.addresses if not multiaddr.is_private(address))
        return replace(announce, publisher=replace(announce.publisher, addresses=public))

    def _pass_on(self, announced: _Announced) -> None:
        """Resends to indexers that follow the publisher, including frozen ones, which still apply removals."""
        if self.pool_state.configuration.is_resending:
            self._forward_to(announced, self.pool_state.audience(announced.announce.publisher.id))

    def _forward_to(self, announced: _Announced, urls: Iterable[str]) -> None:
        for url in urls:
            member = self._members.get(url)
            # An indexer that has just been assigned is also in the audience; it receives the announcement once.
            if member is not None and url not in announced.sent_to:
                announced.sent_to.add(url)
                member.outbox.put(announced.announce)

    async def _assign_announced(self, publisher: str, announced: _Announced) -> None:
        async with self._publisher_locks.hold(publisher):
            await self._assign(publisher, announced)
            # An indexer without a report may hold the publisher, which blocks it; its answer decides, so it is polled
            # now.
            if self._waits_for_unanswered(publisher):
                await self._poll_all(self.pool_state.uncertain_indexers())
                await self._assign(publisher, announced)
            self._pass_on(announced)
        self._short.pop(publisher, None)
        if self.pool_state.is_short(publisher):
            self._remember(publisher, announced)

    async def _assign(self, publisher: str, announced: _Announced) -> None:
        async for step in self._steps(publisher, is_announced=True):
            self._forward_to(announced, [step.target])

    def _waits_for_unanswered(self, publisher: str) -> bool:
        """Whether too few indexers hold the publisher, and one without a report may be a holder."""
        is_stuck = self.pool_state.next_step(publisher, is_announced=True) is None
        return is_stuck and self.pool_state.is_short(publisher) and bool(self.pool_state.uncertain_indexers())

    def _remember(self, publisher: str, announced: _Announced) -> None:
        """Remembers an unserved announcement; the same head may be announced again."""
        self.telemetry.record_short(publisher)
        self._heads.remove(announced.announce.head)
        self._short[publisher] = announced
        if len(self._short) > SHORT_REMEMBERED_MAX:
            self._short.popitem(last=False)

    # -- requests to indexers -----------------------------------------------------------------------------------------

    async def _hand_off(self, publisher: str, _: None) -> None:
        async with self._publisher_locks.hold(publisher):
            async for _step in self._steps(publisher, is_announced=False):
                pass
            # The frozen indexer had nothing of the publisher: it starts from the beginning elsewhere, which needs an
            # announcement, because only that names the publisher's address.
            latest = self._latest.get(publisher) if self.pool_state.has_moot(publisher) else None
            if latest is not None:
                self._put_short(publisher, latest)

    async def _steps(self, publisher: str, *, is_announced: bool) -> AsyncIterator[AssignmentStep]:
        """Requests indexers one by one until enough hold the publisher; yields accepted requests.

        The plan is recomputed before each request from what is known by then.
        """
        refused: set[str] = set()
        while step := self.pool_state.next_step(publisher, refused, is_announced=is_announced):
            if await self._request(step):
                yield step
            elif not self._is_moot(step):
                refused.add(step.target)

    def _is_moot(self, step: AssignmentStep) -> bool:
        """The frozen indexer had nothing to resume from; the same target may still start over."""
        return step.source is not None and self.pool_state.is_moot(step)

    async def _request(self, step: AssignmentStep) -> bool:
        """Returns whether the target holds the publisher; after a refusal it is polled."""
        self.pool_state.on_request(step)
        try:
            await self._perform(step)
        # Before ArgosyError, of which it is one: an unanswered request may have taken effect.
        except OutcomeUnknown as why:
            self.pool_state.on_unknown_outcome(step)
            self.telemetry.record_unknown_outcome(step, why)
        except ArgosyError as why:
            self.pool_state.on_refusal(step)
            self.telemetry.record_refusal(step, why)
        except BaseException:  # cancelled: the request may have been sent
            self.pool_state.on_unknown_outcome(step)
            raise
        else:
            self.pool_state.on_accept(step)
            return step.source is None or await self._is_confirmed(step)
        await self._poll_indexer(step.target)
        return self.pool_state.holds(step.target, step.publisher)

    async def _perform(self, step: AssignmentStep) -> None:
        member = self._members.get(step.target)
        if member is None:
            raise Unavailable(f"{step.target} has left the pool")
        if step.source is None:
            await member.assign(step.publisher)
            self.telemetry.record_accept(step)
            return
        entry, report = self.pool_state.entry(step.source), self.pool_state.report(step.source)
        if entry is None or report is None:
            raise Unavailable(f"{step.source} has left the pool")
        await member.hand_off(step.publisher, frozen_id=report.id, frozen_url=entry.find_url)

    async def _is_confirmed(self, step: AssignmentStep) -> bool:
        """A handoff of a publisher that the frozen indexer no longer has is accepted without effect: verify it."""
        await self._poll_indexer(step.target)
        if self.pool_state.holds(step.target, step.publisher):
            self.telemetry.record_accept(step)
            return True
        self.pool_state.on_moot_handoff(step)
        self.telemetry.record_moot_handoff(step)
        return False

    # -- polls --------------------------------------------------------------------------------------------------------

    async def poll(self) -> None:
        """Polls every indexer, then queues pending handoffs and short publishers; `wait_idle` waits for those."""
        # Raises if a worker has failed: a bug in a queue must end the process instead of stopping it silently.
        self._announce_queue.check()
        self._handoff_queue.check()
        await self._poll_all(self.pool_state.urls())
        pending = self.pool_state.pending_handoffs().values()
        # Once each: a publisher with several replicas may be owed by several frozen indexers.
        for publisher in dict.fromkeys(publisher for publishers in pending for publisher in publishers):
            self._put_handoff(publisher)
        for publisher, announced in list(self._short.items()):
            self._put_short(publisher, announced)
        self._is_polled.set()
        self.telemetry.record_poll(self.pool_state, len(self._short))

    def _put_handoff(self, publisher: str) -> None:
        try:
            self._handoff_queue.put(publisher, None)
        except Unavailable:
            pass  # it is queued at the next poll

    def _put_short(self, publisher: str, announced: _Announced) -> None:
        """Queues it even if enough indexers hold it by now: they may not have received this announcement."""
        if publisher in self._announce_queue:
            return  # a newer announcement is queued
        try:
            self._announce_queue.put(publisher, announced)
        except Unavailable:
            pass  # it stays remembered

    async def _poll_all(self, urls: Iterable[str]) -> None:
        await asyncio.gather(*(self._poll_indexer(url) for url in urls))

    async def _poll_indexer(self, url: str) -> None:
        """Returns after a poll that began after this call; concurrent callers share it."""
        # A poll that is under way may have read the state before the caller's change: wait for it, then poll again.
        if under_way := self._polls.get(url):
            await asyncio.wait([under_way])
        if url not in self._polls:
            task = asyncio.ensure_future(self._poll_now(url))
            self._polls[url] = task
            task.add_done_callback(lambda _: self._polls.pop(url, None))
        # Shared by several callers: one that is cancelled must not end it for the others.
        await asyncio.shield(self._polls[url])

    async def _poll_now(self, url: str) -> None:
        member = self._members.get(url)
        if member is None:
            return
        # The counter is read before the request, so that changes made while it runs survive the report.
        before, changes = self.pool_state.report(url), self.pool_state.change_count(url)
        try:
            report = await member.report()
        except ArgosyError as why:
            self.pool_state.on_poll_failure(url, str(why))
            self.telemetry.record_poll_failure(url, why)
            return
        self.pool_state.on_report(url, report, changes)
        if before is None or before.is_frozen != report.is_frozen:
            self.telemetry.record_state(url, is_frozen=report.is_frozen)


async def _close_all(connections: Iterable[PoolMember | Outbox]) -> None:
    for each in connections:
        await each.close()
