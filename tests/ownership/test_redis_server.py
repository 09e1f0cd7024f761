"""The Redis backend against a server that fails, loses data, trims its stream, or is inspected from outside."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as RedisError

from argosy.base.clock import system_random
from argosy.base.errors import Fenced, Invalid, Throttled, Unavailable
from argosy.ownership.backends import redis as redis_backend
from argosy.ownership.backends import redis_scripts
from argosy.ownership.backends.redis import RedisStore
from argosy.ownership.backends.redis_records import KEY_DOCS
from argosy.ownership.events import LeaseChanged, Snapshot
from argosy.ownership.model import (
    BidOutcome,
    CloseOutcome,
    Lease,
    LeaseState,
    Member,
    Session,
    SessionRole,
    Space,
    Unit,
)
from tests.contracts.stage import (
    AUCTIONED,
    CLAIMED,
    CLOCK,
    bid,
    close_when_due,
    eventually,
    holder,
    holders,
    live_nodes,
    member,
    snapshot,
    watch_store,
    win_lease,
)
from tests.servers.valkey import Valkey, free_port
from tests.servers.valkey_groups import cluster, cluster_url, run_sentinel

UNIT = Unit("example/repo")
GRACE_S = 1.0


class Opened(Protocol):
    """Opens one more client of this test's server."""

    async def __call__(self, space: Space, *, grace_s: float = 0.0, namespace: str = "argosy") -> RedisStore: ...


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Valkey]:
    """One per test, since these tests stop it, flush it and read all its keys; by default without persistence."""
    with Valkey(is_durable=getattr(request, "param", False)) as started:
        yield started


@pytest.fixture
async def opened(server: Valkey) -> AsyncIterator[Opened]:
    stores: list[RedisStore] = []

    async def open_one(space: Space, *, grace_s: float = 0.0, namespace: str = "argosy") -> RedisStore:
        store = await RedisStore.open(
            server.url, space, clock=CLOCK, random=system_random(), grace_s=grace_s, namespace=namespace
        )
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture
async def admin(server: Valkey) -> AsyncIterator[Redis]:
    client: Redis = Redis.from_url(server.url, decode_responses=True)
    yield client
    await client.aclose()


async def whole_life(store: RedisStore) -> None:
    """Every call of the store, once or more."""
    as_member, first, second = await member(store, "n1"), await holder(store, "n1"), await holder(store, "n2")
    await store.announce(as_member, Member("n1", "http://n1", is_bidding=False))
    await win_lease(store, first, UNIT)
    await bid(store, second, Unit("left open"), max_bids=9)
    lease = await win_lease(store, first, Unit("a", 1))
    await store.set_state(first, lease.unit, lease.epoch, LeaseState.READY)
    await store.hand_off(first, UNIT, 1, Unit(UNIT.name, -1))
    await store.release(first, lease.unit, lease.epoch)
    await store.push_max_bids(3)
    await store.renew(first)
    await store.sessions()
    await store.sweep()
    await snapshot(store)
    await store.end_session(as_member)


# -- commands sent to the server --------------------------------------------------------------------------------------


async def test_no_command_scans_all_keys(opened: Opened, server: Valkey) -> None:
    """ "This avoids using `KEYS` and is efficient for moderate cluster sizes." """
    seen: list[str] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"MONITOR\r\n")
    assert await reader.readline() == b"+OK\r\n"
    auctions, claims = await opened(AUCTIONED), await opened(CLAIMED)
    await whole_life(auctions)
    await claims.claim(await holder(claims, "n1"), UNIT)
    await auctions.push_max_bids(77)
    async with asyncio.timeout(10):
        while not (seen and '"PUBLISH"' in seen[-1] and '"77"' in seen[-1]):
            seen.append((await reader.readline()).decode())
    writer.close()
    await writer.wait_closed()
    commands = {line.split('"')[1].upper() for line in seen if '"' in line}
    assert {"EVALSHA", "TIME", "INFO", "XADD", "XREVRANGE"} <= commands
    assert not {"KEYS", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "RANDOMKEY"} & commands


async def test_every_key_is_declared_and_all_keys_of_a_space_share_one_hash_tag(opened: Opened, admin: Redis) -> None:
    store = await opened(AUCTIONED, namespace="fleet")
    await whole_life(store)
    left_open = Unit("left open").key
    declared = {doc.name.replace("<unit>", left_open): doc.kind.replace("sorted set", "zset") for doc in KEY_DOCS}
    found = {}
    async for key in admin.scan_iter():
        tag, _, name = key.partition("}:")
        assert tag == "{fleet:repos"
        found[name] = await admin.type(key)
    assert found.items() <= declared.items()
    # All are in use but the channel, which is no key, and what the end of the only member emptied.
    assert declared.keys() - found.keys() == {"max_bids_changed", "members", "member_info", "bidding"}


async def test_a_pushed_threshold_is_published(opened: Opened, admin: Redis) -> None:
    """ "Controller updates `cluster:config:max_bids` in Redis and publishes `max_bids_changed` with the new value." """
    store = await opened(AUCTIONED)
    async with admin.pubsub(ignore_subscribe_messages=True) as listener:
        await listener.subscribe("{argosy:repos}:max_bids_changed")
        received = []
        for pushed in (5, None):
            await store.push_max_bids(pushed)
            message = await eventually(lambda: listener.get_message(ignore_subscribe_messages=True, timeout=0.1))
            assert message is not None
            received.append(message["data"])
    assert received == ["5", ""]
    assert await admin.hget("{argosy:repos}:config", "max_bids") is None


async def test_the_heartbeats_are_a_sorted_set_that_is_trimmed_and_counted(opened: Opened, admin: Redis) -> None:
    """ "Each indexer periodically runs: `ZADD cluster:indexers <unix_ts> <node_id>`" """
    store = await opened(AUCTIONED)
    await member(store, "alive")
    await member(store, "dying", ttl_s=0.1)
    assert await admin.zrange("{argosy:repos}:members", 0, -1) == ["dying", "alive"]

    async def counted() -> int:
        await store.sweep()
        return int(await admin.zcard("{argosy:repos}:members"))

    await eventually(counted, condition=lambda count: count == 1)


async def test_a_script_unknown_to_the_server_is_loaded_again(opened: Opened, admin: Redis) -> None:
    store = await opened(CLAIMED)
    session = await holder(store, "n1")
    await admin.script_flush()
    assert (await store.claim(session, UNIT)).node == "n1"


async def test_another_layout_of_the_data_is_rejected(opened: Opened, admin: Redis) -> None:
    await admin.hset("{argosy:repos}:meta", "schema", "999")
    with pytest.raises(Invalid, match="layout 999"):
        await opened(AUCTIONED)
    with pytest.raises(Invalid, match="namespace"):
        await opened(AUCTIONED, namespace="a}b")


async def test_a_server_in_cluster_mode_runs_all_scripts() -> None:
    """All keys of a space are on one node, also those that a script computes."""
    with Valkey(options=("--cluster-enabled", "yes", "--cluster-port", str(free_port()))) as server:
        admin: Any = Redis.from_url(server.url, decode_responses=True)
        await admin.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)

        async def is_up() -> bool:
            return bool((await admin.execute_command("CLUSTER INFO"))["cluster_state"] == "ok")

        await eventually(is_up)
        store = await RedisStore.open(server.url, AUCTIONED, clock=CLOCK, random=system_random(), grace_s=0.0)
        await whole_life(store)
        dying = await holder(store, "n3")
        await bid(store, dying, Unit("left open"), max_bids=9)
        await store.end_session(dying)
        assert await admin.hkeys("{argosy:repos}:bids:" + Unit("left open").key) == ["n2"]
        await store.close()
        await admin.aclose()


async def test_a_replica_is_rejected_and_its_connection_closed(opened: Opened, server: Valkey, admin: Redis) -> None:
    store = await opened(CLAIMED)
    session = await holder(store, "n1")
    with Valkey() as primary:
        await admin.replicaof("127.0.0.1", str(primary.port))
        with pytest.raises(Unavailable, match="is a replica, nothing was written; set the URL to the primary"):
            await store.renew(session)
        await admin.replicaof("NO", "ONE")
        assert await live_nodes(store) <= {(SessionRole.HOLDER, "n1")}


# -- a server that forgets --------------------------------------------------------------------------------------------


async def test_a_restart_with_data_loss_starts_a_grace_period_and_repeats_no_epoch(
    opened: Opened, server: Valkey
) -> None:
    store = await opened(CLAIMED, grace_s=GRACE_S)
    session = await holder(store, "n1")
    before = await eventually(lambda: try_claim(store, session))
    assert before is not None
    await asyncio.to_thread(server.restart)
    with pytest.raises(Fenced):
        await eventually(lambda: store.renew(session))
    again = await holder(store, "n1")
    with pytest.raises(Throttled) as refusal:
        await store.claim(again, UNIT)
    assert 0 < refusal.value.retry_after_s <= GRACE_S
    after = await eventually(lambda: try_claim(store, again))
    assert after is not None
    assert after.epoch > before.epoch


async def try_claim(store: RedisStore, session: Session) -> Lease | None:
    try:
        return await store.claim(session, UNIT)
    except Throttled:
        return None


@pytest.mark.parametrize("server", [True], indirect=True, ids=["durable"])
async def test_a_restart_with_data_starts_a_grace_period_and_keeps_leases(opened: Opened, server: Valkey) -> None:
    """ "Redis restart between bid and evaluation": bids, leases and sessions survive; only new grants wait."""
    store = await opened(AUCTIONED, grace_s=GRACE_S)
    first, second = await holder(store, "n1"), await holder(store, "n2")
    await bid(store, first, UNIT, max_bids=1)
    lease = (await close_when_due(store, UNIT)).lease
    assert lease is not None
    await bid(store, second, Unit("other"), max_bids=1)
    await asyncio.to_thread(server.restart)
    assert await eventually(lambda: store.renew(first)) == {(UNIT, lease.epoch)}
    closing = await store.close_auction(Unit("other"))
    assert closing.outcome is CloseOutcome.NOT_DUE
    assert 0 < closing.wait_s <= GRACE_S
    assert (await close_when_due(store, Unit("other"))).outcome is CloseOutcome.WON
    # Of the writes that a restart may lose the newest epoch is the dearest: epochs skip ahead of all that were granted.
    await store.release(first, UNIT, lease.epoch)
    await bid(store, first, UNIT, max_bids=1)
    newer = (await close_when_due(store, UNIT)).lease
    assert newer is not None
    assert newer.epoch > lease.epoch + 1


async def test_a_flushed_server_brings_a_grace(opened: Opened, admin: Redis) -> None:
    store = await opened(CLAIMED, grace_s=GRACE_S)
    session = await holder(store, "n1")
    before = await eventually(lambda: try_claim(store, session))
    assert before is not None
    await admin.flushall()
    with pytest.raises(Fenced):
        await store.renew(session)
    again = await holder(store, "n1")
    with pytest.raises(Throttled):
        await store.claim(again, UNIT)


async def test_a_failover_is_noticed_by_the_next_grant(opened: Opened, server: Valkey, admin: Redis) -> None:
    """The promoted replica has the data, run_id included, and is another run of another server."""
    store = await opened(CLAIMED, grace_s=0.3)
    session = await holder(store, "n1")
    assert await eventually(lambda: try_claim(store, session))
    await admin.hset("{argosy:shards}:meta", "run_id", "0" * 40)
    with pytest.raises(Throttled):
        await store.claim(session, Unit("another"))


async def test_a_failover_by_sentinel_keeps_leases_and_starts_a_grace_period(server: Valkey) -> None:
    """The store follows Sentinel to the promoted replica, which grants nothing for a grace."""
    with Valkey() as second, run_sentinel(server, second) as url:
        store = await RedisStore.open(url, CLAIMED, clock=CLOCK, random=system_random(), grace_s=GRACE_S)
        session = await holder(store, "n1")
        assert await eventually(lambda: try_claim(store, session))
        replica = patient_client(second.url)
        await eventually(lambda: replica.hgetall("{argosy:shards}:leases"))
        async with watch_store(store) as watcher:
            server.kill()
            with pytest.raises(Unavailable):
                await store.renew(session)
            assert {unit for unit, _ in await eventually(lambda: store.renew(session))} == {UNIT}
            with pytest.raises(Throttled):
                await store.claim(session, Unit("another"))
            newer = await eventually(lambda: try_claim_unit(store, session, Unit("another")))
            assert newer is not None
            await watcher.wait_until(lambda view: set(view.leases) == {UNIT, Unit("another")})
        await replica.aclose()
        await store.close()


async def test_a_primary_replaced_by_sentinel_is_abandoned_even_if_it_still_answers(server: Valkey) -> None:
    """A primary that is cut off from Sentinel would continue renewing leases that the new one grants to others."""
    with Valkey() as second, run_sentinel(server, second) as url:
        store = await RedisStore.open(url, CLAIMED, clock=CLOCK, random=system_random(), grace_s=0.0)
        await holder(store, "n1")
        replica = patient_client(second.url)
        await eventually(lambda: replica.hgetall("{argosy:shards}:holder_info"))
        sentinel = patient_client(url.replace("redis+sentinel", "redis").rpartition("/")[0])
        await sentinel.execute_command("SENTINEL", "FAILOVER", "throttle")
        await eventually(lambda: is_primary(replica))
        await replica.hset("{argosy:shards}:meta", "mark", "new")

        async def mark() -> object:
            return await store._scripts.call("HGET", "{argosy:shards}:meta", "mark")

        assert await eventually(mark) == "new"
        await sentinel.aclose()
        await replica.aclose()
        await store.close()


def patient_client(url: str) -> Redis:
    """Sentinel ends the connections to a server that it promotes."""
    client: Redis = Redis.from_url(
        url, decode_responses=True, retry=Retry(ConstantBackoff(0.05), 100), retry_on_error=[RedisError]
    )
    return client


async def is_primary(client: Redis) -> bool:
    return bool((await client.execute_command("ROLE"))[0] == "master")


async def try_claim_unit(store: RedisStore, session: Session, unit: Unit) -> Lease | None:
    try:
        return await store.claim(session, unit)
    except Throttled:
        return None


async def test_a_space_lives_on_one_node_of_a_cluster() -> None:
    with cluster() as nodes:
        store = await RedisStore.open(cluster_url(nodes), AUCTIONED, clock=CLOCK, random=system_random(), grace_s=0.0)
        await whole_life(store)
        async with watch_store(store) as watcher:
            await bid(store, await holder(store, "n5"), Unit("seen"), max_bids=9)
            await watcher.wait_until(lambda view: Unit("seen") in view.auctions)
            assert {info.node for info in await store.sessions()} >= {"n5"}
        await store.close()


# -- watching ---------------------------------------------------------------------------------------------------------


async def test_a_watcher_whose_position_was_trimmed_gets_a_snapshot(
    opened: Opened, admin: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(CLAIMED)
    session = await holder(store, "n1")
    stream = store.watch()
    assert isinstance(await anext(stream), Snapshot)
    first = await store.claim(session, Unit("u0"))
    assert await anext(stream) == LeaseChanged(first)
    for n in range(1, 50):
        await store.claim(session, Unit(f"u{n}"))
    await admin.xtrim("{argosy:shards}:events", maxlen=10, approximate=False)
    caught_up = await anext(stream)
    assert isinstance(caught_up, Snapshot)
    assert len(caught_up.leases) == 50
    last = await store.claim(session, Unit("last"))
    assert await anext(stream) == LeaseChanged(last)
    await stream.aclose()  # type: ignore[attr-defined]


async def test_the_stream_is_cut_at_about_the_number_of_events_retained(
    opened: Opened, admin: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_scripts, "EVENTS_MAX", 100)
    store = await opened(CLAIMED)
    session = await holder(store, "n1")
    for n in range(600):
        await store.claim(session, Unit(f"u{n}"))
    assert 100 <= await admin.xlen("{argosy:shards}:events") <= 300


async def test_a_watcher_detects_a_flush_without_a_following_event(
    opened: Opened, admin: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_backend, "BLOCK_S", 0.1)
    store = await opened(CLAIMED)
    await store.claim(await holder(store, "n1"), UNIT)
    async with watch_store(store) as watcher:
        assert set(watcher.view.leases) == {UNIT}
        await admin.flushall()
        await watcher.wait_until(lambda view: not view.leases)


async def test_a_restart_with_data_loss_gives_watchers_a_new_snapshot(opened: Opened, server: Valkey) -> None:
    store = await opened(CLAIMED)
    session = await holder(store, "n1")
    await store.claim(session, UNIT)
    async with watch_store(store) as watcher:
        await asyncio.to_thread(server.restart)
        await watcher.wait_until(lambda view: not view.leases)
        session = await holder(store, "n1")
        await store.claim(session, Unit("new"))
        await watcher.wait_until(lambda view: set(view.leases) == {Unit("new")})
        assert sum(isinstance(event, Snapshot) for event in watcher.events) == 2


async def test_a_watch_ends_when_the_server_stays_unreachable(
    opened: Opened, server: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_backend, "UNREACHABLE_S_MAX", 0.3)
    store = await opened(CLAIMED)
    stream = store.watch()
    assert isinstance(await anext(stream), Snapshot)
    server.kill()
    with pytest.raises(Unavailable, match="unreachable"):
        await anext(stream)


@pytest.mark.parametrize("moment", range(20))
async def test_a_watch_can_be_cancelled_at_any_moment(opened: Opened, moment: int) -> None:
    store = await opened(CLAIMED)
    stream = store.watch()
    assert isinstance(await anext(stream), Snapshot)
    reading = asyncio.ensure_future(anext(stream))
    for _ in range(moment):
        await asyncio.sleep(0)
    reading.cancel()
    async with asyncio.timeout(redis_backend.BLOCK_S / 2):
        with pytest.raises(asyncio.CancelledError):
            await reading


# -- an unreachable server --------------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(Unavailable) as refusal:
        await RedisStore.open(
            "valkey://user:hunter2@127.0.0.1:1/0",
            CLAIMED,
            clock=CLOCK,
            random=system_random(),
            grace_s=0.0,
            connect_timeout_s=1.0,
        )
    text = str(refusal.value)
    assert "valkey://127.0.0.1:1/0 unreachable: " in text
    assert "hunter2" not in text


async def test_a_wrong_password_is_reported_as_such() -> None:
    with Valkey(options=("--requirepass", "right")) as server:
        wrong = "rejected the login; check the user and the password"
        for login, advice in (("", "requires a password; add it to the URL"), (":hunter2@", wrong)):
            url = server.url.replace("://", f"://{login}")
            with pytest.raises(Unavailable, match=advice) as refusal:
                await RedisStore.open(url, CLAIMED, clock=CLOCK, random=system_random(), grace_s=0.0)
            assert "hunter2" not in str(refusal.value)
        url = server.url.replace("://", "://:right@")
        store = await RedisStore.open(url, CLAIMED, clock=CLOCK, random=system_random(), grace_s=0.0)
        assert await store.sessions() == []
        await store.close()


async def test_an_invalid_url_is_rejected() -> None:
    with pytest.raises(Invalid, match="not a Redis URL"):
        await RedisStore.open("redis://host:port/0", CLAIMED, clock=CLOCK, random=system_random(), grace_s=0.0)


async def test_calls_to_a_server_that_died_are_unavailable_and_work_again_later(opened: Opened, server: Valkey) -> None:
    store = await opened(CLAIMED)
    session = await holder(store, "n1")
    server.kill()
    for call in (store.renew(session), store.claim(session, UNIT), store.sessions(), store.close_auction(UNIT)):
        with pytest.raises(Unavailable, match="unreachable"):
            await call
    server.start()
    assert await store.sessions() == []


async def test_a_hung_server_is_unavailable_after_a_bounded_time(
    opened: Opened, server: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(CLAIMED)
    monkeypatch.setattr(store._scripts, "_call_timeout_s", 0.3)
    session = await holder(store, "n1")
    server.pause()
    with pytest.raises(Unavailable, match=r"timed out after 0\.3 s"):
        await store.claim(session, UNIT)
    server.resume()
    # The call may or may not have taken effect; the caller reads what it did.
    assert set(await holders(store)) <= {UNIT}


# -- pending marks ----------------------------------------------------------------------------------------------------


async def test_a_mark_that_was_not_cleared_binds_its_node_only_for_the_window_and_a_while(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "pending markers (per-holder keys) expire after the auction window plus a small buffer" """
    monkeypatch.setattr(redis_backend, "PENDING_BUFFER_S", 0.2)
    store = await opened(AUCTIONED)
    session = await holder(store, "n1")
    await bid(store, session, UNIT, max_bids=9, window_s=0.1)
    assert (await bid(store, session, Unit("other"), max_bids=1)).outcome is BidOutcome.ALREADY_PENDING

    async def bids_again() -> bool:
        return (await bid(store, session, Unit("other"), max_bids=1)).outcome is BidOutcome.PLACED

    await eventually(bids_again)
    assert (await close_when_due(store, UNIT)).outcome is CloseOutcome.NO_WINNER, "the old bid is gone with its marker"
    assert (await close_when_due(store, Unit("other"))).outcome is CloseOutcome.WON
    assert (await bid(store, session, UNIT)).outcome is BidOutcome.PLACED


async def test_a_session_that_ends_in_silence_leaves_no_mark_and_no_bid(opened: Opened, admin: Redis) -> None:
    store = await opened(AUCTIONED)
    await bid(store, await holder(store, "n1", ttl_s=0.1), UNIT, max_bids=9)
    assert await admin.exists("{argosy:repos}:pending", "{argosy:repos}:bids:" + UNIT.key) == 2

    async def no_session_is_left() -> bool:
        return not await live_nodes(store)

    await eventually(no_session_is_left)
    assert await admin.exists("{argosy:repos}:pending", "{argosy:repos}:bids:" + UNIT.key) == 0
