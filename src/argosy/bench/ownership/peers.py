"""What others do for the same purpose, on the same server, in the same minute.

On Valkey: the lock of redis-py, which most people would take. It is a bare key with a time to live: no epoch, no
session, no watchers to be told, so it does less per call. On etcd: the bare transactions that create and delete one key
on a lease, below which nothing can go.
"""

from collections.abc import Mapping

from argosy.bench.harness import Run, Values
from argosy.bench.ownership.calls import TTL_S
from argosy.bench.ownership.site import Site, timed


def of_leases(site: Site, count: int) -> Mapping[str, Run]:
    match site.name:
        case "valkey":
            return {"redis-py Lock": lambda: redis_locks(site, count)}
        case "etcd":
            return {"bare etcd txn": lambda: etcd_transactions(site, count)}
    return {}


async def redis_locks(site: Site, count: int) -> Values:
    from redis.asyncio import Redis
    from redis.asyncio.lock import Lock

    assert site.server is not None
    async with Redis.from_url(site.server.url) as client:
        locks = [Lock(client, f"lock-{n}", timeout=TTL_S, blocking=False, thread_local=False) for n in range(count)]
        return {
            f"lease.acquire.{site.name}": count / await timed(lambda lock: lock.acquire(), locks),
            f"lease.renew.{site.name}": count / await timed(lambda lock: lock.reacquire(), locks),
            f"lease.release.{site.name}": count / await timed(lambda lock: lock.release(), locks),
        }


async def etcd_transactions(site: Site, count: int) -> Values:
    from argosy.ownership.backends.etcd_client import EtcdClient, EtcdUrl, ops

    assert site.server is not None
    client = await EtcdClient.open(EtcdUrl.parse(site.server.url))
    try:
        lease = await client.grant(int(TTL_S))
        keys = [b"/peer/%d" % n for n in range(count)]

        async def create(key: bytes) -> None:
            reply = await client.txn(when=[ops.is_absent(key)], then=[ops.put(key, b"n1", lease=lease)])
            assert reply.succeeded

        return {
            f"lease.acquire.{site.name}": count / await timed(create, keys),
            f"lease.release.{site.name}": count / await timed(client.delete, keys),
        }
    finally:
        await client.close()
