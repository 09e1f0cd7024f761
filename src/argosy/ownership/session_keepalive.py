"""One session kept alive: opened, renewed in good time, and never believed longer than the store can have promised.

The store counts a promise from when a request *arrived*; this node counts it from before the request *left*, and
stops a margin earlier (OWN-4). So no clock is ever compared with another, and only a drift of rates within the margin
matters.
"""

from dataclasses import dataclass

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.ownership.effects import Effect, GiveUp, OpenSession, RenewSession
from argosy.ownership.events import (
    Event,
    SessionEnded,
    SessionMissed,
    SessionOpened,
    SessionRefused,
    SessionRenewed,
)
from argosy.ownership.model import Role, Session

# A restarted node finds its own earlier session for at most one TTL; past that the id belongs to somebody else.
REFUSED_FOR_TTLS = 2.0


@dataclass(frozen=True)
class PromiseTiming:
    """When to renew and when to stop believing, as spans from when the request left."""

    ttl_s: float
    renew_s: float
    margin_s: float


class Promise:
    """A machine that keeps one session of one role."""

    def __init__(self, role: Role, timing: PromiseTiming, random: Random) -> None:
        self.role = role
        self.session: Session | None = None
        self._timing = timing
        self._random = random
        # A store that is away is asked again soon at first: there are only so many tries before the margin.
        self._backoff = Backoff(first_s=timing.renew_s / 16, ceiling_s=timing.renew_s / 2)
        self._valid_until = float("-inf")
        self._next_at: float | None = None  # None while a request is under way, or when closed
        self._is_wanted = False
        self._failures = 0
        self._refused_since: float | None = None

    @property
    def valid_until(self) -> float:
        return self._valid_until

    def is_valid(self, now: float) -> bool:
        return self.session is not None and now < self._valid_until

    def want(self, now: float) -> None:
        """From now on keep a session open."""
        if not self._is_wanted:
            self._is_wanted = True
            self._next_at = now

    def forget(self) -> Session | None:
        """Keep it no longer; returns the session for the caller to end."""
        session, self.session = self.session, None
        self._is_wanted = False
        self._next_at = None
        self._valid_until = float("-inf")
        return session

    def deadline(self) -> float | None:
        return self._next_at

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case SessionOpened(session, sent_at) if session.role is self.role and self._is_wanted:
                self.session = session
                self._confirmed(sent_at)
            case SessionRenewed(session, sent_at, _) if session == self.session:
                self._confirmed(sent_at)
            case SessionEnded(session) if session == self.session:
                self._lost(now)
            case SessionMissed(role) if role is self.role and self._is_wanted:
                self._failures += 1
                self._next_at = now + self._backoff.delay(self._failures, self._random)
            case SessionRefused(role, why) if role is self.role and self._is_wanted:
                return self._refused(why, now)
        return self._ask(now)

    def _confirmed(self, sent_at: float) -> None:
        """Answers may overtake each other; the latest departure counts."""
        timing = self._timing
        self._valid_until = max(self._valid_until, sent_at + timing.ttl_s - timing.margin_s)
        self._next_at = sent_at + timing.renew_s * self._random.uniform(0.9, 1.0)
        self._failures = 0
        self._refused_since = None

    def _lost(self, now: float) -> None:
        self.session = None
        self._valid_until = float("-inf")
        self._next_at = now

    def _refused(self, why: str, now: float) -> list[Effect]:
        self._refused_since = now if self._refused_since is None else self._refused_since
        if now - self._refused_since > REFUSED_FOR_TTLS * self._timing.ttl_s:
            self._is_wanted, self._next_at = False, None
            return [GiveUp(why)]
        self._failures += 1
        self._next_at = now + self._backoff.delay(self._failures, self._random)
        return []

    def _ask(self, now: float) -> list[Effect]:
        if self._next_at is None or now < self._next_at:
            return []
        self._next_at = None
        return [OpenSession(self.role) if self.session is None else RenewSession(self.session)]
