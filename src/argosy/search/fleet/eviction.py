"""Eviction: which indexes a node gives up when their memory exceeds the budget.

Above the high watermark indexes are evicted until the rest is below the low one, so that evictions come in batches and
not one per new index. Pinned repositories are never evicted. Young indexes are evicted last: no client has had time to
search them, and building one again costs more than keeping it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from argosy.search.fleet.held_repo import HeldRepo, LoadedIndex
from argosy.search.settings import SearchSettings

YOUNG_S = 60.0
HALF_LIFE_S = 600.0  # of the weight of a search


@dataclass(slots=True)
class _Usage:
    searches: int = 0
    last_at: float = 0.0
    weight: float = 0.0  # as of last_at


class Traffic:
    """Searches by repository: the input of the eviction order.

    The weight halves every HALF_LIFE_S and shows current demand; the plain count and the last time are for status
    pages. It is updated on every search, so it is a plain call and not an event of the controller.
    """

    def __init__(self) -> None:
        self._usage: dict[str, _Usage] = {}

    def add(self, name: str) -> None:
        """Starts counting searches of this repository."""
        self._usage.setdefault(name, _Usage())

    def remove(self, name: str) -> None:
        self._usage.pop(name, None)

    def record(self, names: Iterable[str], now: float) -> None:
        """Counts one search of each; repositories that were not added are ignored."""
        for name in names:
            if (usage := self._usage.get(name)) is not None:
                usage.weight = 1.0 + usage.weight * _decay(now - usage.last_at)
                usage.searches += 1
                usage.last_at = now

    def searches(self, name: str) -> int:
        return self._usage[name].searches if name in self._usage else 0

    def last_at(self, name: str) -> float | None:
        """Time of the last search; None: never searched."""
        usage = self._usage.get(name)
        return usage.last_at if usage is not None and usage.searches else None

    def weight(self, name: str, now: float) -> float:
        usage = self._usage.get(name)
        return usage.weight * _decay(now - usage.last_at) if usage is not None else 0.0


class MemoryBudget:
    """Memory of all indexes of a node, and its limits."""

    def __init__(self, settings: SearchSettings, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.held_bytes = 0
        self.high_bytes = int(budget_bytes * settings.high_watermark)
        self._low_bytes = int(budget_bytes * settings.low_watermark)
        self._by = settings.evict_by

    def load(self, repo: HeldRepo, loaded: LoadedIndex, now: float) -> None:
        """Sets the index of a repository, in place of the one loaded before."""
        # Not at a refresh, which would make an index young again.
        if repo.loaded is None:
            repo.ready_at = now
        self.unload(repo)
        repo.loaded = loaded
        self.held_bytes += repo.memory_bytes

    def unload(self, repo: HeldRepo) -> None:
        self.held_bytes -= repo.memory_bytes
        repo.loaded = repo.verification = None

    def excess(self, repos: Collection[HeldRepo], coming_bytes: int, traffic: Traffic, now: float) -> list[str]:
        """Names of the repositories to evict. `coming_bytes` is memory that is about to be needed."""
        load_bytes = self.held_bytes + coming_bytes
        if load_bytes <= self.high_bytes:
            return []  # the common case, without a pass over all repositories
        load_bytes -= sum(repo.memory_bytes for repo in repos if repo.is_leaving)
        if load_bytes <= self.high_bytes:
            return []
        return select_victims(repos, traffic, load_bytes=load_bytes, low_bytes=self._low_bytes, by=self._by, now=now)


def select_victims(
    repos: Iterable[HeldRepo], traffic: Traffic, *, load_bytes: int, low_bytes: int, by: str, now: float
) -> list[str]:
    """Names in the order of eviction, enough to bring `load_bytes` down to `low_bytes` where that is possible."""
    candidates = [each for each in repos if each.loaded is not None and not each.is_leaving and not is_pinned(each)]
    rank = _last_use if by == "lru" else _cost
    # By name last, so that the order is defined and a simulated run can be repeated.
    candidates.sort(key=lambda repo: (_is_young(repo, now), rank(repo, traffic, now), repo.name))
    victims: list[str] = []
    for repo in candidates:
        if load_bytes <= low_bytes:
            break
        load_bytes -= repo.memory_bytes
        victims.append(repo.name)
    return victims


def is_pinned(repo: HeldRepo) -> bool:
    return repo.spec is not None and repo.spec.is_pinned


def _is_young(repo: HeldRepo, now: float) -> bool:
    return now - repo.ready_at < YOUNG_S


def _last_use(repo: HeldRepo, traffic: Traffic, now: float) -> float:
    """Time of the last search; an index never searched counts from when it became ready."""
    last_at = traffic.last_at(repo.name)
    return repo.ready_at if last_at is None else last_at


def _cost(repo: HeldRepo, traffic: Traffic, now: float) -> float:
    """Orders the largest for its traffic first."""
    # 1.0, so that an index without searches has a finite cost and is ordered by its size.
    return -repo.memory_bytes / (1.0 + traffic.weight(repo.name, now))


def _decay(seconds: float) -> float:
    return float(0.5 ** (max(0.0, seconds) / HALF_LIFE_S))
