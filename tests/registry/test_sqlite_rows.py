"""Rows in SQLite: writes round-trip, in the requested order, and a stale writer gets an error."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Conflict, Invalid
from argosy.registry.transaction import FIND_MAX, CountRows, CountUp, Delete, Find, Get, Put, Transaction, Upsert
from tests.registry.sqlite_stage import (
    BALLS,
    START_MS,
    TICKETS,
    Ball,
    Colour,
    StillClock,
    Ticket,
    commit_of,
    opened,
    reads_of,
)

FULL = Ball("a", Colour.BLUE, 7, "o", "b", True, b"\0\xff", ("x", ""), {"k": [1, None, {"z": 0.5}]}, 9)


async def test_every_type_of_value_round_trips() -> None:
    async with opened() as store:
        done = await store.run(commit_of(Put(BALLS, FULL), Put(BALLS, Ball("plain"))))
        assert done.versions == (1, 1)
        found, plain = await store.run(reads_of(Get(BALLS, ("a",)), Get(BALLS, ("plain",))))
    assert found == replace(FULL, version=1)
    assert plain == Ball("plain", version=1)
    assert found.colour is Colour.BLUE
    assert isinstance(found.is_flat, bool)


async def test_a_missing_row_is_none() -> None:
    async with opened() as store:
        assert await store.run(reads_of(Get(BALLS, ("a",)))) is None


async def test_a_put_must_name_the_version_that_is_stored() -> None:
    async with opened() as store:
        await store.run(commit_of(Put(BALLS, Ball("a"))))
        assert (await store.run(commit_of(Put(BALLS, Ball("a", rank=2, version=1))))).versions == (2,)
        with pytest.raises(Conflict, match="is at version 2, not 1: read it again"):
            await store.run(commit_of(Put(BALLS, Ball("a", rank=3, version=1))))
        with pytest.raises(Conflict, match="already exists, at version 2"):
            await store.run(commit_of(Put(BALLS, Ball("a"))))
        with pytest.raises(Conflict, match="no longer exists, and was at version 5: read it again"):
            await store.run(commit_of(Put(BALLS, Ball("b", version=5))))
        assert (await store.run(reads_of(Get(BALLS, ("a",))))).rank == 2


async def test_an_upsert_counts_on_from_whatever_is_there() -> None:
    async with opened() as store:
        for version in (1, 2, 3):
            assert (await store.run(commit_of(Upsert(BALLS, Ball("a", rank=version))))).versions == (version,)
        assert await store.run(reads_of(Get(BALLS, ("a",)))) == Ball("a", rank=3, version=3)


async def test_a_delete_must_name_the_version_that_is_stored() -> None:
    async with opened() as store:
        await store.run(commit_of(Upsert(BALLS, Ball("a")), Upsert(BALLS, Ball("b"))))
        with pytest.raises(Conflict, match="not 2"):
            await store.run(commit_of(Delete(BALLS, Ball("a", version=2))))
        await store.run(commit_of(Delete(BALLS, Ball("a", version=1))))
        with pytest.raises(Conflict, match="no longer exists"):
            await store.run(commit_of(Delete(BALLS, Ball("a", version=1))))
        assert [ball.name for ball in await store.run(reads_of(Find(BALLS, "all")))] == ["b"]


async def test_a_recreated_row_starts_at_version_one() -> None:
    async with opened() as store:
        await store.run(commit_of(Upsert(BALLS, Ball("a"))))
        await store.run(commit_of(Upsert(BALLS, Ball("a"))))
        await store.run(commit_of(Delete(BALLS, Ball("a", version=2))))
        assert (await store.run(commit_of(Put(BALLS, Ball("a"))))).versions == (1,)


async def test_a_rejected_write_rolls_back_the_whole_commit() -> None:
    async with opened() as store:
        before = await store.revision()
        with pytest.raises(Conflict):
            await store.run(commit_of(Put(BALLS, Ball("a")), Put(BALLS, Ball("b", version=1))))
        assert await store.run(reads_of(CountRows(BALLS, "all"))) == 0
        assert await store.revision() == before


async def test_a_second_row_with_a_unique_value_is_rejected_by_name() -> None:
    async with opened() as store:
        await store.run(commit_of(Put(BALLS, Ball("a", badge="x")), Put(BALLS, Ball("b")), Put(BALLS, Ball("c"))))
        with pytest.raises(Conflict, match="'x' in its unique index 'badge'"):
            await store.run(commit_of(Put(BALLS, Ball("d", badge="x"))))
        with pytest.raises(Conflict, match="'x' in its unique index 'badge'"):
            await store.run(commit_of(Upsert(BALLS, Ball("b", badge="x"))))
        with pytest.raises(Conflict, match="'x' in its unique index 'badge'"):
            await store.run(commit_of(Put(BALLS, Ball("b", badge="x", version=1))))
        assert [b.name for b in await store.run(reads_of(Find(BALLS, "badge", ("x",))))] == ["a"]


async def test_a_unique_value_can_be_handed_on_in_one_commit() -> None:
    async with opened() as store:
        await store.run(commit_of(Put(BALLS, Ball("a", badge="x"))))
        await store.run(commit_of(Put(BALLS, Ball("a", version=1)), Put(BALLS, Ball("b", badge="x"))))
        assert [b.name for b in await store.run(reads_of(Find(BALLS, "badge", ("x",))))] == ["b"]


async def test_the_same_row_can_be_written_twice_in_one_commit() -> None:
    async with opened() as store:
        await store.run(commit_of(Put(BALLS, Ball("a", rank=1))))

        def to_and_fro() -> Any:
            (ball,) = yield (Get(BALLS, ("a",)),)
            away, back = replace(ball, rank=2), replace(ball, rank=1, version=2)
            return (yield from iter(commit_of(Put(BALLS, away), Put(BALLS, back))))

        assert (await store.run(Transaction(to_and_fro))).versions == (2, 3)
        assert await store.run(reads_of(Find(BALLS, "all", until=1))) == [Ball("a", rank=1, version=3)]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, "abcde"),
        ({"after": 1}, "bcde"),
        ({"until": 2}, "abcd"),
        ({"after": 1, "until": 2}, "bcd"),
        ({"limit": 2}, "ab"),
        ({"limit": 0}, ""),
        ({"is_newest_first": True}, "edcba"),
        ({"is_newest_first": True, "after": 3}, "dcba"),
        ({"is_newest_first": True, "after": 3, "until": 2}, "dcb"),
        ({"is_newest_first": True, "limit": 2}, "ed"),
    ],
)
async def test_rows_come_in_the_order_of_the_index_then_by_key(bounds: dict[str, Any], expected: str) -> None:
    async with opened() as store:
        ranks = {"d": 2, "a": 1, "e": 3, "c": 2, "b": 2}
        await store.run(commit_of(*(Put(BALLS, Ball(name, rank=rank)) for name, rank in ranks.items())))
        await store.run(commit_of(Put(BALLS, Ball("z", Colour.BLUE, 2))))
        found = await store.run(reads_of(Find(BALLS, "colour", (Colour.RED,), **bounds)))
    assert "".join(ball.name for ball in found) == expected


async def test_a_row_without_an_indexed_value_is_not_in_the_index() -> None:
    async with opened() as store:
        await store.run(
            commit_of(
                Put(BALLS, Ball("a", owner="o", won_at=1)),
                Put(BALLS, Ball("b", owner="o")),
                Put(BALLS, Ball("c", won_at=1)),
            )
        )
        rows, count, none = await store.run(
            reads_of(Find(BALLS, "owner", ("o",)), CountRows(BALLS, "owner", ("o",)), Find(BALLS, "owner", (None,)))
        )
    assert ([ball.name for ball in rows], count, none) == (["a"], 1, [])


async def test_a_query_for_too_many_rows_is_rejected() -> None:
    async with opened() as store:
        for limit in (FIND_MAX + 1, -1):
            with pytest.raises(Invalid, match=f"0 to {FIND_MAX} rows of balls, not {limit}"):
                await store.run(reads_of(Find(BALLS, "all", limit=limit)))


async def test_an_expired_row_is_no_row() -> None:
    clock = StillClock()
    async with opened(clock=clock) as store:
        await store.run(commit_of(Upsert(TICKETS, Ticket("a", "1", START_MS + 10))))
        await store.run(commit_of(Upsert(TICKETS, Ticket("a", "1", START_MS + 10, "me"))))
        await store.run(commit_of(Put(TICKETS, Ticket("a", "2", START_MS + 99))))
        clock.pass_ms(10)
        one, rows, count = await store.run(
            reads_of(Get(TICKETS, ("a", "1")), Find(TICKETS, "row", ("a",)), CountRows(TICKETS, "row", ("a",)))
        )
        assert (one, [ticket.seat for ticket in rows], count) == (None, ["2"], 1)
        with pytest.raises(Conflict, match="no longer exists"):
            await store.run(commit_of(Put(TICKETS, Ticket("a", "1", START_MS + 99, version=2))))
        with pytest.raises(Conflict, match="no longer exists"):
            await store.run(commit_of(Delete(TICKETS, Ticket("a", "1", START_MS + 10, version=2))))


@pytest.mark.parametrize("write", [Put, Upsert])
async def test_a_new_row_takes_the_place_of_an_expired_one(write: Any) -> None:
    clock = StillClock()
    async with opened(clock=clock) as store:
        for _ in range(3):
            await store.run(commit_of(Upsert(TICKETS, Ticket("a", "1", START_MS + 10, "old"))))
        clock.pass_ms(10)
        assert (await store.run(commit_of(write(TICKETS, Ticket("a", "1", START_MS + 50, "new"))))).versions == (1,)
        found = await store.run(reads_of(Get(TICKETS, ("a", "1"))))
    assert found == Ticket("a", "1", START_MS + 50, "new", version=1)


async def test_expired_rows_are_pruned_by_and_by_without_an_event() -> None:
    clock = StillClock()
    async with opened(clock=clock) as store:
        for row in "abc":
            tickets = [Ticket(row, str(seat), START_MS + 10) for seat in range(100)]
            await store.run(commit_of(*(Upsert(TICKETS, ticket) for ticket in tickets)))
        revision = await store.revision()
        left = []
        for _ in range(3):
            clock.pass_ms(2000)
            await store.run(commit_of(CountUp("hits")))
            left.append(await store._writer.submit(_stored_tickets))
        assert left == [100, 0, 0]
        assert await store.revision() == revision


def _stored_tickets(session: Any) -> int:
    (count,) = session.cursor.execute('SELECT count(*) FROM "ticket:office"').fetchone()
    return int(count)


@pytest.mark.parametrize(
    "row",
    [
        Ball("a", rank="high"),  # type: ignore[arg-type]
        Ball("a", rank=1 << 60),
        Ball("a", rank=True),
        Ball("a", owner=7),  # type: ignore[arg-type]
        Ball("a", colour=None),  # type: ignore[arg-type]
        Ball("a", colour="purple"),  # type: ignore[arg-type]
        Ball("a", is_flat=1),  # type: ignore[arg-type]
        Ball("a", print="text"),  # type: ignore[arg-type]
        Ball("a", marks=["list"]),  # type: ignore[arg-type]
        Ball("a", marks=(1,)),  # type: ignore[arg-type]
        Ball("a", notes={1: 2}),  # type: ignore[dict-item]
        Ball("a", notes={"x": object()}),
        Ball("a", notes="text"),  # type: ignore[arg-type]
        Ball("a", owner="\ud800"),
        Ball("a", owner="x" * (1 << 20)),
        Ball("a", notes={"x": "y" * (1 << 20)}),
        Ball(""),
        Ball("é" * 600),
        Ticket("a", "b", 1),
    ],
)
async def test_values_that_would_not_round_trip_are_rejected(row: Any) -> None:
    async with opened() as store:
        for write in (Put, Upsert):
            with pytest.raises(Invalid):
                await store.run(commit_of(Put(BALLS, Ball("good")), write(BALLS, row)))
        assert await store.run(reads_of(CountRows(BALLS, "all"))) == 0


@pytest.mark.parametrize("key", ["", "x" * 1025, "\ud800", 7], ids=repr)
async def test_a_key_that_no_row_can_have_is_rejected(key: Any) -> None:
    async with opened() as store:
        with pytest.raises(Invalid):
            await store.run(reads_of(Get(BALLS, (key,))))


async def test_a_map_of_any_kind_is_stored() -> None:
    async with opened() as store:
        await store.run(commit_of(Put(BALLS, Ball("a", notes=MappingProxyType({"x": 1})))))
        assert (await store.run(reads_of(Get(BALLS, ("a",))))).notes == {"x": 1}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
BALLS_DRAWN = st.builds(
    Ball,
    name=st.sampled_from(["a", "b", "\0", "é", "'"]),
    colour=st.sampled_from(Colour),
    rank=st.integers(-(1 << 53), 1 << 53),
    owner=st.none() | TEXT,
    is_flat=st.booleans(),
    print=st.binary(max_size=5),
    marks=st.lists(TEXT, max_size=3).map(tuple),
    notes=st.dictionaries(TEXT, st.integers(-(1 << 53), 1 << 53) | st.none() | st.booleans(), max_size=3),
    won_at=st.none() | st.integers(0, 9),
)


@given(balls=st.lists(BALLS_DRAWN, max_size=8))
@settings(deadline=None, max_examples=60)
async def test_updates_of_read_rows_leave_table_and_indexes_in_step(balls: list[Ball]) -> None:
    async with opened() as store:
        expected: dict[str, Ball] = {}
        for ball in balls:
            known = await store.run(_rewrite(ball))
            expected[ball.name] = replace(ball, version=known)
        everything = await store.run(reads_of(Find(BALLS, "all")))
        assert everything == sorted(expected.values(), key=lambda ball: (ball.rank, ball.name.encode()))
        assert await store.check() == []


def _rewrite(ball: Ball) -> Any:
    """Reads a row and writes it again, as operations do."""

    def program() -> Any:
        (known,) = yield (Get(BALLS, (ball.name,)),)
        done = yield from iter(commit_of(Put(BALLS, replace(ball, version=known.version if known else 0))))
        return done.versions[0]

    return Transaction(program)
