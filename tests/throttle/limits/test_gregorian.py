"""Calendar intervals, in UTC and in zones that are not on the hour or change their clocks."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.throttle.limits.buckets import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    WEEK,
    YEAR,
    Interval,
    calendar_error,
    calendar_interval,
)

INDIA = timezone(timedelta(hours=5, minutes=30))


class Summer(tzinfo):
    """UTC+1, and UTC+2 between the last Sundays of March and October 2024, as in the middle of Europe."""

    BEGIN = datetime(2024, 3, 31, 1, tzinfo=UTC)
    END = datetime(2024, 10, 27, 1, tzinfo=UTC)

    def utcoffset(self, moment: datetime | None) -> timedelta:
        assert moment is not None
        naive = moment.replace(tzinfo=None)
        begin, end = self.BEGIN.replace(tzinfo=None), self.END.replace(tzinfo=None)
        is_second_time = moment.fold and end + timedelta(hours=1) <= naive < end + timedelta(hours=2)
        is_summer = begin + timedelta(hours=1) <= naive < end + timedelta(hours=2) and not is_second_time
        return timedelta(hours=2 if is_summer else 1)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    def fromutc(self, moment: datetime) -> datetime:
        is_summer = self.BEGIN.replace(tzinfo=None) <= moment.replace(tzinfo=None) < self.END.replace(tzinfo=None)
        is_second_time = timedelta() <= moment.replace(tzinfo=UTC) - self.END < timedelta(hours=1)
        return (moment + timedelta(hours=2 if is_summer else 1)).replace(fold=int(is_second_time))


def ms(*when: int, zone: tzinfo = UTC) -> int:
    return round(datetime(*when, tzinfo=zone).timestamp() * 1000)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("kind", "begin", "after"),
    [
        (MINUTE, (2024, 2, 29, 13, 45), (2024, 2, 29, 13, 46)),
        (HOUR, (2024, 2, 29, 13), (2024, 2, 29, 14)),
        (DAY, (2024, 2, 29), (2024, 3, 1)),
        (MONTH, (2024, 2, 1), (2024, 3, 1)),
        (YEAR, (2024, 1, 1), (2025, 1, 1)),
    ],
)
def test_an_interval_starts_and_ends_with_the_calendar(
    kind: int, begin: tuple[int, ...], after: tuple[int, ...]
) -> None:
    length = ms(*after) - ms(*begin)
    want = Interval(ms(*begin), ms(*after) - 1, length)
    assert calendar_interval(kind, ms(2024, 2, 29, 13, 45, 7) + 123, UTC) == want
    assert calendar_interval(kind, want.begin_ms, UTC) == want
    assert calendar_interval(kind, want.end_ms, UTC) == want


def test_the_last_month_of_a_year_is_followed_by_the_next_year() -> None:
    found = calendar_interval(MONTH, ms(2023, 12, 31, 23, 59, 59), UTC)
    assert found == Interval(ms(2023, 12, 1), ms(2024, 1, 1) - 1, 31 * 86_400_000)


def test_days_and_hours_are_those_of_the_zone() -> None:
    now = ms(2024, 5, 1, 20)  # half past one on the 2nd in India
    day, hour = calendar_interval(DAY, now, INDIA), calendar_interval(HOUR, now, INDIA)
    assert day == Interval(ms(2024, 5, 2, zone=INDIA), ms(2024, 5, 3, zone=INDIA) - 1, 86_400_000)
    assert hour == Interval(ms(2024, 5, 2, 1, zone=INDIA), ms(2024, 5, 2, 2, zone=INDIA) - 1, 3_600_000)


def test_a_day_on_which_the_clocks_change_is_shorter_but_leaks_as_any_other() -> None:
    found = calendar_interval(DAY, ms(2024, 3, 31, 12), Summer())
    assert found is not None
    assert found.end_ms - found.begin_ms + 1 == 23 * 3_600_000
    assert found.length_ms == 86_400_000


def test_the_hour_that_comes_twice_is_two_hours() -> None:
    first, second = (
        calendar_interval(HOUR, ms(2024, 10, 27, 0, 30), Summer()),
        calendar_interval(HOUR, ms(2024, 10, 27, 1, 30), Summer()),
    )
    assert first == Interval(ms(2024, 10, 27, 0), ms(2024, 10, 27, 1) - 1, 3_600_000)
    assert second == Interval(ms(2024, 10, 27, 1), ms(2024, 10, 27, 2) - 1, 3_600_000)


@pytest.mark.parametrize("kind", [WEEK, 6, -1, 60_000])
def test_an_invalid_interval_is_reported(kind: int) -> None:
    assert calendar_interval(kind, 0, UTC) is None
    assert (
        "weeks are not supported" in calendar_error(kind)
        if kind == WEEK
        else f"duration {kind} is no" in calendar_error(kind)
    )


@given(
    kind=st.sampled_from([MINUTE, HOUR, DAY, MONTH, YEAR]),
    now=st.integers(ms(1971, 1, 1), ms(2200, 1, 1)),
    zone=st.sampled_from([UTC, INDIA, timezone(-timedelta(hours=11)), Summer()]),
)
def test_every_moment_is_in_its_interval_and_intervals_are_adjacent(kind: int, now: int, zone: tzinfo) -> None:
    found = calendar_interval(kind, now, zone)
    assert found is not None
    assert found.begin_ms <= now <= found.end_ms
    after = calendar_interval(kind, found.end_ms + 1, zone)
    assert after is not None
    assert after.begin_ms == found.end_ms + 1
