"""The library: which indexes a node makes, renews, checks, keeps and gives up.

A machine in the house's sense. Leases come and go (ownership's business); for each repository held it brings what is
kept towards what is wished. The rules it keeps:

- an old index stays until the new one is finished; only a damaged one goes at once;
- a first index that cannot be made ends in a refusal, and the lease goes back: another node may do better;
- a renewal that fails is tried again with back-off, and the reason is told;
- fetches, builds, looks and checks are bounded, whatever is asked for;
- memory above the high watermark is brought down to the low one, and nothing pinned ever goes.
"""

from collections.abc import Mapping
from itertools import count

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.search.fleet import effects as do
from argosy.search.fleet import events as saw
from argosy.search.fleet.eviction import MemoryBudget
from argosy.search.fleet.held_repo import HeldRepo, LoadedIndex, Stage, is_same_place, spelled_differently
from argosy.search.fleet.index_queue import IndexQueue
from argosy.search.fleet.model import RepoSpec
from argosy.search.fleet.periodic_scheduler import PeriodicScheduler
from argosy.search.fleet.traffic import Traffic
from argosy.search.model import Branch
from argosy.search.settings import SearchSettings

CHECKS_AT_ONCE = 1  # a check reads memory as fast as one core can
JITTER = (0.8, 1.2)  # of every period, so that repositories do not march in step
NO_COMMIT = "none"  # what a folder without git is at


class IndexController:
    """Implements `Machine[Event, Effect]`."""

    def __init__(self, settings: SearchSettings, budget_bytes: int, random: Random) -> None:
        self._numbers = count(1)
        self.memory = MemoryBudget(settings, budget_bytes)
        self.traffic = Traffic()
        self.line = IndexQueue(self._numbers, fetches_max=settings.fetches_max, builds_max=settings.builds_max)
        self.looks = PeriodicScheduler(places=settings.looks_max)
        self.checks = PeriodicScheduler(places=CHECKS_AT_ONCE)
        self._settings = settings
        self._random = random
        self._backoff = Backoff(
            first_s=min(settings.retry_first_s, settings.retry_ceiling_s), ceiling_s=settings.retry_ceiling_s
        )
        self._volumes: dict[str, HeldRepo] = {}

    @property
    def volumes(self) -> Mapping[str, HeldRepo]:
        """By name."""
        return self._volumes

    def free_bytes(self) -> int:
        """What could be taken on without giving anything up. Units that are won and not yet indexed are not counted:
        whoever bids knows of them."""
        return max(0, self.memory.high_bytes - self.memory.held_bytes - self.line.renewing_bytes())

    def deadline(self) -> float | None:
        return earliest(self.looks.deadline(), self.checks.deadline())

    def handle(self, event: saw.Event | None, now: float) -> list[do.Effect]:
        effects = self._take_in(event, now)
        effects += self._go_round(now)
        effects += self.line.advance()
        return effects + self._evict(now)

    def _take_in(self, event: saw.Event | None, now: float) -> list[do.Effect]:
        match event:
            case saw.UnitGained():
                return self._gained(event, now)
            case saw.UnitLost(name):
                return self._lost(name)
            case saw.SpecChanged(name, spec) if name in self._volumes:
                return self._wished(self._volumes[name], spec, now)
            case saw.PushReceived(name) if name in self._volumes:
                self._told(self._volumes[name], now)
            case saw.OriginChecked(number, heads):
                return self._looked(number, heads, now)
            case saw.OriginCheckFailed(number, reason):
                if (volume := self._ended_look(number)) is not None:
                    return self._fail(volume, reason, now)
            case saw.Fetched(number):
                self.line.fetched(number)
            case saw.IndexProvisioned(number, figures):
                return self._made(number, figures, now)
            case saw.ProvisionFailed(number, reason):
                return self._making_failed(number, reason, now)
            case saw.ProvisionStopped(number):
                self.line.end(number)
            case saw.IndexVerified(number, is_sound):
                return self._checked(number, is_sound, now)
        return []

    # -- leases and specs ------------------------------------------------------------------------------------------

    def _gained(self, event: saw.UnitGained, now: float) -> list[do.Effect]:
        name = event.unit.name
        volume = self._volumes.get(name)
        if volume is None:
            volume = self._volumes[name] = HeldRepo(event.unit, event.spec)
            self.traffic.begin(name)
        volume.unit, volume.spec, volume.claim_latency_s = event.unit, event.spec, event.claim_latency_s
        volume.is_leaving = volume.is_admitted = False
        if volume.kept is not None:
            self._plan(volume, now)
            return self._admit(volume)
        if volume.making is not None:
            return []
        return self._begin(volume, event.sibling, now)

    def _begin(self, volume: HeldRepo, sibling: str | None, now: float) -> list[do.Effect]:
        """The first index of a unit, or the first after a refusal."""
        spec = volume.spec
        if spec is None:
            return self._give_up(volume, f"{volume.name!r} is no longer in the catalog")
        size_bytes = spec.footprint_bytes or 0
        if size_bytes > self.memory.budget_bytes and not _is_reindex_due(spec):
            return self._fail(volume, self._too_large(size_bytes), now)
        can_restore = self._settings.snapshot_dir is not None and size_bytes >= self._settings.snapshot_min_bytes
        self._line_up(volume, now, sibling=sibling, can_restore=can_restore)
        return []

    def _lost(self, name: str) -> list[do.Effect]:
        volume = self._volumes.pop(name, None)
        if volume is None:
            return [do.Forget(name)]
        stop = self._abandon(volume)
        self.memory.let_go(volume)
        self._rest(volume)
        self.traffic.forget(name)
        return [*stop, do.Forget(name)]

    def _wished(self, volume: HeldRepo, spec: RepoSpec | None, now: float) -> list[do.Effect]:
        before, volume.spec = volume.spec, spec
        if spec is None:
            return self._unwanted(volume)
        if volume.is_leaving:
            return []
        asked_at = spec.reindex_requested_at or 0
        if before is not None and asked_at > (before.reindex_requested_at or 0):
            volume.is_anew = True
        if before is not None and (spec.pushed_at or 0) > (before.pushed_at or 0):
            self._told(volume, now)
        effects: list[do.Effect] = []
        if volume.making is not None and not is_same_place(volume.making.spec, spec):
            effects += self._abandon(volume)
            if volume.kept is not None:
                self._plan(volume, now)  # it may be what is wished for again
        if volume.needs_making() and volume.making is None:
            volume.look = None  # it asks for what nobody specs any more
            self._line_up(volume, now)
        return effects

    def _unwanted(self, volume: HeldRepo) -> list[do.Effect]:
        """Gone from answers at once; the lease goes when ownership has read the catalog."""
        effects = self._abandon(volume)
        self.memory.let_go(volume)
        self._rest(volume)
        effects.append(do.Withdraw(volume.name, is_unwanted=True))
        if not volume.is_admitted:
            effects += self._give_up(volume, f"{volume.name!r} is no longer in the catalog")
        return effects

    # -- making -----------------------------------------------------------------------------------------------------

    def _line_up(
        self,
        volume: HeldRepo,
        now: float,
        *,
        heads: tuple[Branch, ...] | None = None,
        sibling: str | None = None,
        can_restore: bool = False,
    ) -> None:
        self.looks.cancel(volume.name)  # the fetch will see whatever a look would
        self.line.add(volume, now, heads=heads, sibling=sibling, can_restore=can_restore)

    def _made(self, number: int, figures: saw.IndexStats, now: float) -> list[do.Effect]:
        volume = self.line.end(number)
        if volume is None:
            return [do.Discard(number)]
        making, volume.making = volume.making, None
        assert making is not None
        if figures.memory_bytes > self.memory.budget_bytes:
            volume.is_anew |= making.is_anew
            return [do.Discard(number), *self._fail(volume, self._too_large(figures.memory_bytes), now, figures)]
        is_built = making.stage is Stage.BUILDING
        if not is_built and _is_reindex_due(making.spec):
            volume.is_anew = True  # what another node or the disk had may be what is complained of
        had_trouble = volume.failures > 0 or making.spec.failures > 0
        same_as = making.heads if spelled_differently(making.heads, figures.branches) else None
        self.memory.keep(volume, LoadedIndex(figures, making.spec, now, same_as), now)
        volume.failures, volume.reason = 0, ""
        effects: list[do.Effect] = [do.Put(number, volume.name), *self._admit(volume)]
        if is_built or had_trouble or making.spec.footprint_bytes is None:
            effects.append(_noted(volume.name, figures))
        is_large = figures.memory_bytes >= self._settings.snapshot_min_bytes
        if self._settings.snapshot_dir is not None and is_large and making.stage is not Stage.RESTORING:
            effects.append(do.Save(volume.name))
        self._plan(volume, now, is_doubtful=not is_built)
        return effects

    def _making_failed(self, number: int, reason: str, now: float) -> list[do.Effect]:
        volume = self.line.end(number)
        if volume is None:
            return []
        making, volume.making = volume.making, None
        assert making is not None
        volume.is_anew |= making.is_anew
        if making.stage not in (Stage.RESTORING, Stage.RECEIVING):
            return self._fail(volume, reason, now)
        sibling = making.sibling if making.stage is Stage.RESTORING else None
        self._line_up(volume, making.since, sibling=sibling)  # by the next way, at the old place in line
        return []

    def _fail(
        self, volume: HeldRepo, reason: str, now: float, figures: saw.IndexStats | None = None
    ) -> list[do.Effect]:
        """What is too large has its size noted all the same, so that no node bids for it in vain."""
        volume.failures += 1
        volume.reason = reason
        note: do.Effect = do.NoteFailed(volume.name, reason)
        if figures is not None:
            note = _noted(volume.name, figures, but=reason)
        if volume.kept is None:
            return [note, *self._give_up(volume, reason)]
        self.looks.set(volume.name, now + self._backoff.delay(volume.failures, self._random))
        return [note]

    def _give_up(self, volume: HeldRepo, reason: str) -> list[do.Effect]:
        volume.is_leaving, volume.reason = True, reason
        if volume.is_admitted:
            return [do.Release(volume.name, reason, is_eviction=False)]
        return [do.Refuse(volume.name, reason)]

    # -- keeping ----------------------------------------------------------------------------------------------------

    def _go_round(self, now: float) -> list[do.Effect]:
        effects: list[do.Effect] = []
        while (name := self.looks.next(now)) is not None:
            volume = self._volumes[name]
            if volume.needs_making():
                self._line_up(volume, now)
            elif volume.spec is not None:
                volume.look, volume.is_told = next(self._numbers), False
                self.looks.begin(volume.look, name)
                effects.append(do.CheckOrigin(volume.look, volume.spec))
        while (name := self.checks.next(now)) is not None:
            volume = self._volumes[name]
            volume.check = next(self._numbers)
            self.checks.begin(volume.check, name)
            effects.append(do.VerifyIndex(volume.check, name))
        return effects

    def _told(self, volume: HeldRepo, now: float) -> None:
        volume.is_told = True
        if volume.kept is not None and volume.making is None and volume.look is None and not volume.is_leaving:
            self.looks.set(volume.name, now)

    def _ended_look(self, number: int) -> HeldRepo | None:
        """The volume a look was for, if its answer is still of interest."""
        volume = self._volumes.get(self.looks.end(number) or "")
        if volume is None or volume.look != number:
            return None
        volume.look = None
        is_open = volume.kept is not None and volume.making is None and not volume.is_leaving
        return volume if is_open else None

    def _looked(self, number: int, heads: tuple[Branch, ...], now: float) -> list[do.Effect]:
        volume = self._ended_look(number)
        if volume is None or volume.kept is None:
            return []
        if not volume.has(heads):
            self._line_up(volume, now, heads=heads)
            return []
        had_trouble = volume.failures > 0
        volume.failures, volume.reason = 0, ""
        self._plan(volume, now)
        return [_noted(volume.name, volume.kept.figures)] if had_trouble else []

    def _checked(self, number: int, is_sound: bool, now: float) -> list[do.Effect]:
        volume = self._volumes.get(self.checks.end(number) or "")
        if volume is None or volume.kept is None:
            return []
        if volume.check == number:
            volume.check = None
        elif is_sound:
            return []  # said of an index that is no longer kept
        # What was renewed during the check shares memory with what is damaged: it goes, too.
        if is_sound:
            self.checks.set(volume.name, now + self._period(self._settings.check_s))
            return []
        self.memory.let_go(volume)
        effects: list[do.Effect] = [do.Withdraw(volume.name)]
        if volume.making is not None and volume.making.stage in (Stage.FETCHED, Stage.BUILDING):
            effects += self._abandon(volume)  # it may share what is damaged
        self._rest(volume)
        if volume.making is None and volume.spec is not None and not volume.is_leaving:
            self._line_up(volume, now)
        return effects

    def _plan(self, volume: HeldRepo, now: float, *, is_doubtful: bool = False) -> None:
        """What comes next for an index that is as it should be. What was not built here may be old: look at once."""
        if volume.name not in self.checks and volume.check is None:
            self.checks.set(volume.name, now + self._period(self._settings.check_s))
        if volume.making is not None:
            return
        if volume.needs_making():
            self._line_up(volume, now)
            return
        wait_s = 0.0 if volume.is_told or is_doubtful else self._period(self._settings.refresh_s)
        self.looks.set(volume.name, now + wait_s)

    def _evict(self, now: float) -> list[do.Effect]:
        building = (each for each in self.line.building() if each.kept is None and each.spec is not None)
        coming_bytes = sum(each.spec.footprint_bytes or 0 for each in building if each.spec is not None)
        held_bytes = self.memory.held_bytes
        effects: list[do.Effect] = []
        for name in self.memory.excess(self._volumes.values(), coming_bytes, self.traffic, now):
            volume = self._volumes[name]
            effects += self._abandon(volume)
            self._rest(volume)
            volume.is_leaving = True
            volume.reason = (
                f"evicted: indexes take {held_bytes} of {self.memory.budget_bytes} bytes, and others are searched more"
            )
            effects.append(do.Release(name, volume.reason, is_eviction=True))
        return effects

    # -- small steps ------------------------------------------------------------------------------------------------

    def _admit(self, volume: HeldRepo) -> list[do.Effect]:
        if volume.is_admitted:
            return []
        volume.is_admitted = True
        return [do.Admit(volume.name, volume.memory_bytes)]

    def _abandon(self, volume: HeldRepo) -> list[do.Effect]:
        """Gives up what is being made, if anything is."""
        if volume.making is None:
            return []
        volume.is_anew |= volume.making.is_anew
        number = self.line.leave(volume)
        return [] if number is None else [do.Stop(number)]

    def _rest(self, volume: HeldRepo) -> None:
        """No more errands; the answers of those under way are ignored."""
        volume.look = volume.check = None
        self.looks.cancel(volume.name)
        self.checks.cancel(volume.name)

    def _too_large(self, memory_bytes: int) -> str:
        return (
            f"its index takes {memory_bytes} bytes and this node has {self.memory.budget_bytes} for all: "
            "give a node more memory, or raise search.budget_bytes"
        )

    def _period(self, seconds: float) -> float:
        return seconds * self._random.uniform(*JITTER)


def _is_reindex_due(spec: RepoSpec) -> bool:
    """Whether an operator asked for a new index after the last one was made."""
    return (spec.reindex_requested_at or 0) > (spec.last_indexed_at or 0)


def _noted(name: str, figures: saw.IndexStats, *, but: str | None = None) -> do.NoteIndexed:
    commit = next((branch.version for branch in figures.branches if branch.version), NO_COMMIT)
    return do.NoteIndexed(name, commit, figures.memory_bytes, but)
