"""Expiry, on every backend: expired data behaves as if it had never existed."""

from collections.abc import Awaitable, Callable

from argosy.registry import idempotency, jobs, leadership, limits, scoped_keys, sessions
from argosy.registry.idempotency import IdempotencyVerdict
from argosy.registry.ports import RegistryStore
from argosy.registry.rows import AdminSession, ClientSession
from argosy.registry.tables import ADMIN_SESSIONS, SESSIONS
from argosy.registry.transaction import CountRows, Find, Get, Put
from tests.contracts.registry_stage import answer, commit_of
from tests.contracts.stage import eventually

SHORT_MS = 200
BODY = b"b" * 32


async def wait_none(read: Callable[[], Awaitable[object]]) -> None:
    async def is_gone() -> bool:
        return await read() is None

    await eventually(is_gone)


async def short_session(store: RegistryStore, name: str = "s") -> ClientSession:
    return await store.run(
        sessions.upsert(
            name,
            last_write_task_id=None,
            last_write_at=None,
            pinned_groups={},
            min_settings_version=0,
            ttl_ms=SHORT_MS,
        )
    )


async def test_an_expired_session_can_be_created_again(store: RegistryStore) -> None:
    await short_session(store)
    assert (await short_session(store)).version == 2
    await wait_none(lambda: store.run(sessions.read("s")))
    assert await answer(store, Find(SESSIONS, "all")) == []
    assert await answer(store, CountRows(SESSIONS, "all")) == 0
    assert not await store.run(sessions.touch("s"))
    assert (await short_session(store)).version == 1


async def test_use_extends_a_session(store: RegistryStore) -> None:
    await short_session(store, "used")
    await short_session(store, "unused")
    assert await store.run(sessions.touch("used", 60_000))
    await wait_none(lambda: store.run(sessions.read("unused")))
    assert await store.run(sessions.read("used")) is not None
    assert [row.session_id for row in await answer(store, Find(SESSIONS, "all"))] == ["used"]


async def test_a_row_already_expired_at_write_is_not_stored(store: RegistryStore) -> None:
    """Defect R11: no time left was an error of the server."""
    session = ClientSession("s", None, None, {}, 0, 1)
    await store.run(commit_of(Put(SESSIONS, session)))
    assert await answer(store, Get(SESSIONS, ("s",))) is None
    assert await answer(store, CountRows(SESSIONS, "all")) == 0
    assert (await store.run(commit_of(Put(SESSIONS, session)))).versions == (1,)


async def test_a_revoked_session_keeps_its_expiry(store: RegistryStore) -> None:
    """Defect R18: revoking gave a session its full lifetime again."""
    await store.run(sessions.insert_admin("s", csrf_token="t", admin_key_hash="k", ttl_ms=SHORT_MS))
    assert await store.run(sessions.revoke_admin("s"))
    assert await store.run(sessions.read_admin("s")) is None
    await wait_none(lambda: answer(store, Get(ADMIN_SESSIONS, ("s",))))
    assert await answer(store, Find(ADMIN_SESSIONS, "key", ("k",))) == []
    assert (await store.run(sessions.insert_admin("s", csrf_token="t", admin_key_hash="k"))).version == 1


async def test_an_idempotency_key_expires(store: RegistryStore) -> None:
    await store.run(idempotency.begin("k", BODY, SHORT_MS))
    assert await store.run(idempotency.finish("k", "t"))

    async def is_new() -> bool:
        return (await store.run(idempotency.begin("k", BODY, SHORT_MS))).verdict is IdempotencyVerdict.NEW

    await eventually(is_new)


async def test_a_lease_expires_by_the_stores_clock_and_keeps_its_fence(store: RegistryStore) -> None:
    assert await store.run(leadership.acquire("ilm", "a", SHORT_MS)) is not None

    async def claim_result() -> object:
        return await store.run(leadership.acquire("ilm", "b", SHORT_MS))

    lease = await eventually(claim_result, condition=lambda result: result is not None)
    assert getattr(lease, "fence", None) == 2
    assert not await store.run(leadership.renew("ilm", "a", 1))


async def test_an_expired_claim_goes_to_another_worker(store: RegistryStore) -> None:
    await store.run(jobs.enqueue("j", "t", {}))
    first = await store.run(jobs.claim("w1", lease_ms=SHORT_MS))
    assert first is not None

    async def claim_result() -> object:
        return await store.run(jobs.claim("w2", lease_ms=60_000))

    second = await eventually(claim_result, condition=lambda result: result is not None)
    assert (getattr(second, "fence", None), getattr(second, "attempts", None)) == (2, 2)
    assert not await store.run(jobs.complete("j", "w1", first.fence))
    assert await store.run(jobs.complete("j", "w2", 2))


async def test_reports_and_heartbeats_of_a_gateway_expire(store: RegistryStore) -> None:
    await store.run(scoped_keys.rotate("docs", "k1", expected_generation=0))
    await store.run(scoped_keys.heartbeat_pod("p"))
    await store.run(scoped_keys.observe("p", "docs", 1, SHORT_MS))

    async def waiting() -> bool:
        return (await store.run(scoped_keys.gate("docs"))).waiting == ("p",)

    await eventually(waiting)

    async def no_gateways() -> bool:
        return await store.run(scoped_keys.live_pods(SHORT_MS)) == []

    await eventually(no_gateways)
    assert not (await store.run(scoped_keys.gate("docs", SHORT_MS))).is_open


async def test_a_rate_window_expires(store: RegistryStore) -> None:
    hit = limits.hit_search_ui("ip", limit=1, window_ms=SHORT_MS)
    assert (await store.run(hit)).is_allowed
    rejection = await store.run(hit)
    assert not rejection.is_allowed
    assert 0 < rejection.retry_after_ms <= SHORT_MS

    async def is_allowed() -> bool:
        return (await store.run(hit)).is_allowed

    await eventually(is_allowed)


async def test_an_event_expires(store: RegistryStore) -> None:
    assert await store.run(limits.is_first_seen("docs", "e", SHORT_MS))

    async def is_first() -> bool:
        return await store.run(limits.is_first_seen("docs", "e", SHORT_MS))

    assert not await is_first()
    await eventually(is_first)


async def test_expired_rows_do_not_count_towards_a_list_limit(store: RegistryStore) -> None:
    clock = 1 << 44
    is_gone = [AdminSession(f"over{n}", "t", "k", 1, n + 1) for n in range(30)]
    alive = [AdminSession(f"alive{n}", "t", "k", 1, clock + n) for n in range(3)]
    await store.run(commit_of(*(Put(ADMIN_SESSIONS, row) for row in (*is_gone, *alive))))
    result = await answer(store, Find(ADMIN_SESSIONS, "key", ("k",), limit=2))
    assert [row.session_id for row in result] == ["alive0", "alive1"]
    result = await answer(store, Find(ADMIN_SESSIONS, "all", limit=2, is_newest_first=True))
    assert [row.session_id for row in result] == ["alive2", "alive1"]
    assert await answer(store, CountRows(ADMIN_SESSIONS, "key", ("k",))) == 3
