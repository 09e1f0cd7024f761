"""The index controller: a state machine that drives every held repository to its spec.

Leases come and go by ownership's decision. For each repository held, the controller decides when its index is built,
refreshed, verified and evicted. Its rules:

- an old index is served until the new one is finished; only a damaged one is unloaded at once;
- a first index that cannot be built is refused and the lease released: another node may succeed;
- a refresh that fails is retried with back-off, and the reason is recorded;
- fetches, builds, origin checks and verifications are bounded, whatever is requested;
- memory above the high watermark is brought down to the low one, and pinned indexes are never evicted.
"""

from collections.abc import Mapping
from itertools import count

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.search.fleet.effects import (
    Admit,
    CheckOrigin,
    DiscardIndex,
    Effect,
    Forget,
    LoadIndex,
    RecordFailure,
    RecordIndexed,
    Refuse,
    Release,
    Save,
    Stop,
    UnloadIndex,
    VerifyIndex,
)
from argosy.search.fleet.events import (
    Event,
    IndexProvisioned,
    IndexStats,
    IndexVerified,
    OriginChecked,
    OriginCheckFailed,
    ProvisionFailed,
    ProvisionStopped,
    PushReceived,
    SourceFetched,
    SpecChanged,
    UnitGained,
    UnitLost,
)
from argosy.search.fleet.eviction import MemoryBudget, Traffic
from argosy.search.fleet.held_repo import HeldRepo, JobStage, LoadedIndex, has_other_branch_names, is_same_source
from argosy.search.fleet.index_queue import IndexQueue
from argosy.search.fleet.model import RepoSpec
from argosy.search.fleet.periodic_scheduler import PeriodicScheduler
from argosy.search.model import Branch
from argosy.search.settings import SearchSettings

VERIFICATIONS_MAX = 1  # concurrent: one verification already reads memory as fast as a core can
JITTER = (0.8, 1.2)  # of every period, so that checks do not run in step
NO_COMMIT = "none"  # recorded as the commit of a directory without git


class IndexController:
    """Implements `StateMachine[Event, Effect]`."""

    def __init__(self, settings: SearchSettings, budget_bytes: int, random: Random) -> None:
        self._numbers = count(1)
        self.memory = MemoryBudget(settings, budget_bytes)
        self.traffic = Traffic()
        self.queue = IndexQueue(self._numbers, fetches_max=settings.fetches_max, builds_max=settings.builds_max)
        self.origin_checks = PeriodicScheduler(concurrency_max=settings.origin_checks_max)
        self.verifications = PeriodicScheduler(concurrency_max=VERIFICATIONS_MAX)
        self._settings = settings
        self._random = random
        self._backoff = Backoff(
            # The ceiling in the settings may be below the first delay.
            first_s=min(settings.retry_first_s, settings.retry_ceiling_s),
            ceiling_s=settings.retry_ceiling_s,
        )
        self._repos: dict[str, HeldRepo] = {}

    @property
    def repos(self) -> Mapping[str, HeldRepo]:
        """By name."""
        return self._repos

    def free_bytes(self) -> int:
        """Memory for further units without an eviction. Units that are won and not yet indexed are not subtracted: the
        bidder accounts for them."""
        return max(0, self.memory.high_bytes - self.memory.held_bytes - self.queue.refresh_bytes())

    def deadline(self) -> float | None:
        return earliest(self.origin_checks.deadline(), self.verifications.deadline())

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        effects = self._apply(event, now)
        # Checks before the queue, because a due check may enqueue a job; eviction last, because it needs the jobs
        # started.
        effects += self._start_due_checks(now)
        effects += self.queue.advance()
        return effects + self._evict(now)

    def _apply(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case UnitGained():
                return self._on_unit_gained(event, now)
            case UnitLost(name):
                return self._on_unit_lost(name)
            case SpecChanged(name, spec) if name in self._repos:
                return self._on_spec_changed(self._repos[name], spec, now)
            case PushReceived(name) if name in self._repos:
                self._on_push(self._repos[name], now)
            case OriginChecked(number, heads):
                return self._on_origin_checked(number, heads, now)
            case OriginCheckFailed(number, reason):
                if (repo := self._finish_origin_check(number)) is not None:
                    return self._fail(repo, reason, now)
            case SourceFetched(number):
                self.queue.on_source_fetched(number)
            case IndexProvisioned(number, stats):
                return self._on_index_provisioned(number, stats, now)
            case ProvisionFailed(number, reason):
                return self._on_provision_failed(number, reason, now)
            case ProvisionStopped(number):
                self.queue.end(number)
            case IndexVerified(number, is_sound):
                return self._on_verified(number, is_sound, now)
        return []

    # -- leases and specs -------------------------------------------------------------------------------------------

    def _on_unit_gained(self, event: UnitGained, now: float) -> list[Effect]:
        name = event.unit.name
        repo = self._repos.get(name)
        if repo is None:
            repo = self._repos[name] = HeldRepo(event.unit, event.spec)
            self.traffic.add(name)
        repo.unit, repo.spec, repo.claim_latency_s = event.unit, event.spec, event.claim_latency_s
        repo.is_leaving = repo.is_admitted = False
        # Another slot of this repository may have been held before: its index serves this one at once.
        if repo.loaded is not None:
            self._schedule_checks(repo, now)
            return self._admit(repo)
        if repo.job is not None:
            return []
        return self._start_first_index(repo, event.sibling, now)

    def _start_first_index(self, repo: HeldRepo, sibling: str | None, now: float) -> list[Effect]:
        """The first index of a unit, or the first after a refusal."""
        spec = repo.spec
        if spec is None:
            return self._give_up_unit(repo, _removal_reason(repo.name))
        size_bytes = spec.footprint_bytes or 0
        # Refused before the fetch, so that a repository that fits on no node does not occupy one after the other. A
        # requested reindex tries again, because the repository may have become smaller.
        if size_bytes > self.memory.budget_bytes and not _is_reindex_due(spec):
            return self._fail(repo, self._too_large(size_bytes), now)
        can_restore = self._settings.snapshot_dir is not None and size_bytes >= self._settings.snapshot_min_bytes
        self._enqueue(repo, now, sibling=sibling, can_restore=can_restore)
        return []

    def _on_unit_lost(self, name: str) -> list[Effect]:
        repo = self._repos.pop(name, None)
        if repo is None:
            return [Forget(name)]  # completes the pending `drop`, which waits for this effect
        stop = self._cancel_job(repo)
        self.memory.unload(repo)
        self._cancel_checks(repo)
        self.traffic.remove(name)
        return [*stop, Forget(name)]

    def _on_spec_changed(self, repo: HeldRepo, spec: RepoSpec | None, now: float) -> list[Effect]:
        before, repo.spec = repo.spec, spec
        if spec is None:
            return self._on_spec_removed(repo)
        if repo.is_leaving:
            return []
        requested_at = spec.reindex_requested_at or 0
        # Compared with the spec before, not with the clock: catalog and node need not agree on the time (decision
        # 0005).
        if before is not None and requested_at > (before.reindex_requested_at or 0):
            repo.is_full_rebuild = True
        if before is not None and (spec.pushed_at or 0) > (before.pushed_at or 0):
            self._on_push(repo, now)
        effects: list[Effect] = []
        if repo.job is not None and not is_same_source(repo.job.spec, spec):
            effects += self._cancel_job(repo)
            if repo.loaded is not None:
                self._schedule_checks(repo, now)  # the loaded index may match the spec again
        if repo.needs_index() and repo.job is None:
            repo.origin_check = None  # it checks a source that is no longer the spec's
            self._enqueue(repo, now)
        return effects

    def _on_spec_removed(self, repo: HeldRepo) -> list[Effect]:
        """Unloads at once, so that results do not show it. The lease goes when ownership has read the catalog."""
        effects = self._cancel_job(repo)
        self.memory.unload(repo)
        self._cancel_checks(repo)
        effects.append(UnloadIndex(repo.name, is_removed=True))
        if not repo.is_admitted:
            effects += self._give_up_unit(repo, _removal_reason(repo.name))
        return effects

    # -- index jobs -------------------------------------------------------------------------------------------------

    def _enqueue(
        self,
        repo: HeldRepo,
        now: float,
        *,
        heads: tuple[Branch, ...] | None = None,
        sibling: str | None = None,
        can_restore: bool = False,
    ) -> None:
        self.origin_checks.cancel(repo.name)  # the fetch reads what a check would
        self.queue.add(repo, now, heads=heads, sibling=sibling, can_restore=can_restore)

    def _on_index_provisioned(self, number: int, stats: IndexStats, now: float) -> list[Effect]:
        repo = self.queue.end(number)
        if repo is None:
            return [DiscardIndex(number)]
        job, repo.job = repo.job, None
        assert job is not None
        if stats.memory_bytes > self.memory.budget_bytes:
            # Without this, one repository would evict all others and still not fit.
            # The request for a full rebuild is not fulfilled, so it stays pending.
            repo.is_full_rebuild |= job.is_full_rebuild
            return [DiscardIndex(number), *self._fail(repo, self._too_large(stats.memory_bytes), now, stats)]
        is_built = job.stage is JobStage.BUILDING
        # An index that was received or restored may be a commit old, which the origin check below finds out (0019).
        if not is_built and _is_reindex_due(job.spec):
            repo.is_full_rebuild = True  # the copy of another node or the disk may be the index that was complained of
        had_failures = repo.failures > 0 or job.spec.failures > 0
        origin_heads = job.heads if has_other_branch_names(job.heads, stats.branches) else None
        self.memory.load(repo, LoadedIndex(stats, job.spec, now, origin_heads), now)
        repo.failures, repo.reason = 0, ""
        # In this order: ownership marks the lease ready on Admit, and requests may arrive from that moment.
        effects: list[Effect] = [LoadIndex(number, repo.name), *self._admit(repo)]
        # The size of an index that was received or restored is in the catalog already, unless a failure has to be
        # cleared.
        if is_built or had_failures or job.spec.footprint_bytes is None:
            effects.append(_record_indexed(repo.name, stats))
        is_large = stats.memory_bytes >= self._settings.snapshot_min_bytes
        if self._settings.snapshot_dir is not None and is_large and job.stage is not JobStage.RESTORING:
            effects.append(Save(repo.name))
        self._schedule_checks(repo, now, may_be_stale=not is_built)
        return effects

    def _on_provision_failed(self, number: int, reason: str, now: float) -> list[Effect]:
        repo = self.queue.end(number)
        if repo is None:
            return []
        job, repo.job = repo.job, None
        assert job is not None
        # As above: a failed job has not fulfilled the request for a full rebuild.
        repo.is_full_rebuild |= job.is_full_rebuild
        # A snapshot and another node's index are shortcuts: if they fail, the origin is still there (decision 0019).
        if job.stage not in (JobStage.RESTORING, JobStage.RECEIVING):
            return self._fail(repo, reason, now)
        sibling = job.sibling if job.stage is JobStage.RESTORING else None
        self._enqueue(repo, job.since, sibling=sibling)  # tries the next way, at the old position in the queue
        return []

    def _fail(self, repo: HeldRepo, reason: str, now: float, stats: IndexStats | None = None) -> list[Effect]:
        """Records a failure. The size of an index that is too large is recorded as well, so that no node bids for it
        in vain."""
        repo.failures += 1
        repo.reason = reason
        record: Effect = RecordFailure(repo.name, reason)
        if stats is not None:
            record = _record_indexed(repo.name, stats, failure=reason)
        if repo.loaded is None:
            # The unit is auctioned again: another node may have the memory, the credentials or the network.
            return [record, *self._give_up_unit(repo, reason)]
        self.origin_checks.set(repo.name, now + self._backoff.delay(repo.failures, self._random))
        return [record]

    def _give_up_unit(self, repo: HeldRepo, reason: str) -> list[Effect]:
        repo.is_leaving, repo.reason = True, reason
        if repo.is_admitted:
            return [Release(repo.name, reason, is_eviction=False)]
        return [Refuse(repo.name, reason)]

    # -- freshness and soundness --------------------------------------------------------------------------------------

    def _start_due_checks(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        while (name := self.origin_checks.next(now)) is not None:
            repo = self._repos[name]
            if repo.needs_index():
                self._enqueue(repo, now)
            elif repo.spec is not None:
                repo.origin_check, repo.has_pending_push = next(self._numbers), False
                self.origin_checks.begin(repo.origin_check, name)
                effects.append(CheckOrigin(repo.origin_check, repo.spec))
        while (name := self.verifications.next(now)) is not None:
            repo = self._repos[name]
            repo.verification = next(self._numbers)
            self.verifications.begin(repo.verification, name)
            effects.append(VerifyIndex(repo.verification, name))
        return effects

    def _on_push(self, repo: HeldRepo, now: float) -> None:
        # A check or job under way may have read the origin before the push: the flag makes it check once more.
        repo.has_pending_push = True
        if repo.loaded is not None and repo.job is None and repo.origin_check is None and not repo.is_leaving:
            self.origin_checks.set(repo.name, now)

    def _finish_origin_check(self, number: int) -> HeldRepo | None:
        """The repository of an ended check; None if its result no longer matters."""
        repo = self._repos.get(self.origin_checks.end(number) or "")
        if repo is None or repo.origin_check != number:
            return None
        repo.origin_check = None
        is_at_rest = repo.loaded is not None and repo.job is None and not repo.is_leaving
        return repo if is_at_rest else None

    def _on_origin_checked(self, number: int, heads: tuple[Branch, ...], now: float) -> list[Effect]:
        repo = self._finish_origin_check(number)
        if repo is None or repo.loaded is None:
            return []
        if not repo.has(heads):
            self._enqueue(repo, now, heads=heads)
            return []
        had_failures = repo.failures > 0
        repo.failures, repo.reason = 0, ""
        self._schedule_checks(repo, now)
        return [_record_indexed(repo.name, repo.loaded.stats)] if had_failures else []

    def _on_verified(self, number: int, is_sound: bool, now: float) -> list[Effect]:
        repo = self._repos.get(self.verifications.end(number) or "")
        if repo is None or repo.loaded is None:
            return []
        if repo.verification == number:
            repo.verification = None
        elif is_sound:
            return []  # the verified index was replaced meanwhile
        # A damaged index invalidates its replacement, too: an incremental build shares segments with it.
        if is_sound:
            self.verifications.set(repo.name, now + self._period(self._settings.verify_s))
            return []
        self.memory.unload(repo)
        effects: list[Effect] = [UnloadIndex(repo.name)]
        if repo.job is not None and repo.job.stage in (JobStage.FETCHED, JobStage.BUILDING):
            effects += self._cancel_job(repo)  # it may reuse a damaged segment
        self._cancel_checks(repo)
        if repo.job is None and repo.spec is not None and not repo.is_leaving:
            self._enqueue(repo, now)
        return effects

    def _schedule_checks(self, repo: HeldRepo, now: float, *, may_be_stale: bool = False) -> None:
        """Schedules the next checks of a loaded index. One that was not built here may be stale: check it at once."""
        if repo.name not in self.verifications and repo.verification is None:
            self.verifications.set(repo.name, now + self._period(self._settings.verify_s))
        if repo.job is not None:
            return
        if repo.needs_index():
            self._enqueue(repo, now)
            return
        wait_s = 0.0 if repo.has_pending_push or may_be_stale else self._period(self._settings.refresh_s)
        self.origin_checks.set(repo.name, now + wait_s)

    def _evict(self, now: float) -> list[Effect]:
        # First builds only: a refreshed index replaces one whose memory is counted already.
        building = (each for each in self.queue.building() if each.loaded is None and each.spec is not None)
        coming_bytes = sum(each.spec.footprint_bytes or 0 for each in building if each.spec is not None)
        held_bytes = self.memory.held_bytes
        effects: list[Effect] = []
        # The index is not unloaded here: ownership gives the unit up through `drop`, which first waits for the requests
        # under way.
        for name in self.memory.excess(self._repos.values(), coming_bytes, self.traffic, now):
            repo = self._repos[name]
            effects += self._cancel_job(repo)
            self._cancel_checks(repo)
            repo.is_leaving = True
            repo.reason = (
                f"evicted: indexes take {held_bytes} of {self.memory.budget_bytes} bytes, and others are searched more"
            )
            effects.append(Release(name, repo.reason, is_eviction=True))
        return effects

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _admit(self, repo: HeldRepo) -> list[Effect]:
        if repo.is_admitted:
            return []
        repo.is_admitted = True
        return [Admit(repo.name, repo.memory_bytes)]

    def _cancel_job(self, repo: HeldRepo) -> list[Effect]:
        """Cancels the index job, if there is one."""
        if repo.job is None:
            return []
        repo.is_full_rebuild |= repo.job.is_full_rebuild
        number = self.queue.cancel(repo)
        return [] if number is None else [Stop(number)]

    def _cancel_checks(self, repo: HeldRepo) -> None:
        """Unschedules all checks. The results of those under way are ignored."""
        repo.origin_check = repo.verification = None
        self.origin_checks.cancel(repo.name)
        self.verifications.cancel(repo.name)

    def _too_large(self, memory_bytes: int) -> str:
        return (
            f"index too large: {memory_bytes} bytes, budget {self.memory.budget_bytes} bytes; "
            "give a node more memory, or raise search.budget_bytes"
        )

    def _period(self, seconds: float) -> float:
        return seconds * self._random.uniform(*JITTER)


def _removal_reason(name: str) -> str:
    return f"{name!r} was removed from the catalog"


def _is_reindex_due(spec: RepoSpec) -> bool:
    """Whether a reindex was requested after the last index was built."""
    return (spec.reindex_requested_at or 0) > (spec.last_indexed_at or 0)


def _record_indexed(name: str, stats: IndexStats, *, failure: str | None = None) -> RecordIndexed:
    commit = next((branch.version for branch in stats.branches if branch.version), NO_COMMIT)
    return RecordIndexed(name, commit, stats.memory_bytes, failure)
