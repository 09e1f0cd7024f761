"""Publishers that have fallen silent: asked for news, then hidden, then removed.

When a publisher was last heard of is not kept over a restart: an indexer that was away must not take its own silence
for everybody else's.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from heapq import nsmallest

from argosy.ipni.model import Provider
from argosy.ipni.settings import IndexerSettings


@dataclass
class PollPlan:
    polls: list[str] = field(default_factory=list)  # publishers
    deactivations: list[str] = field(default_factory=list)  # providers
    removals: list[str] = field(default_factory=list)  # providers


class ContactLog:
    """When each publisher was last heard of, and last asked.

    `announcing` are publishers that announce themselves at every start, as those do that start together with this
    indexer. Each may have another address than in its last run, so it is not polled before its announcement.
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
        """Whether the address known of the publisher can be taken for its present one."""
        return publisher in self._contacted_at or publisher not in self._announcing

    def plan_polls(
        self, providers: Iterable[Provider], settings: IndexerSettings, now: float, *, polls_max: int
    ) -> PollPlan:
        """What is due. A provider with an error is asked on every look, for it waits for its publisher to mend it.

        Those without contact for longest come first, so that many errors never keep the silent ones from being asked.
        """
        findings = PollPlan()
        wanted: dict[str, float] = {}
        for provider in providers:
            if provider.publisher is None:
                continue
            publisher = provider.publisher.id
            silence_s = now - self._contacted_at.get(publisher, self._started_at)
            if silence_s >= settings.remove_after_s:
                findings.removals.append(provider.id)
                continue
            if silence_s >= settings.deactivate_after_s and not provider.is_inactive:
                findings.deactivations.append(provider.id)
            is_due = silence_s >= settings.poll_after_s and (
                publisher not in self._polled_at or now - self._polled_at[publisher] >= settings.poll_retry_s
            )
            # What was announced while this indexer was away, it has not heard: each is asked once after a start.
            is_due = is_due or (publisher not in self._contacted_at and publisher not in self._polled_at)
            if (is_due or provider.last_error) and provider.publisher.addresses and self.may_poll(publisher):
                wanted[publisher] = self._contact(publisher)
        findings.polls = nsmallest(polls_max, wanted, key=wanted.__getitem__)
        return findings

    def _contact(self, publisher: str) -> float:
        """When it was heard of or asked last."""
        return max(
            self._contacted_at.get(publisher, self._started_at), self._polled_at.get(publisher, self._started_at)
        )
