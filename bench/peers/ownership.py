"""Peers of the ownership benchmark, on the same server.

On Valkey: the lock of redis-py, which most people would use. It is a bare key with a time to live, without epoch,
session or watchers, so it does less per call. On etcd: the bare transactions that create and delete one key on a lease,
which are the lower bound of any lock there.
"""

from collections.abc import Mapping

from argosy.bench.harness import Run, Values
from argosy.bench.ownership.store_calls import TTL_S, BenchStore, time_all
from argosy.ownership.backends.etcd_client import EtcdClient, EtcdUrl, ops


def lease_runs(store: BenchStore, count: int) -> Mapping[str, Run]:
    match store.name:
        case "valkey":
            return {"redis-py Lock": lambda: redis_locks(store, count)}
        case "etcd":
            return {"bare etcd txn": lambda: etcd_transactions(store, count)}
    return {}


async def redis_locks(store: BenchStore, count: int) -> Values:
    from redis.asyncio import Redis
    from redis.asyncio.lock import Lock

    assert store.server is not None
    async with Redis.from_url(store.server.url) as client:
        locks = [Lock(client, f"lock-{n}", timeout=TTL_S, blocking=False, thread_local=False) for n in range(count)]
        return {
            f"lease.acquire.{store.name}": count / await time_all(lambda lock: lock.acquire(), locks),
            f"lease.renew.{store.name}": count / await time_all(lambda lock: lock.reacquire(), locks),
            f"lease.release.{store.name}": count / await time_all(lambda lock: lock.release(), locks),
        }


async def etcd_transactions(store: BenchStore, count: int) -> Values:
    assert store.server is not None
    client = await EtcdClient.open(EtcdUrl.parse(store.server.url))
    try:
        lease = await client.grant(int(TTL_S))
        keys = [b"/peer/%d" % n for n in range(count)]

        async def create(key: bytes) -> None:
            reply = await client.txn(when=[ops.is_absent(key)], then=[ops.put(key, b"n1", lease=lease)])
            assert reply.succeeded

        return {
            f"lease.acquire.{store.name}": count / await time_all(create, keys),
            f"lease.release.{store.name}": count / await time_all(client.delete, keys),
        }
    finally:
        await client.close()
