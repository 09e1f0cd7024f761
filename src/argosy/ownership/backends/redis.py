"""Ownership in Redis or Valkey: for fleets of many processes.

Each call is one Lua script, so it is one atomic step as it is in the memory twin; the scripts are in `lua/`. The
server's clock is the only one that counts. A server may forget what it has acknowledged (a restart, a failover), which
is why new leases wait for `grace_s` after each new run of it, and why `renew` tells a holder what the store knows.
"""

from collections.abc import AsyncIterator
from typing import Any, Self

from argosy.base.backends.redis.mux import CONNECT_TIMEOUT_S
from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Fenced, Invalid, Throttled
from argosy.ownership.auction import PENDING_BUFFER_S, rivals, threshold
from argosy.ownership.backends import redis_codec as codec
from argosy.ownership.backends.redis_codec import SessionRecord, milliseconds, seconds, to_json
from argosy.ownership.backends.redis_keys import Keys
from argosy.ownership.backends.redis_scripts import SpaceScripts
from argosy.ownership.backends.redis_watch import RedisWatch
from argosy.ownership.events import WatchEvent
from argosy.ownership.model import (
    BIDS_MAX,
    BidOutcome,
    BidResult,
    CloseOutcome,
    CloseResult,
    Lease,
    LeaseState,
    Member,
    Session,
    SessionInfo,
    SessionRole,
    Space,
    Unit,
)

SCHEMA = 1  # of the data in Redis; another number means another, incompatible layout
FREE_BYTES_MAX = 1 << 53  # Lua's numbers are exact up to here


class RedisStore:
    """Implements `OwnershipStore` for all nodes that use the same server, namespace and space."""

    def __init__(self, space: Space, scripts: SpaceScripts, *, clock: Clock, random: Random, grace_s: float) -> None:
        self.space = space
        self._scripts = scripts
        self._clock = clock
        self._random = random
        self._grace = milliseconds(grace_s)

    @classmethod
    async def open(
        cls,
        url: str,
        space: Space,
        *,
        clock: Clock,
        random: Random,
        grace_s: float,
        namespace: str = "argosy",
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> Self:
        """Connects, so that a wrong URL or password is known at once; `grace_s` should be the longest session TTL."""
        scripts = SpaceScripts.connect_to(
            url, Keys(namespace, space), clock=clock, random=random, connect_timeout_s=connect_timeout_s
        )
        try:
            found = await scripts.run("hello", str(SCHEMA))
            if found != str(SCHEMA):
                raise Invalid(
                    f"the data of {namespace}:{space.name} has layout {found}, and this version writes layout "
                    f"{SCHEMA}: use another namespace, or the version that wrote it"
                )
        except BaseException:
            await scripts.close()
            raise
        return cls(space, scripts, clock=clock, random=random, grace_s=grace_s)

    async def close(self) -> None:
        await self._scripts.close()

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def open_session(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        session = Session(role, member.node, member.address, f"{self._random.randrange(0, 1 << 63):016x}", ttl_s)
        reply = await self._run("open_session", *_names(session), milliseconds(ttl_s), *_said(session, member))
        if reply[0] == "in_use":
            raise Conflict(
                f"node id {member.node!r} is in use at {reply[1]!r}; use another id, or wait "
                f"{seconds(reply[2]):.1f} s after a restart"
            )
        return session

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]]:
        _, *pairs = await self._as(session, "renew", *_names(session), milliseconds(session.ttl_s))
        return frozenset((Unit.from_key(unit), int(epoch)) for unit, epoch in zip(pairs[::2], pairs[1::2], strict=True))

    async def announce(self, session: Session, member: Member) -> None:
        await self._as(session, "announce", *_names(session), *_said(session, member))

    async def end_session(self, session: Session) -> None:
        await self._run("end_session", *_names(session))

    async def sessions(self) -> list[SessionInfo]:
        found = []
        for role, left_ms, text in await self._run("sessions"):
            member = codec.session_record(text).member
            found.append(SessionInfo(SessionRole(role), member.node, member.address, seconds(left_ms)))
        return sorted(found, key=lambda info: (info.role, info.node))

    async def sweep(self) -> None:
        await self._run("sweep")

    # -- leases -----------------------------------------------------------------------------------------------------

    async def claim(self, session: Session, unit: Unit) -> Lease:
        if self.space.is_auctioned:  # OWN-2
            raise Invalid(f"units of {self.space.name!r} are acquired by auction: place a bid for {str(unit)!r}")
        outcome, detail = await self._as(session, "claim", session.node, session.token, unit.key, self._grace)
        if outcome == "held":
            raise Conflict(f"{str(unit)!r} is held by {detail!r}")
        if outcome == "wait":
            raise Throttled("store in its grace period: it may have lost leases", retry_after_s=seconds(detail))
        return codec.lease(detail)

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        reply = await self._as(session, "set_state", *_hold(session, unit, epoch), state)
        if reply[0] == "not_held":
            raise Fenced(f"{str(unit)!r} is not held by {session.node!r} at epoch {epoch}")
        return codec.lease(reply[1])

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        reply = await self._run("release", *_hold(session, unit, epoch))
        return bool(reply[0] == "ok")

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        if to not in unit.siblings():
            return None
        reply = await self._run("hand_over", *_hold(session, unit, epoch), to.key)
        return codec.lease(reply[1]) if reply[0] == "ok" else None

    async def watch(self) -> AsyncIterator[WatchEvent]:
        place = RedisWatch(self._scripts, clock=self._clock, random=self._random)
        try:
            while True:
                for fact in await place.next_facts():
                    yield fact
        finally:
            await place.close()

    # -- auctions ---------------------------------------------------------------------------------------------------

    async def place_bid(
        self,
        session: Session,
        unit: Unit,
        *,
        free_bytes: int,
        min_bytes: int,
        max_bids: int | None,
        window_s: float,
    ) -> BidResult:
        if abs(free_bytes) > FREE_BYTES_MAX:
            raise Invalid(f"free_bytes must be at most {FREE_BYTES_MAX}, not {free_bytes}")
        outcome, *details = await self._as(
            session,
            "place_bid",
            session.node,
            session.token,
            unit.key,
            str(free_bytes),
            str(min_bytes),
            "" if max_bids is None else str(threshold(max_bids, 0)),
            str(BIDS_MAX),
            milliseconds(window_s),
            milliseconds(PENDING_BUFFER_S),
            _rivals(unit),
            more_keys=(self._scripts.keys.bids(unit),),
        )
        if outcome != BidOutcome.PLACED:
            return BidResult(BidOutcome(outcome))
        has_opened, is_full, max_bids = details
        return BidResult(BidOutcome.PLACED, bool(has_opened), bool(is_full), max_bids)

    async def close_auction(self, unit: Unit) -> CloseResult:
        outcome, *details = await self._run(
            "close_auction", unit.key, self._grace, _rivals(unit), more_keys=(self._scripts.keys.bids(unit),)
        )
        match CloseOutcome(outcome):
            case CloseOutcome.ALREADY_CLOSED:
                return CloseResult(CloseOutcome.ALREADY_CLOSED)
            case CloseOutcome.NOT_DUE:
                return CloseResult(CloseOutcome.NOT_DUE, wait_s=seconds(details[0]))
            case closed:
                text, bids, is_short_circuit, open_for_ms = details
                lease = codec.lease(text) if text else None
                return CloseResult(closed, lease, bids, bool(is_short_circuit), seconds(open_for_ms))

    async def push_max_bids(self, max_bids: int | None) -> None:
        value = "" if max_bids is None else str(threshold(max_bids, 0))
        await self._run("push_max_bids", value, self._scripts.keys.channel)

    # -- asking -----------------------------------------------------------------------------------------------------

    async def _run(self, script: str, *args: str, more_keys: tuple[str, ...] = ()) -> Any:
        return await self._scripts.run(script, *args, more_keys=more_keys)

    async def _as(self, session: Session, script: str, *args: str, more_keys: tuple[str, ...] = ()) -> Any:
        """Asks for something that only a living session may."""
        reply = await self._run(script, *args, more_keys=more_keys)
        if reply[0] == "fenced":
            raise Fenced(f"the {session.role} session of node {session.node!r} has ended; open a new one")
        return reply


def _names(session: Session) -> tuple[str, str, str]:
    return session.role, session.node, session.token


def _hold(session: Session, unit: Unit, epoch: int) -> tuple[str, str, str, str]:
    return session.node, session.token, unit.key, str(epoch)


def _said(session: Session, member: Member) -> tuple[str, str, str]:
    """What a session's node says about itself, as the scripts keep it, tell it and count it."""
    record = SessionRecord(session.token, session.address, member)
    return to_json(record), to_json(member), "1" if member.is_bidding else "0"


def _rivals(unit: Unit) -> str:
    return to_json([rival.key for rival in rivals(unit)])
