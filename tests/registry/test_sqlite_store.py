"""The store around the tables: programs share commits and are isolated, changes are watched, messages delivered."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Conflict, Gone, NotFound, Unavailable
from argosy.registry import jobs
from argosy.registry.backends import sqlite as sqlite_backend
from argosy.registry.backends import sqlite_session, sqlite_writer
from argosy.registry.backends.sqlite import SqliteStore
from argosy.registry.backends.sqlite_session import StoreClock
from argosy.registry.ports import Change, RegistryStore
from argosy.registry.transaction import (
    Append,
    CountRows,
    CountUp,
    Delete,
    Find,
    Get,
    Notify,
    Now,
    Put,
    TransactionBody,
    Upsert,
    commit,
    get,
    read_many,
    transaction,
)
from tests.registry.sqlite_stage import BALLS, START_MS, TICKETS, Ball, StillClock, Ticket, commit_of, opened, reads_of

T = TypeVar("T")


async def take(changes: AsyncIterator[T], count: int) -> list[T]:
    async with asyncio.timeout(10):
        return [await anext(changes) for _ in range(count)]


# -- programs -------------------------------------------------------------------------------------------------


@transaction
def raises_before_its_commit() -> TransactionBody[None]:
    yield from read_many(Now())
    raise NotFound("nothing of it")


@transaction
def increments(name: str) -> TransactionBody[int]:
    ball = yield from get(BALLS, name)
    done = yield from commit(Put(BALLS, replace(ball or Ball(name), rank=ball.rank + 1 if ball else 1)))
    return done.versions[0]


def test_the_store_implements_the_port() -> None:
    store: type[RegistryStore] = SqliteStore
    assert store


async def test_many_transactions_at_once_see_one_another_in_turn() -> None:
    async with opened() as store:
        versions = await asyncio.gather(*(store.run(increments("a")) for _ in range(700)))
        assert sorted(versions) == list(range(1, 701))
        assert await store.run(reads_of(Get(BALLS, ("a",)))) == Ball("a", rank=700, version=700)


async def test_a_transaction_that_raises_does_not_affect_others_in_its_batch() -> None:
    async with opened() as store:
        answers = await asyncio.gather(
            store.run(increments("a")),
            store.run(raises_before_its_commit()),
            store.run(commit_of(Put(BALLS, Ball("b")), Put(BALLS, Ball("a", version=9)))),
            store.run(increments("a")),
            return_exceptions=True,
        )
        assert (answers[0], type(answers[1]), type(answers[2]), answers[3]) == (1, NotFound, Conflict, 2)
        assert [ball.name for ball in await store.run(reads_of(Find(BALLS, "all")))] == ["a"]


async def test_rows_read_in_one_batch_are_never_those_of_a_rejected_commit() -> None:
    async with opened() as store:
        await store.run(commit_of(*(Put(BALLS, Ball(name, rank=1)) for name in "ab")))
        before, refused, after, _, last = await asyncio.gather(
            store.run(reads_of(Find(BALLS, "all"))),
            store.run(commit_of(Put(BALLS, Ball("a", rank=7, version=1)), Put(BALLS, Ball("b", version=9)))),
            store.run(reads_of(Find(BALLS, "all"))),
            store.run(commit_of(Put(BALLS, Ball("a", rank=7, version=1)), Delete(BALLS, Ball("b", version=1)))),
            store.run(reads_of(Find(BALLS, "all", after=1), Get(BALLS, ("b",)))),
            return_exceptions=True,
        )
        assert isinstance(refused, Conflict)
        assert before == after == [Ball("a", rank=1, version=1), Ball("b", rank=1, version=1)]
        assert last == ([Ball("a", rank=7, version=2)], None)


async def test_an_error_is_raised_in_the_body_where_it_yielded() -> None:
    @transaction
    def put_or_report_conflict() -> TransactionBody[str]:
        try:
            yield from commit(Append("log", b"x"), Put(BALLS, Ball("a", version=3)))
        except Conflict as refusal:
            return str(refusal)
        return "stored"

    async with opened() as store:
        assert "no longer exists" in await store.run(put_or_report_conflict())


async def test_an_exception_after_a_commit_does_not_undo_it() -> None:
    @transaction
    def counts_then_refuses() -> TransactionBody[None]:
        done = yield from commit(CountUp("hits"))
        raise NotFound(f"hit {done.counts[0][0]}")

    async with opened() as store:
        for hit in (1, 2):
            with pytest.raises(NotFound, match=f"hit {hit}"):
                await store.run(counts_then_refuses())


async def test_a_body_that_reads_after_its_commit_is_an_error() -> None:
    @transaction
    def read_after_commit() -> TransactionBody[int]:
        yield from commit(CountUp("hits"))
        (clock,) = yield from read_many(Now())
        return int(clock)

    async with opened() as store:
        with pytest.raises(AssertionError, match="a transaction ends with its commit"):
            await store.run(read_after_commit())


async def test_reads_yielded_together_are_of_one_instant() -> None:
    clock = StillClock()
    async with opened(clock=clock) as store:
        await store.run(commit_of(Put(TICKETS, Ticket("a", "1", START_MS + 5))))
        now, ticket = await store.run(reads_of(Now(), Get(TICKETS, ("a", "1"))))
        assert (now, ticket.expires_at) == (START_MS, START_MS + 5)


async def test_a_cancelled_caller_does_not_delay_the_others() -> None:
    async with opened() as store:
        first = asyncio.ensure_future(store.run(increments("a")))
        second = asyncio.ensure_future(store.run(increments("a")))
        await asyncio.sleep(0)
        first.cancel()
        assert await second in (1, 2)


async def test_a_store_that_is_overrun_rejects_calls_and_a_closed_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "WAITING_MAX", 3)
    async with opened() as store:
        answers = await asyncio.gather(*(store.run(increments("a")) for _ in range(5)), return_exceptions=True)
        assert answers[:3] == [1, 2, 3]
        assert all(isinstance(answer, Unavailable) and "back-off" in str(answer) for answer in answers[3:])
    with pytest.raises(Unavailable, match="is closed"):
        await store.run(increments("a"))


async def test_closing_answers_pending_calls(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db") as store:
        waiting = [asyncio.ensure_future(store.run(increments("a"))) for _ in range(10)]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*waiting) == list(range(1, 11))


def test_the_clock_is_strictly_monotonic() -> None:
    clock = StillClock()
    store_clock = StoreClock(clock)
    clock.pass_ms(10)
    assert store_clock.read() == START_MS + 10
    clock.wall_s -= 3600
    assert store_clock.read() == START_MS + 10
    clock.pass_ms(5)
    assert store_clock.read() == START_MS + 15
    clock.wall_s += 7200
    assert store_clock.read() == START_MS + 15 + 3_600_000


async def test_each_job_is_claimed_once_by_many_claimers(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "r.db", clock=SystemClock())
    await asyncio.gather(*(store.run(jobs.enqueue(f"j{n}", "sync", {"n": n})) for n in range(300)))

    async def claims(worker: str) -> list[str]:
        mine = []
        while (job := await store.run(jobs.claim(worker, lease_ms=60_000))) is not None:
            assert (job.claimed_by, job.fence, job.version) == (worker, 1, 2)
            mine.append(job.job_id)
        return mine

    claimed = await asyncio.gather(*(claims(f"w{n}") for n in range(8)))
    assert sorted(name for mine in claimed for name in mine) == sorted(f"j{n}" for n in range(300))
    await store.close()


# -- changes --------------------------------------------------------------------------------------------------


async def test_a_watch_delivers_earlier_and_later_changes() -> None:
    async with opened() as store:
        await store.run(commit_of(Put(BALLS, Ball("a")), Upsert(TICKETS, Ticket("r", "é:", START_MS + 9))))
        changes = store.watch(0)
        assert await take(changes, 2) == [
            Change(1, "balls", ("a",), False),
            Change(2, "ticket:office", ("r", "é:"), False),
        ]
        waiting = asyncio.ensure_future(take(changes, 1))
        await asyncio.sleep(0)
        done = await store.run(commit_of(Delete(BALLS, Ball("a", version=1))))
        assert await waiting == [Change(done.revision, "balls", ("a",), True)]
        assert await store.revision() == done.revision == 3


async def test_a_watch_from_the_present_delivers_only_later_changes() -> None:
    async with opened() as store:
        await store.run(increments("a"))
        changes = store.watch(await store.revision())
        waiting = asyncio.ensure_future(take(changes, 2))
        await asyncio.gather(*(store.run(increments("b")) for _ in range(2)))
        assert [change.key for change in await waiting] == [("b",), ("b",)]


async def test_a_watcher_behind_or_ahead_of_the_log_must_list_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_session, "EVENTS_MAX", 5)
    async with opened() as store:
        for _ in range(8):
            await store.run(increments("a"))
        assert [change.revision for change in await take(store.watch(3), 5)] == [4, 5, 6, 7, 8]
        for after, why in ((2, "no longer stored"), (9, "ahead")):
            with pytest.raises(Gone, match=why):
                await take(store.watch(after), 1)


async def test_a_commit_without_rows_is_no_change() -> None:
    async with opened() as store:
        assert (await store.run(commit_of(CountUp("hits"), Append("log", b"x")))).revision == 0


async def test_a_watcher_learns_that_the_store_is_closed() -> None:
    async with opened() as store:
        waiting = asyncio.ensure_future(take(store.watch(0), 1))
        await store.revision()
    with pytest.raises(Unavailable, match="closed"):
        await waiting


class HastyClock(SystemClock):
    """Does not wait between two polls."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_writes_of_another_process_are_read_and_watched(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "r.db", clock=HastyClock()) as ours,
        opened(tmp_path / "r.db", clock=HastyClock()) as theirs,
    ):
        waiting = asyncio.ensure_future(take(ours.watch(0), 3))
        await theirs.run(increments("a"))
        await ours.run(increments("a"))
        await theirs.run(increments("a"))
        assert [change.revision for change in await waiting] == [1, 2, 3]
        assert await ours.run(reads_of(Get(BALLS, ("a",)))) == Ball("a", rank=3, version=3)


async def test_two_processes_take_turns(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db") as ours, opened(tmp_path / "r.db") as theirs:
        await asyncio.gather(*(store.run(increments("a")) for _ in range(50) for store in (ours, theirs)))
        assert await ours.run(reads_of(Get(BALLS, ("a",)))) == Ball("a", rank=100, version=100)


# -- messages -------------------------------------------------------------------------------------------------


async def test_a_message_is_delivered_to_the_listeners_of_its_channel() -> None:
    async with opened() as store:
        await store.run(commit_of(Notify("news", "early")))
        first, second, other = store.listen("news"), store.listen("news"), store.listen("weather")
        await store.run(commit_of(Notify("news", "one"), Put(BALLS, Ball("a")), Notify("news", "two")))
        await store.run(commit_of(Notify("weather", "sun")))
        assert await take(first, 2) == await take(second, 2) == ["one", "two"]
        assert await take(other, 1) == ["sun"]


async def test_a_message_of_a_rejected_commit_is_not_sent() -> None:
    async with opened() as store:
        messages = store.listen("news")
        with pytest.raises(Conflict):
            await store.run(commit_of(Notify("news", "no"), Put(BALLS, Ball("a", version=1))))
        await store.run(commit_of(Notify("news", "yes")))
        assert await take(messages, 1) == ["yes"]


async def test_a_slow_listener_gets_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_backend, "BACKLOG_MAX", 2)
    async with opened() as store:
        messages = store.listen("news")
        await store.run(commit_of(*(Notify("news", str(n)) for n in range(3))))
        assert await take(messages, 2) == ["0", "1"]
        with pytest.raises(Gone, match="fell 2 messages behind"):
            await anext(messages)


async def test_a_listener_learns_that_the_store_is_closed() -> None:
    async with opened() as store:
        messages = store.listen("news")
    with pytest.raises(Unavailable, match="closed"):
        await anext(messages)


# -- dump and load --------------------------------------------------------------------------------------------


async def dump_all(store: SqliteStore) -> list[tuple[str, dict[str, Any]]]:
    return [item async for item in store.dump()]


async def fill(store: SqliteStore) -> None:
    full = Ball("b", owner="o", notes={"k": [1]}, marks=("x",), print=b"\0")
    await store.run(commit_of(Upsert(BALLS, full), Put(BALLS, Ball("a"))))
    await store.run(commit_of(Upsert(BALLS, full), Put(TICKETS, Ticket("r", "s", START_MS + 9))))
    await store.run(commit_of(Append("log", b"1", keep=1), Append("log", b"2", keep=1), Append("none", b"3", keep=0)))
    await store.run(commit_of(CountUp("hits", 50), CountUp("ever"), CountUp("ever")))


@pytest.mark.parametrize("is_file", [True, False])
async def test_a_dump_loaded_elsewhere_is_the_same_registry(tmp_path: Path, is_file: bool) -> None:
    names = (tmp_path / "a.db", tmp_path / "b.db") if is_file else ("memory://", "memory://")
    async with opened(names[0]) as store, opened(names[1]) as copy:
        await fill(store)
        items = await dump_all(store)
        assert await copy.load(store.dump()) == len(items) == 7
        assert await dump_all(copy) == items
        kinds = [(kind, values.get("name"), values.get("version")) for kind, values in items]
        assert kinds[:2] == [("balls", "a", 1), ("balls", "b", 2)]
        assert items[3:] == [
            ("log", {"name": "log", "payload": b"2", "dropped": 1}),
            ("log", {"name": "none", "payload": None, "dropped": 1}),
            ("counter", {"name": "ever", "value": 2, "expires_at": None}),
            ("counter", {"name": "hits", "value": 1, "expires_at": START_MS + 50}),
        ]
        assert (await copy.run(commit_of(Upsert(BALLS, Ball("b"))))).versions == (3,)


async def test_a_dump_is_of_one_instant(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db") as store:
        await store.run(commit_of(*(Put(BALLS, Ball(f"{n:04}")) for n in range(900))))
        items = store.dump()
        first = await anext(items)
        await store.run(commit_of(Put(BALLS, Ball("late")), Delete(BALLS, Ball("0899", version=1))))
        names = [first[1]["name"], *[values["name"] async for _, values in items]]
    assert names == [f"{n:04}" for n in range(900)]


async def test_an_import_needs_an_empty_registry() -> None:
    async with opened() as store, opened() as other:
        await fill(store)
        await fill(other)
        with pytest.raises(Conflict, match="an import needs an empty registry, and this one has balls"):
            await other.load(store.dump())


async def test_rows_are_counted_by_index() -> None:
    async with opened() as store:
        await store.run(commit_of(Put(BALLS, Ball("a")), Put(BALLS, Ball("b"))))
        assert await store.run(reads_of(CountRows(BALLS, "all"), CountRows(BALLS, "colour", ("blue",)))) == (2, 0)
