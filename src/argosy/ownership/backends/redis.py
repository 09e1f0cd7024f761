"""Ownership store in Redis or Valkey, for fleets of many processes.

Each call is one Lua script (in `lua/`) and therefore one atomic step, as in the in-memory store. Only the server's
clock counts: scripts read `TIME`, and no node's clock is compared with it. A server may lose writes that it has
acknowledged (a restart, a failover). So after each new run of the server no lease is granted for `grace_s`, and a
renewal returns the leases that the store has for the session.
"""

from collections.abc import AsyncIterator
from typing import Any, Self

from argosy.base.backends.redis.mux import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S
from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Fenced, Invalid, Throttled, Unavailable
from argosy.base.retry import Backoff
from argosy.ownership.backends.redis_records import (
    OwnershipKeys,
    SessionRecord,
    decode_event,
    decode_lease,
    decode_session,
    decode_snapshot,
    encode_json,
    milliseconds,
    seconds,
)
from argosy.ownership.backends.redis_scripts import SpaceScripts
from argosy.ownership.events import WatchEvent
from argosy.ownership.model import (
    BIDS_MAX,
    PENDING_BUFFER_S,
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
    rivals,
    threshold,
)

SCHEMA = 1  # layout of the data in Redis; another number is another, incompatible layout
FREE_BYTES_MAX = 1 << 53  # Lua's numbers are doubles: integers are exact up to here

# Events arrive at once; the wait only bounds how long a lost stream goes unnoticed.
BLOCK_S = 2.0  # how long one read of the stream waits; after an empty read the watch checks its position
BATCH_MAX = 500  # events per read
UNREACHABLE_S_MAX = 60.0  # the watch itself waits this long for the server; after that its caller decides
# The ceiling keeps the watchers of a fleet from flooding a server that returns.
RECONNECT_BACKOFF = Backoff(first_s=0.05, ceiling_s=2.0)


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
        """Connects, so that a wrong URL or password is reported here. `grace_s` should be the longest session TTL: for
        that long a lease that the server has lost may still be in use."""
        scripts = SpaceScripts.connect_to(
            url, OwnershipKeys(namespace, space), clock=clock, random=random, connect_timeout_s=connect_timeout_s
        )
        try:
            schema = await scripts.run("hello", str(SCHEMA))
            if schema != str(SCHEMA):
                raise Invalid(
                    f"data of {namespace}:{space.name} has layout {schema}, and this version writes layout {SCHEMA}; "
                    "use another namespace, or the version that wrote it"
                )
        except BaseException:
            await scripts.close()
            raise
        return cls(space, scripts, clock=clock, random=random, grace_s=grace_s)

    async def close(self) -> None:
        await self._scripts.close()

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def open_session(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        # 63 random bits: unique to this run of the node, so that a second process under its id is recognised.
        session = Session(role, member.node, member.address, f"{self._random.randrange(0, 1 << 63):016x}", ttl_s)
        reply = await self._scripts.run(
            "open_session", *_session_args(session), milliseconds(ttl_s), *_member_args(session, member)
        )
        if reply[0] == "in_use":
            raise Conflict(
                f"node id {member.node!r} is in use at {reply[1]!r}; use another id, or wait "
                f"{seconds(reply[2]):.1f} s after a restart"
            )
        return session

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]]:
        _, *pairs = await self._run_as(session, "renew", *_session_args(session), milliseconds(session.ttl_s))
        return frozenset((Unit.from_key(unit), int(epoch)) for unit, epoch in zip(pairs[::2], pairs[1::2], strict=True))

    async def announce(self, session: Session, member: Member) -> None:
        await self._run_as(session, "announce", *_session_args(session), *_member_args(session, member))

    async def end_session(self, session: Session) -> None:
        await self._scripts.run("end_session", *_session_args(session))

    async def sessions(self) -> list[SessionInfo]:
        infos = []
        for role, left_ms, text in await self._scripts.run("sessions"):
            member = decode_session(text).member
            infos.append(SessionInfo(SessionRole(role), member.node, member.address, seconds(left_ms)))
        return sorted(infos, key=lambda info: (info.role, info.node))

    async def sweep(self) -> None:
        await self._scripts.run("sweep")

    # -- leases -----------------------------------------------------------------------------------------------------

    async def claim(self, session: Session, unit: Unit) -> Lease:
        if self.space.is_auctioned:  # OWN-2
            raise Invalid(f"units of {self.space.name!r} are acquired by auction: place a bid for {str(unit)!r}")
        outcome, detail = await self._run_as(session, "claim", session.node, session.token, unit.key, self._grace)
        if outcome == "held":
            raise Conflict(f"{str(unit)!r} is held by {detail!r}")
        # The remaining time comes with the error, so that the node claims again exactly then.
        if outcome == "wait":
            raise Throttled("store in its grace period: it may have lost leases", retry_after_s=seconds(detail))
        return decode_lease(detail)

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        reply = await self._run_as(session, "set_state", *_lease_args(session, unit, epoch), state)
        if reply[0] == "not_held":
            raise Fenced(f"{str(unit)!r} is not held by {session.node!r} at epoch {epoch}")
        return decode_lease(reply[1])

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        reply = await self._scripts.run("release", *_lease_args(session, unit, epoch))
        return bool(reply[0] == "ok")

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        if to not in unit.siblings():
            return None
        reply = await self._scripts.run("hand_off", *_lease_args(session, unit, epoch), to.key)
        return decode_lease(reply[1]) if reply[0] == "ok" else None

    async def watch(self) -> AsyncIterator[WatchEvent]:
        position = _StreamPosition(self._scripts, clock=self._clock, random=self._random)
        try:
            while True:
                for event in await position.next_events():
                    yield event
        finally:
            await position.close()

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
        # Rejected rather than rounded: bids are ranked by this number (see `rank`).
        if abs(free_bytes) > FREE_BYTES_MAX:
            raise Invalid(f"free_bytes must be at most {FREE_BYTES_MAX}, not {free_bytes}")
        outcome, *details = await self._run_as(
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
            _rival_keys(unit),
            more_keys=(self._scripts.keys.bids(unit),),
        )
        if outcome != BidOutcome.PLACED:
            return BidResult(BidOutcome(outcome))
        has_opened, is_full, max_bids = details
        return BidResult(BidOutcome.PLACED, bool(has_opened), bool(is_full), max_bids)

    async def close_auction(self, unit: Unit) -> CloseResult:
        outcome, *details = await self._scripts.run(
            "close_auction", unit.key, self._grace, _rival_keys(unit), more_keys=(self._scripts.keys.bids(unit),)
        )
        match CloseOutcome(outcome):
            case CloseOutcome.ALREADY_CLOSED:
                return CloseResult(CloseOutcome.ALREADY_CLOSED)
            case CloseOutcome.NOT_DUE:
                return CloseResult(CloseOutcome.NOT_DUE, wait_s=seconds(details[0]))
            case closed:
                text, bids, is_short_circuit, open_for_ms = details
                lease = decode_lease(text) if text else None
                return CloseResult(closed, lease, bids, bool(is_short_circuit), seconds(open_for_ms))

    async def push_max_bids(self, max_bids: int | None) -> None:
        value = "" if max_bids is None else str(threshold(max_bids, 0))
        await self._scripts.run("push_max_bids", value, self._scripts.keys.channel)

    async def _run_as(self, session: Session, script: str, *args: str, more_keys: tuple[str, ...] = ()) -> Any:
        """Runs a script that requires a live session."""
        reply = await self._scripts.run(script, *args, more_keys=more_keys)
        if reply[0] == "fenced":
            raise Fenced(f"the {session.role} session of node {session.node!r} has ended; open a new one")
        return reply


def _session_args(session: Session) -> tuple[str, str, str]:
    return session.role, session.node, session.token


def _lease_args(session: Session, unit: Unit, epoch: int) -> tuple[str, str, str, str]:
    return session.node, session.token, unit.key, str(epoch)


def _member_args(session: Session, member: Member) -> tuple[str, str, str]:
    """A node's record in the three forms that scripts need: to store it, to publish it, and to count bidders."""
    record = SessionRecord(session.token, session.address, member)
    return encode_json(record), encode_json(member), "1" if member.is_bidding else "0"


def _rival_keys(unit: Unit) -> str:
    return encode_json([rival.key for rival in rivals(unit)])


class _StreamPosition:
    """One watcher's position in the stream of events: a snapshot, then every event without a gap.

    Events are numbered. If a number is missing (the stream was trimmed, or the server lost its latest writes) or the
    server is another run than before, the watcher starts again with a snapshot.
    """

    def __init__(self, scripts: SpaceScripts, *, clock: Clock, random: Random) -> None:
        self._scripts = scripts.sibling(call_timeout_s=BLOCK_S + CALL_TIMEOUT_S)
        self._clock = clock
        self._random = random
        self._run_id = ""
        self._number = 0  # of the last event delivered
        self._entry_id = "0-0"  # of the last event's entry in the stream
        self._needs_snapshot = True
        self._must_check = False  # the connection broke, so the server may be another run now

    async def next_events(self) -> list[WatchEvent]:
        """The next events, or an empty list after BLOCK_S without any. Raises `Unavailable` once the server has been
        unreachable for UNREACHABLE_S_MAX."""
        unreachable_since = self._clock.now()
        failures = 0
        while True:
            try:
                return await self._read()
            # Short outages are bridged here, because a new snapshot costs every watcher a read of the whole space.
            except Unavailable:
                self._must_check = True
                failures += 1
                if self._clock.now() - unreachable_since > UNREACHABLE_S_MAX:
                    raise
                await self._clock.sleep(RECONNECT_BACKOFF.delay(failures, self._random))

    async def close(self) -> None:
        await self._scripts.close()

    async def _read(self) -> list[WatchEvent]:
        if self._must_check:
            await self._check_position()
        if self._needs_snapshot:
            return [await self._read_snapshot()]
        block, count = str(int(BLOCK_S * 1000)), str(BATCH_MAX)
        stream = self._scripts.keys.events
        reply = await self._scripts.call("XREAD", "COUNT", count, "BLOCK", block, "STREAMS", stream, self._entry_id)
        if reply:
            return self._decode_entries(reply[0][1])
        await self._check_position()
        return []

    async def _read_snapshot(self) -> WatchEvent:
        run_id, number, entry_id, *content = await self._scripts.run("snapshot")
        self._run_id, self._number, self._entry_id = run_id, int(number), entry_id
        self._needs_snapshot = False
        return decode_snapshot(*content)

    def _decode_entries(self, entries: list[tuple[str, list[str]]]) -> list[WatchEvent]:
        events = []
        for entry_id, pairs in entries:
            fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
            # The events before the gap are still delivered; the snapshot then replaces the state.
            if int(fields["number"]) != self._number + 1:
                self._needs_snapshot = True
                break
            events.append(decode_event(fields["kind"], fields["data"]))
            self._number, self._entry_id = self._number + 1, entry_id
        return events

    async def _check_position(self) -> None:
        """Detects what the stream itself cannot show: a server that restarted, or lost the end of the stream. An empty
        stream and a quiet one look the same to XREAD."""
        info: str = await self._scripts.call("INFO", "server")
        run_id = info.partition("run_id:")[2].partition("\r\n")[0]
        # Fewer events than were delivered here: the server has lost its latest writes.
        number = await self._scripts.call("HGET", self._scripts.keys.meta, "facts")
        if run_id != self._run_id or int(number or 0) < self._number:
            self._needs_snapshot = True
        self._must_check = False
