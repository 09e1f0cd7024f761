"""Sessions and leases in etcd, and the grace period of a store that may have lost leases.

A session is one etcd lease, so etcd itself deletes all keys of a session that ends. A unit's lease is one key on the
holder session's etcd lease. Every change is one transaction, conditional on the keys being as they were read, so no
instant has two holders (OWN-1).
"""

import asyncio
import math

from argosy.base.clock import Clock
from argosy.base.errors import Conflict, Fenced, Invalid, Throttled, Unavailable
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import (
    delete,
    first_kv,
    get,
    get_all,
    is_absent,
    is_at,
    is_attached,
    is_other_value,
    is_value,
    put,
)
from argosy.ownership.backends.etcd_records import (
    EtcdKeys,
    LeaseValue,
    MetaValue,
    decode,
    encode,
    is_of,
    lease_of,
    read_lease,
    token_of,
)
from argosy.ownership.model import Lease, LeaseState, Member, Session, SessionInfo, SessionRole, Space, Unit

ATTEMPTS_MAX = 8  # only its holder and its expiry change a lease, so even a second attempt is rare
LOOKUPS_MAX = 32  # concurrent requests for remaining TTLs: an operator's list must not delay renewals
EXPIRY_SLACK_S = 0.5  # etcd reports whole seconds and expires leases twice a second


class EtcdSessions:
    """The sessions of one space."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys) -> None:
        self._client = client
        self._keys = keys

    async def open(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        if ttl_s <= 0:
            raise Invalid(f"a session's ttl_s must be positive, not {ttl_s:g}")
        # etcd counts whole seconds, so it keeps the session longer than the node relies on it, which is safe (OWN-4).
        lease = await self._client.grant(math.ceil(ttl_s))
        key = self._keys.session(role, member.node)
        # The lease is created before the key, because the key must be attached to it from its first instant.
        reply = await self._client.txn(
            when=[is_absent(key)], then=[put(key, encode(member), lease=lease)], otherwise=[get(key)]
        )
        if reply.succeeded:
            return Session(role, member.node, member.address, token_of(lease), ttl_s)
        # The unused lease would otherwise stay until its TTL ends.
        await self._client.revoke(lease)
        other = first_kv(reply.responses[0])
        assert other is not None  # the transaction failed because it exists
        wait_s = max(0, await self._client.time_to_live(other.lease))
        raise Conflict(
            f"node id {member.node!r} is in use at {decode(other, Member).address!r}; use another id, or "
            f"wait {wait_s:.1f} s after a restart"
        )

    async def renew(self, session: Session) -> None:
        # etcd answers a renewal of an ended lease with TTL 0 instead of an error.
        if await self._client.keep_alive(lease_of(session)) <= 0:
            raise session_ended_error(session)

    async def announce(self, session: Session, member: Member) -> None:
        key, value = self._keys.session(session.role, session.node), encode(member)
        # An unchanged record is not written: every write is an event for every watcher of the space.
        reply = await self._client.txn(
            when=[is_attached(key, lease_of(session)), is_other_value(key, value)],
            then=[put(key, value, lease=lease_of(session))],
            otherwise=[get(key)],
        )
        if not reply.succeeded and not is_of(first_kv(reply.responses[0]), session):
            raise session_ended_error(session)

    async def end(self, session: Session) -> None:
        await self._client.revoke(lease_of(session))

    async def list(self) -> list[SessionInfo]:
        slots = asyncio.Semaphore(LOOKUPS_MAX)

        async def read_session(role: SessionRole, kv: pb.KeyValue) -> SessionInfo | None:
            async with slots:
                left_s = await self._client.time_to_live(kv.lease)
            member = decode(kv, Member)
            # A session may end between the listing and the lookup.
            return None if left_s < 0 else SessionInfo(role, member.node, member.address, float(left_s))

        listings = [(role, (await self._client.list(self._keys.sessions(role)))[0]) for role in sorted(SessionRole)]
        infos = await asyncio.gather(*(read_session(role, kv) for role, kvs in listings for kv in kvs))
        return sorted((info for info in infos if info is not None), key=lambda info: (info.role, info.node))

    async def count_bidding(self) -> int:
        """Number of members that would accept one more unit. A crashed node's two sessions end at different times:
        without its holder session it cannot bid either."""
        roles = (SessionRole.MEMBER, SessionRole.HOLDER)
        reply = await self._client.txn(then=[get_all(self._keys.sessions(role)) for role in roles])
        members, holders = ([decode(kv, Member) for kv in part.response_range.kvs] for part in reply.responses)
        return len({member.node for member in members if member.is_bidding} & {holder.node for holder in holders})


class Grace:
    """Grace period of a store that may have lost leases: part of the conditions of every grant in one space.

    etcd keeps everything that it has acknowledged, but it can be wiped while nodes still serve. The key `meta` proves
    that the store still has its data. A node that finds it missing writes it together with `grace`, a key that exists
    for as long as a lost lease could be in use. Every grant requires that `meta` is the known one and `grace` is absent
    (OWN-1).

    A restored backup contains its old `meta` and cannot be recognized: delete `meta` before nodes connect to it.
    """

    def __init__(self, client: EtcdClient, keys: EtcdKeys, *, clock: Clock, grace_s: float) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._grace_s = grace_s
        self._meta = b""
        self.base = 0

    def knows_store(self) -> pb.Compare:
        return is_value(self._keys.meta, self._meta)

    def conditions(self) -> list[pb.Compare]:
        return [self.knows_store(), is_absent(self._keys.grace)]

    def is_known(self, meta: pb.KeyValue | None) -> bool:
        return meta is not None and meta.value == self._meta

    async def begin(self) -> None:
        """Reads the store's epoch base, or writes one and starts the grace period."""
        meta = await self._client.get(self._keys.meta)
        if meta is None:
            meta = await self._create_meta()
        self._meta = meta.value
        self.base = decode(meta, MetaValue).base

    async def wait_s(self, grace: pb.KeyValue) -> float:
        """Remaining grace period, rounded up."""
        left_s = await self._client.time_to_live(grace.lease)
        return max(0, left_s) + EXPIRY_SLACK_S

    async def _create_meta(self) -> pb.KeyValue:
        """Several nodes may do this at once; all use the base and grace of the first one."""
        # The wall clock, so that epochs of a wiped store begin above those granted before (docs/decisions/0003).
        meta = pb.KeyValue(key=self._keys.meta, value=encode(MetaValue(base=int(self._clock.wall() * 1e6))))
        writes = [put(meta.key, meta.value)]
        lease = 0
        if self._grace_s > 0:
            lease = await self._client.grant(math.ceil(self._grace_s))
            writes.append(put(self._keys.grace, b"", lease=lease))
        reply = await self._client.txn(when=[is_absent(meta.key)], then=writes, otherwise=[get(meta.key)])
        if reply.succeeded:
            return meta
        if lease:
            await self._client.revoke(lease)
        theirs = first_kv(reply.responses[0])
        assert theirs is not None  # the transaction failed because it exists
        return theirs


class EtcdLeases:
    """The leases of one space."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, grace: Grace, space: Space) -> None:
        self._client = client
        self._keys = keys
        self._grace = grace
        self._space = space

    async def claim(self, session: Session, unit: Unit) -> Lease:
        if self._space.is_auctioned:  # OWN-2
            raise Invalid(f"units of {self._space.name!r} are acquired by auction: place a bid for {str(unit)!r}")
        session_key, key = self._keys.session(SessionRole.HOLDER, session.node), self._keys.lease(unit)
        for _ in range(ATTEMPTS_MAX):
            value = LeaseValue(session.node, session.address, LeaseState.WARMING, self._grace.base)
            reply = await self._client.txn(
                when=[is_attached(session_key, lease_of(session)), is_absent(key), *self._grace.conditions()],
                then=[put(key, encode(value), lease=lease_of(session))],
                otherwise=[get(session_key), get(key), get(self._keys.grace)],
            )
            if reply.succeeded:
                return lease_from_grant(unit, value, lease_of(session), reply)
            session_kv, lease_kv, grace = map(first_kv, reply.responses)
            if not is_of(session_kv, session):
                raise session_ended_error(session)
            # Before the grace period: a unit with a holder is a Conflict, whatever else holds it up.
            if lease_kv is not None:
                raise Conflict(f"{str(unit)!r} is held by {read_lease(lease_kv, unit).node!r}")
            if grace is not None:
                wait_s = await self._grace.wait_s(grace)
                raise Throttled("store in its grace period: it may have lost leases", retry_after_s=wait_s)
            await self._grace.begin()  # the remaining cause: the store has been wiped
        raise contention_error(f"claim of {str(unit)!r}")

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        key = self._keys.lease(unit)
        for _ in range(ATTEMPTS_MAX):
            kv = await self._client.get(key)
            if kv is None or not _is_held(kv, session, unit, epoch):
                raise Fenced(f"{str(unit)!r} is not held by {session.node!r} at epoch {epoch}")
            lease = read_lease(kv, unit)
            # Nothing is written, because every write is an event for every watcher.
            if lease.state is state:
                return lease
            value = LeaseValue(lease.node, lease.address, state, self._grace.base, epoch)
            reply = await self._client.txn(
                when=[is_at(key, kv.mod_revision)], then=[put(key, encode(value), lease=kv.lease)]
            )
            if reply.succeeded:
                return Lease(unit, lease.node, lease.address, lease.token, epoch, state)
        raise contention_error(f"state change of {str(unit)!r}")

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        key = self._keys.lease(unit)
        for _ in range(ATTEMPTS_MAX):
            kv = await self._client.get(key)
            if kv is None or not _is_held(kv, session, unit, epoch):
                return False
            if (await self._client.txn(when=[is_at(key, kv.mod_revision)], then=[delete(key)])).succeeded:
                return True
        raise contention_error(f"release of {str(unit)!r}")

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        """Overwrites the unit's key, which moves it to the successor's etcd lease, and deletes the successor's slot.

        The key exists all the time, so no other node can claim the unit; the write is a grant, so the epoch is new.
        """
        # Only the holder of another slot of the same unit can have it ready to serve.
        if to not in unit.siblings():
            return None
        key, successor_key = self._keys.lease(unit), self._keys.lease(to)
        for _ in range(ATTEMPTS_MAX):
            kv, successor_kv = map(first_kv, (await self._client.txn(then=[get(key), get(successor_key)])).responses)
            if kv is None or successor_kv is None or not _is_held(kv, session, unit, epoch):
                return None
            successor = read_lease(successor_kv, to)
            if successor.state is not LeaseState.READY:
                return None
            value = LeaseValue(successor.node, successor.address, LeaseState.READY, self._grace.base)
            reply = await self._client.txn(
                # Both keys exist, so both sessions are alive; and both are unchanged since they were read. The grace
                # period is not waited for, because the store has both leases.
                when=[
                    is_at(key, kv.mod_revision),
                    is_at(successor_key, successor_kv.mod_revision),
                    self._grace.knows_store(),
                ],
                then=[put(key, encode(value), lease=successor_kv.lease), delete(successor_key)],
            )
            if reply.succeeded:
                return lease_from_grant(unit, value, successor_kv.lease, reply)
            await self._grace.begin()
        raise contention_error(f"handoff of {str(unit)!r}")


def lease_from_grant(unit: Unit, value: LeaseValue, lease: int, reply: pb.TxnResponse) -> Lease:
    """The lease written by a granting transaction."""
    epoch = value.base + reply.header.revision
    return Lease(unit, value.node, value.address, token_of(lease), epoch, value.state)


def session_ended_error(session: Session) -> Fenced:
    return Fenced(f"the {session.role} session of node {session.node!r} has ended; open a new one")


def contention_error(what: str) -> Unavailable:
    """For a step that lost every one of its bounded attempts."""
    return Unavailable(f"{what} failed: other nodes changed the same keys at every attempt; retry")


def _is_held(kv: pb.KeyValue, session: Session, unit: Unit, epoch: int) -> bool:
    lease = read_lease(kv, unit)
    # The epoch makes a late or repeated request harmless: it names a lease that no longer exists.
    return is_of(kv, session) and lease.node == session.node and lease.epoch == epoch
