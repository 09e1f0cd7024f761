"""Which announcements lead to anything: allowed, assigned, not paused, and not heard a moment ago."""

from collections import OrderedDict

from argosy.base.cache import Cache
from argosy.base.errors import Forbidden
from argosy.ipni.formats.cid import Cid

RECENT_MAX = 64  # announced heads remembered, so that repeats make no traffic
PAUSED_MAX = 10_000
TRIAL_S = 300.0  # after its pause a publisher gets one try in so long, until one goes well


class RecentHeads:
    """The heads announced last; a head whose sync failed is forgotten, so that announcing it again works."""

    def __init__(self) -> None:
        self._heads: Cache[Cid, bool] = Cache(entries_max=RECENT_MAX)

    def is_new(self, head: Cid) -> bool:
        if self._heads.get(head):
            return False
        self._heads.put(head, True)
        return True

    def forget(self, head: Cid | None) -> None:
        if head is not None:
            self._heads.remove(head)


class PausedPublishers:
    """Publishers of advertisements that can never be used, not listened to for a while."""

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._until: OrderedDict[str, float] = OrderedDict()

    def pause(self, publisher: str, now: float) -> None:
        """The longer pause is for the first offence; one that fails its trial waits for the next."""
        is_trial = publisher in self._until
        self._until[publisher] = now + (TRIAL_S if is_trial else self._pause_s)
        self._until.move_to_end(publisher)
        while len(self._until) > PAUSED_MAX:
            self._until.popitem(last=False)

    def lift(self, publisher: str) -> None:
        self._until.pop(publisher, None)

    def is_paused(self, publisher: str, now: float) -> bool:
        return now < self._until.get(publisher, now)

    def check(self, publisher: str, now: float) -> None:
        if self.is_paused(publisher, now):
            left_s = self._until[publisher] - now
            raise Forbidden(
                f"publisher {publisher} advertised a provider without any address: it is not listened to for "
                f"another {left_s:.0f} s"
            )
