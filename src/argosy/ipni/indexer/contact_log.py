"""Time of the last contact with each publisher: silent publishers are polled, then hidden, then removed.

The log is in memory only. After an outage of its own, an indexer must not treat everybody as silent.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from heapq import nsmallest

from argosy.ipni.model import Provider
from argosy.ipni.settings import IndexerSettings


@dataclass
class PollPlan:
    """What is due: publishers to poll, providers to hide and to remove."""

    polls: list[str] = field(default_factory=list)  # publishers
    deactivations: list[str] = field(default_factory=list)  # providers
    removals: list[str] = field(default_factory=list)  # providers


class ContactLog:
    """Last contact with, and last poll of, each publisher.

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
            # Announcements made while this indexer was down were missed: each publisher is polled once after a start.
            is_due = is_due or (publisher not in self._contacted_at and publisher not in self._polled_at)
            if (is_due or provider.last_error) and provider.publisher.addresses and self.may_poll(publisher):
                wanted[publisher] = self._contact(publisher)
        findings.polls = nsmallest(polls_max, wanted, key=wanted.__getitem__)
        return findings

    def _contact(self, publisher: str) -> float:
        """Time of the last contact or poll."""
        return max(
            self._contacted_at.get(publisher, self._started_at), self._polled_at.get(publisher, self._started_at)
        )
