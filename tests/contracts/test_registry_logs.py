"""Logs, counters and messages, on every backend."""

import pytest

from argosy.base.errors import Invalid
from argosy.registry.ports import RegistryStore
from argosy.registry.transaction import (
    Append,
    CountUp,
    DropCounter,
    DropLog,
    LogState,
    ReadCounter,
    ReadLog,
    TakeOldest,
)
from tests.contracts.registry_stage import Stage, answer, commit_of, race, results
from tests.contracts.stage import eventually

LOG = "cdc:overflow:hook"
SHORT_MS = 150


async def test_a_log_is_read_newest_first(store: RegistryStore) -> None:
    assert await answer(store, ReadLog(LOG, 9)) == LogState((), 0, 0, 0)
    for payload in (b"one", b"", bytes(range(256))):
        await store.run(commit_of(Append(LOG, payload)))
    assert await answer(store, ReadLog(LOG, 2)) == LogState((bytes(range(256)), b""), 3, 259, 0)
    assert await answer(store, ReadLog(LOG, 0)) == LogState((), 3, 259, 0)


async def test_a_log_drops_its_oldest_by_number_and_by_bytes(store: RegistryStore) -> None:
    for n in range(5):
        await store.run(commit_of(Append(LOG, b"%d" % n, keep=3)))
    assert await answer(store, ReadLog(LOG, 9)) == LogState((b"4", b"3", b"2"), 3, 3, 2)
    await store.run(commit_of(Append(LOG, b"12345678", keep_bytes=10)))
    assert await answer(store, ReadLog(LOG, 9)) == LogState((b"12345678", b"4", b"3"), 3, 10, 3)
    await store.run(commit_of(Append(LOG, b"too large by far", keep_bytes=10)))
    assert await answer(store, ReadLog(LOG, 9)) == LogState((), 0, 0, 7)


async def test_the_oldest_entries_are_popped_once(stage: Stage) -> None:
    stores = [await stage.open() for _ in range(3)]
    for n in range(60):
        await stores[0].run(commit_of(Append(LOG, b"%d" % n)))
    taken = await race(stores, [commit_of(TakeOldest(LOG, 2)) for _ in range(40)])
    entries = [entry for done in results(taken) for entry in done.taken[0]]
    assert sorted(entries, key=int) == [b"%d" % n for n in range(60)]
    assert await answer(stores[0], ReadLog(LOG, 9)) == LogState((), 0, 0, 0)


async def test_several_log_writes_return_results_in_order(store: RegistryStore) -> None:
    appends, takes = [Append("a", b"1"), Append("a", b"22")], [TakeOldest("a", 1), TakeOldest("b", 1)]
    done = await store.run(commit_of(*appends, *takes, CountUp("c"), CountUp("c")))
    assert (done.taken, done.counts) == (((b"1",), ()), ((1, 0), (2, 0)))
    await store.run(commit_of(DropLog("a"), DropLog("never"), DropCounter("c"), DropCounter("never")))
    assert await answer(store, ReadLog("a", 9)) == LogState((), 0, 0, 0)
    assert await answer(store, ReadCounter("c")) == (0, 0)


async def test_bytes_stay_exact_under_many_writers(stage: Stage) -> None:
    stores = [await stage.open() for _ in range(3)]
    await race(stores, [commit_of(Append(LOG, b"x" * (n % 17 + 1), keep_bytes=100)) for n in range(200)])
    state = await answer(stores[0], ReadLog(LOG, 200))
    assert state.size_bytes == sum(map(len, state.entries)) <= 100
    assert state.length + state.dropped == 200
    assert state.size_bytes > 100 - 17


async def test_concurrent_increments_all_count(stage: Stage) -> None:
    stores = [await stage.open() for _ in range(3)]
    outcomes = await race(stores, [commit_of(CountUp("n")) for _ in range(100)])
    assert sorted(done.counts[0][0] for done in results(outcomes)) == list(range(1, 101))
    assert await answer(stores[0], ReadCounter("n")) == (100, 0)


async def test_a_counter_expires_with_the_window_of_its_first_hit(store: RegistryStore) -> None:
    ((value, left),) = (await store.run(commit_of(CountUp("n", 60_000)))).counts
    assert value == 1
    assert 0 < left <= 60_000
    ((value, again),) = (await store.run(commit_of(CountUp("n", 600_000)))).counts
    assert value == 2
    assert 0 < again <= left
    await store.run(commit_of(CountUp("short", SHORT_MS)))

    async def has_expired() -> bool:
        return bool(await answer(store, ReadCounter("short")) == (0, 0))

    await eventually(has_expired)
    assert (await store.run(commit_of(CountUp("short", 60_000)))).counts[0][0] == 1


@pytest.mark.parametrize("ttl_ms", [0, -5])
async def test_a_window_without_duration_is_rejected(store: RegistryStore, ttl_ms: int) -> None:
    """Defect R11: less than a second left was an error of the server."""
    with pytest.raises(Invalid):
        await store.run(commit_of(CountUp("n", ttl_ms)))
    assert (await store.run(commit_of(CountUp("n", 1)))).counts[0][0] == 1


async def test_rows_change_the_revision_and_logs_do_not(store: RegistryStore) -> None:
    before = await store.revision()
    done = await store.run(commit_of(Append(LOG, b"x"), CountUp("n")))
    assert done.revision == await store.revision() == before
