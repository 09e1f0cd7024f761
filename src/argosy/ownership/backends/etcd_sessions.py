"""Sessions in etcd: one etcd lease each, so that etcd itself deletes all keys of a session that ends."""

import asyncio
import math

from argosy.base.errors import Conflict, Fenced, Invalid, Unavailable
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import (
    first_kv,
    get,
    get_all,
    is_absent,
    is_attached,
    is_other_value,
    put,
)
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_records import decode, encode, is_of, lease_of, token_of
from argosy.ownership.model import Member, Session, SessionInfo, SessionRole

_LOOKUPS_AT_ONCE_MAX = 32  # questions for the time left; an operator's list must not crowd out renewals


class EtcdSessions:
    """The sessions of one space."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys) -> None:
        self._client = client
        self._keys = keys

    async def open(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        if ttl_s <= 0:
            raise Invalid(f"a session's ttl_s must be positive, not {ttl_s:g}")
        # etcd counts whole seconds. The node keeps the shorter time it asked for, which errs on the safe side (OWN-4).
        lease = await self._client.grant(math.ceil(ttl_s))
        key = self._keys.session(role, member.node)
        reply = await self._client.txn(
            when=[is_absent(key)], then=[put(key, encode(member), lease=lease)], otherwise=[get(key)]
        )
        if reply.succeeded:
            return Session(role, member.node, member.address, token_of(lease), ttl_s)
        await self._client.revoke(lease)
        living = first_kv(reply.responses[0])
        assert living is not None  # the transaction failed because it is there
        wait_s = max(0, await self._client.time_to_live(living.lease))
        raise Conflict(
            f"node id {member.node!r} is in use at {decode(living, Member).address!r}; use another id, or "
            f"wait {wait_s:.1f} s after a restart"
        )

    async def renew(self, session: Session) -> None:
        if await self._client.keep_alive(lease_of(session)) <= 0:
            raise fenced_error(session)

    async def announce(self, session: Session, member: Member) -> None:
        key, value = self._keys.session(session.role, session.node), encode(member)
        reply = await self._client.txn(
            when=[is_attached(key, lease_of(session)), is_other_value(key, value)],
            then=[put(key, value, lease=lease_of(session))],
            otherwise=[get(key)],
        )
        if not reply.succeeded and not is_of(first_kv(reply.responses[0]), session):
            raise fenced_error(session)

    async def end(self, session: Session) -> None:
        await self._client.revoke(lease_of(session))

    async def list(self) -> list[SessionInfo]:
        places = asyncio.Semaphore(_LOOKUPS_AT_ONCE_MAX)

        async def look_up(role: SessionRole, kv: pb.KeyValue) -> SessionInfo | None:
            async with places:
                left_s = await self._client.time_to_live(kv.lease)
            member = decode(kv, Member)
            return None if left_s < 0 else SessionInfo(role, member.node, member.address, float(left_s))

        listings = [(role, (await self._client.list(self._keys.sessions(role)))[0]) for role in sorted(SessionRole)]
        infos = await asyncio.gather(*(look_up(role, kv) for role, kvs in listings for kv in kvs))
        return sorted((info for info in infos if info is not None), key=lambda info: (info.role, info.node))

    async def bidding_now(self) -> int:
        """How many members would take one more unit.

        A crashed node's two sessions end at different times: whose leases have fallen will not bid either.
        """
        roles = (SessionRole.MEMBER, SessionRole.HOLDER)
        reply = await self._client.txn(then=[get_all(self._keys.sessions(role)) for role in roles])
        members, holders = ([decode(kv, Member) for kv in part.response_range.kvs] for part in reply.responses)
        return len({member.node for member in members if member.is_bidding} & {holder.node for holder in holders})


def fenced_error(session: Session) -> Fenced:
    return Fenced(f"the {session.role} session of node {session.node!r} has ended; open a new one")


def contended_error(what: str) -> Unavailable:
    """For a step that lost every one of its bounded races."""
    return Unavailable(f"{what}: others changed the same keys at every attempt: try again")
