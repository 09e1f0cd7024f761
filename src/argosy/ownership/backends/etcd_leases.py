"""Leases in etcd: one key per unit, on the holder session's etcd lease.

Every change is one transaction on condition that the key is as it was read, so no instant has two holders (OWN-1).
"""

from argosy.base.errors import Conflict, Fenced, Invalid, Throttled
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import delete, first_kv, get, is_absent, is_at, is_attached, put
from argosy.ownership.backends.etcd_grace import Grace
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_records import LeaseValue, encode, is_of, lease_of, read_lease, token_of
from argosy.ownership.backends.etcd_sessions import contended_error, fenced_error
from argosy.ownership.model import Lease, LeaseState, Session, SessionRole, Space, Unit

ATTEMPTS_MAX = 8  # only its holder and its expiry change a lease, so even a second attempt is rare


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
            session_kv, held, grace = map(first_kv, reply.responses)
            if not is_of(session_kv, session):
                raise fenced_error(session)
            if held is not None:
                raise Conflict(f"{str(unit)!r} is held by {read_lease(held, unit).node!r}")
            if grace is not None:
                wait_s = await self._grace.wait_s(grace)
                raise Throttled("store in its grace period: it may have lost leases", retry_after_s=wait_s)
            await self._grace.begin()  # the remaining cause: the store has been wiped
        raise contended_error(f"claim of {str(unit)!r}")

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        key = self._keys.lease(unit)
        for _ in range(ATTEMPTS_MAX):
            kv = await self._client.get(key)
            if kv is None or not _is_held(kv, session, unit, epoch):
                raise Fenced(f"{str(unit)!r} is not held by {session.node!r} at epoch {epoch}")
            lease = read_lease(kv, unit)
            if lease.state is state:
                return lease
            value = LeaseValue(lease.node, lease.address, state, self._grace.base, epoch)
            reply = await self._client.txn(
                when=[is_at(key, kv.mod_revision)], then=[put(key, encode(value), lease=kv.lease)]
            )
            if reply.succeeded:
                return Lease(unit, lease.node, lease.address, lease.token, epoch, state)
        raise contended_error(f"change of {str(unit)!r}")

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        key = self._keys.lease(unit)
        for _ in range(ATTEMPTS_MAX):
            kv = await self._client.get(key)
            if kv is None or not _is_held(kv, session, unit, epoch):
                return False
            if (await self._client.txn(when=[is_at(key, kv.mod_revision)], then=[delete(key)])).succeeded:
                return True
        raise contended_error(f"release of {str(unit)!r}")

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        """Overwrites the unit's key, which moves it to the successor's etcd lease, and deletes the successor's slot.

        The key exists all the time, so no other node can claim the unit; the write is a grant, so the epoch is new.
        """
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
                # Both keys exist, so both sessions are alive; and both are unchanged since they were read.
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
        raise contended_error(f"handoff of {str(unit)!r}")


def lease_from_grant(unit: Unit, value: LeaseValue, lease: int, reply: pb.TxnResponse) -> Lease:
    """The lease written by a granting transaction."""
    epoch = value.base + reply.header.revision
    return Lease(unit, value.node, value.address, token_of(lease), epoch, value.state)


def _is_held(kv: pb.KeyValue, session: Session, unit: Unit, epoch: int) -> bool:
    lease = read_lease(kv, unit)
    return is_of(kv, session) and lease.node == session.node and lease.epoch == epoch
