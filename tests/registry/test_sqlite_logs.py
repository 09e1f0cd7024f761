"""Logs drop their oldest entries and count exactly; counters expire."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Conflict, Invalid
from argosy.registry.transaction import (
    Append,
    CountUp,
    DropCounter,
    DropLog,
    LogState,
    Put,
    ReadCounter,
    ReadLog,
    TakeOldest,
)
from tests.registry.sqlite_stage import BALLS, Ball, StillClock, commit_of, opened, reads_of


async def test_a_log_is_read_newest_first() -> None:
    async with opened() as store:
        await store.run(commit_of(*(Append("log", payload) for payload in (b"a", b"bb", b"ccc"))))
        assert await store.run(reads_of(ReadLog("log", 2))) == LogState((b"ccc", b"bb"), 3, 6, 0)
        assert await store.run(reads_of(ReadLog("other", 2))) == LogState((), 0, 0, 0)


async def test_a_full_log_drops_its_oldest_and_counts_them() -> None:
    async with opened() as store:
        for payload in (b"a", b"bb", b"ccc"):
            await store.run(commit_of(Append("few", payload, keep=2), Append("small", payload, keep_bytes=4)))
        few, small = await store.run(reads_of(ReadLog("few", 9), ReadLog("small", 9)))
    assert few == LogState((b"ccc", b"bb"), 2, 5, 1)
    assert small == LogState((b"ccc",), 1, 3, 2)


async def test_an_entry_larger_than_the_log_is_dropped_itself() -> None:
    async with opened() as store:
        await store.run(commit_of(Append("log", b"ab", keep_bytes=3)))
        await store.run(commit_of(Append("log", b"abcd", keep_bytes=3)))
        assert await store.run(reads_of(ReadLog("log", 9))) == LogState((), 0, 0, 2)


async def test_entries_taken_from_a_log_do_not_count_as_dropped() -> None:
    async with opened() as store:
        await store.run(commit_of(*(Append("log", payload) for payload in (b"a", b"bb", b"ccc"))))
        assert (await store.run(commit_of(TakeOldest("log", 2), TakeOldest("none", 2)))).taken == ((b"a", b"bb"), ())
        assert await store.run(reads_of(ReadLog("log", 9))) == LogState((b"ccc",), 1, 3, 0)
        assert (await store.run(commit_of(TakeOldest("log", 2)))).taken == ((b"ccc",),)
        await store.run(commit_of(Append("log", b"d")))
        assert await store.run(reads_of(ReadLog("log", 9))) == LogState((b"d",), 1, 1, 0)


async def test_a_dropped_log_starts_again() -> None:
    async with opened() as store:
        await store.run(commit_of(Append("log", b"a", keep=0), DropLog("log"), DropLog("none")))
        assert await store.run(reads_of(ReadLog("log", 9))) == LogState((), 0, 0, 0)


MAYBE = st.none() | st.integers(0, 9)


@given(
    steps=st.lists(
        st.tuples(st.just("append"), st.binary(max_size=6), MAYBE, MAYBE)
        | st.tuples(st.just("take"), st.integers(0, 3)),
        max_size=25,
    )
)
@settings(deadline=None, max_examples=60)
async def test_length_and_bytes_are_exact_whatever_happens(steps: list[Any]) -> None:
    expected: list[bytes] = []
    dropped = 0
    async with opened() as store:
        for step in steps:
            if step[0] == "take":
                taken, expected = expected[: step[1]], expected[step[1] :]
                assert (await store.run(commit_of(TakeOldest("log", step[1])))).taken == (tuple(taken),)
                continue
            _, payload, keep, keep_bytes = step
            expected.append(payload)
            while len(expected) > (99 if keep is None else keep) or len(b"".join(expected)) > (
                999 if keep_bytes is None else keep_bytes
            ):
                expected, dropped = expected[1:], dropped + 1
            await store.run(commit_of(Append("log", payload, keep, keep_bytes)))
        state = await store.run(reads_of(ReadLog("log", 99)))
    assert state == LogState(tuple(reversed(expected)), len(expected), sum(map(len, expected)), dropped)


async def test_a_counter_keeps_its_first_ttl() -> None:
    clock = StillClock()
    async with opened(clock=clock) as store:
        assert (await store.run(commit_of(CountUp("hits", 100), CountUp("ever")))).counts == ((1, 100), (1, 0))
        clock.pass_ms(40)
        assert (await store.run(commit_of(CountUp("hits", 100), CountUp("ever", 100)))).counts == ((2, 60), (2, 0))
        assert await store.run(reads_of(ReadCounter("hits"), ReadCounter("ever"))) == ((2, 60), (2, 0))
        clock.pass_ms(60)
        assert await store.run(reads_of(ReadCounter("hits"), ReadCounter("none"))) == ((0, 0), (0, 0))
        assert (await store.run(commit_of(CountUp("hits", 50)))).counts == ((1, 50),)


async def test_a_dropped_counter_starts_again() -> None:
    async with opened() as store:
        await store.run(commit_of(CountUp("hits"), CountUp("hits"), DropCounter("hits"), DropCounter("none")))
        assert await store.run(reads_of(ReadCounter("hits"))) == (0, 0)


async def test_logs_and_counters_are_part_of_the_commit_that_is_rejected() -> None:
    async with opened() as store:
        with pytest.raises(Conflict):
            await store.run(commit_of(Append("log", b"a"), CountUp("hits"), Put(BALLS, Ball("a", version=1))))
        assert await store.run(reads_of(ReadLog("log", 1), ReadCounter("hits"))) == (LogState((), 0, 0, 0), (0, 0))


@pytest.mark.parametrize(
    "write",
    [Append("log", "text"), Append("log", b"x" * ((16 << 20) + 1)), TakeOldest("log", -1), CountUp("hits", 0)],  # type: ignore[arg-type]
    ids=["text", "large", "negative", "no time"],
)
async def test_unsupported_log_and_counter_operations_are_rejected(write: Any) -> None:
    async with opened() as store:
        with pytest.raises(Invalid):
            await store.run(commit_of(Append("log", b"a"), write))
        assert await store.run(reads_of(ReadLog("log", 9))) == LogState((), 0, 0, 0)
