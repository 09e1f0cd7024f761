"""Keep-alive of one session: opens it, renews it in time, and stops relying on it before the store can expire it.

The store counts a TTL from the *arrival* of a request; this node counts it from before the request was *sent*, and
subtracts a margin (OWN-4). So the node always stops first, whatever the clocks show: no two clocks are ever compared,
and only their rates must agree within the margin (docs/decisions/0005).
"""

from dataclasses import dataclass

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.ownership.effects import Abort, Effect, OpenSession, RenewSession
from argosy.ownership.events import (
    Event,
    SessionEnded,
    SessionFailed,
    SessionOpened,
    SessionRejected,
    SessionRenewed,
)
from argosy.ownership.model import Session, SessionRole

# A restarted node finds its own previous session for at most one TTL. After two, another process must be using the node
# id, and this one stops.
REJECTED_MAX_TTLS = 2.0


@dataclass(frozen=True)
class KeepAliveTiming:
    """When to renew a session, and when to stop relying on it, as time since the request was sent."""

    ttl_s: float
    renew_s: float
    margin_s: float


class SessionKeepAlive:
    """State machine that keeps one session of one role alive."""

    def __init__(self, role: SessionRole, timing: KeepAliveTiming, random: Random) -> None:
        self.role = role
        self.session: Session | None = None
        self._timing = timing
        self._random = random
        # The first retries come quickly, because only a few fit between a failed renewal and the margin.
        self._backoff = Backoff(first_s=timing.renew_s / 16, ceiling_s=timing.renew_s / 2)
        # Before any confirmation nothing is valid, whatever the clock shows.
        self._valid_until = float("-inf")
        self._next_at: float | None = None  # None while a request is in flight, and when stopped
        self._is_running = False
        self._failures = 0
        self._rejected_since: float | None = None

    @property
    def valid_until(self) -> float:
        return self._valid_until

    def is_valid(self, now: float) -> bool:
        return self.session is not None and now < self._valid_until

    def start(self, now: float) -> None:
        """Opens a session, and keeps one open from now on. Does nothing if already started."""
        if not self._is_running:
            self._is_running = True
            self._next_at = now

    def stop(self) -> Session | None:
        """Stops renewing; returns the session, which the caller ends."""
        session, self.session = self.session, None
        self._is_running = False
        self._next_at = None
        self._valid_until = float("-inf")
        return session

    def deadline(self) -> float | None:
        return self._next_at

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            # After `stop` a late reply is ignored: adopting its session would bring a drained node back.
            case SessionOpened(session, sent_at) if session.role is self.role and self._is_running:
                self.session = session
                self._on_confirmed(sent_at)
            case SessionRenewed(session, sent_at, _) if session == self.session:
                self._on_confirmed(sent_at)
            case SessionEnded(session) if session == self.session:
                self._on_ended(now)
            case SessionFailed(role) if role is self.role and self._is_running:
                self._retry_later(now)
            case SessionRejected(role, reason) if role is self.role and self._is_running:
                return self._on_rejected(reason, now)
        return self._send_if_due(now)

    def _on_confirmed(self, sent_at: float) -> None:
        """Replies may arrive out of order, so the latest send time counts."""
        timing = self._timing
        self._valid_until = max(self._valid_until, sent_at + timing.ttl_s - timing.margin_s)
        # Jitter spreads the renewals of a fleet that was started at one instant.
        self._next_at = sent_at + timing.renew_s * self._random.uniform(0.9, 1.0)
        self._failures = 0
        self._rejected_since = None

    def _on_ended(self, now: float) -> None:
        self.session = None
        self._valid_until = float("-inf")
        self._next_at = now

    def _on_rejected(self, reason: str, now: float) -> list[Effect]:
        """Retries at first: a restarted node is rejected by its own previous session until that expires."""
        # Measured from the first rejection in a row; any confirmation in between starts it again.
        self._rejected_since = now if self._rejected_since is None else self._rejected_since
        if now - self._rejected_since > REJECTED_MAX_TTLS * self._timing.ttl_s:
            self._is_running, self._next_at = False, None
            return [Abort(reason)]
        self._retry_later(now)
        return []

    def _retry_later(self, now: float) -> None:
        self._failures += 1
        self._next_at = now + self._backoff.delay(self._failures, self._random)

    def _send_if_due(self, now: float) -> list[Effect]:
        if self._next_at is None or now < self._next_at:
            return []
        self._next_at = None
        # `_next_at` stays None until the reply, so there is one request at a time.
        return [OpenSession(self.role) if self.session is None else RenewSession(self.session)]
