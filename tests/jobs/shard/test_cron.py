"""Due times of cron schedules, including clock changes."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.jobs.shard.cron_schedules import parse_cron

BERLIN = "Europe/Berlin"


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def start_times(cron: str, after: str, count: int, zone: str = "UTC") -> list[str]:
    """In UTC, without the first digits of the year."""
    schedule, at, found = parse_cron(cron, zone), ms(after, zone), []
    for _ in range(count):
        at = schedule.next_after(at)
        found.append(datetime.fromtimestamp(at / 1000, ZoneInfo("UTC")).strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("* * * * *", ["03-04 05:07", "03-04 05:08"]),
        ("*/15 * * * *", ["03-04 05:15", "03-04 05:30"]),
        ("5/20 4-5 * * *", ["03-04 05:25", "03-04 05:45"]),
        ("0 9,17 * * *", ["03-04 09:00", "03-04 17:00"]),
        ("0 0 1 jan,Jul *", ["07-01 00:00", "01-01 00:00"]),
        ("30 8 * * mon-fri", ["03-04 08:30", "03-05 08:30"]),
        ("0 12 * * 7", ["03-10 12:00", "03-17 12:00"]),
        ("0 12 13 * 5", ["03-08 12:00", "03-13 12:00"]),
        ("0 0 29 2 *", ["02-29 00:00", "02-29 00:00"]),
        ("@daily", ["03-05 00:00", "03-06 00:00"]),
        ("@hourly", ["03-04 06:00", "03-04 07:00"]),
    ],
)
def test_a_schedule_has_the_expected_times(cron: str, expected: list[str]) -> None:
    assert start_times(cron, "2024-03-04T05:06:07", 2) == expected


def test_a_skipped_time_runs_right_after_the_clock_change() -> None:
    # In Berlin 02:00 became 03:00 on 31 March 2024, at 01:00 UTC.
    assert start_times("30 2 * * *", "2024-03-30T12:00:00", 2, BERLIN) == ["03-31 01:00", "04-01 00:30"]
    assert start_times("15,45 2 * * *", "2024-03-30T12:00:00", 2, BERLIN) == ["03-31 01:00", "04-01 00:15"]


def test_a_skipped_time_of_a_schedule_for_every_minute_does_not_run() -> None:
    assert start_times("*/20 2 * * *", "2024-03-30T12:00:00", 2, BERLIN) == ["04-01 00:00", "04-01 00:20"]


def test_a_search_from_the_repeated_hour_does_not_go_back() -> None:
    # 01:05 UTC is 02:05 in Berlin for the second time.
    at = ms("2024-10-27T01:05:00")
    assert parse_cron("30 2 * * *", BERLIN).next_after(at) == ms("2024-10-28T01:30:00")
    assert parse_cron("0-59 2 * * *", BERLIN).next_after(at) == ms("2024-10-28T01:00:00")


def test_a_repeated_local_time_runs_once() -> None:
    # 03:00 became 02:00 on 27 October 2024, at 01:00 UTC.
    assert start_times("30 2 * * *", "2024-10-26T12:00:00", 2, BERLIN) == ["10-27 00:30", "10-28 01:30"]


def test_an_hourly_schedule_is_unaffected_by_clock_changes() -> None:
    assert start_times("30 * * * *", "2024-10-27T01:00:00", 4, BERLIN) == [
        "10-26 23:30",
        "10-27 00:30",
        "10-27 01:30",
        "10-27 02:30",
    ]
    found = start_times("*/30 * * * *", "2024-03-31T01:10:00", 3, BERLIN)
    assert found == ["03-31 00:30", "03-31 01:00", "03-31 01:30"]


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *",
     "*/0 * * * *", "x * * * *", "1,,2 * * * *", "-1 * * * *", "* * * foo *", "٣ * * * *", "1" * 300],
)  # fmt: skip
def test_an_invalid_cron_expression_is_rejected(cron: str) -> None:
    with pytest.raises(Invalid):
        parse_cron(cron)


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30-31 feb */2"])
def test_a_schedule_that_never_matches_is_rejected(cron: str) -> None:
    with pytest.raises(Invalid, match="never matches a date: change its day or month"):
        parse_cron(cron).next_after(ms("2024-01-01T00:00:00"))


def test_a_rare_schedule_is_computed_without_blocking_the_event_loop() -> None:
    began = time.process_time()
    assert parse_cron("* * */7 9 2").next_after(ms("2026-11-18T00:00:00")) == ms("2037-09-01T00:00:00")
    # 29 February is a Sunday every 28 years, and every 40 across 2100, which is no leap year.
    assert parse_cron("0 0 29 2 */7").next_after(ms("2088-03-01T00:00:00")) == ms("2128-02-29T00:00:00")
    assert time.process_time() - began < 0.2


def test_a_one_value_range_with_a_step_is_that_value() -> None:
    assert start_times("5-5/10 * * * *", "2024-03-04T05:06:07", 2) == ["03-04 06:05", "03-04 07:05"]


@pytest.mark.parametrize("cron", ["0 0 L * *", "0 0 LW * *", "0 0 * * 5L", "0 0 * * 1#2"])
def test_extensions_of_the_library_are_not_part_of_the_syntax(cron: str) -> None:
    with pytest.raises(Invalid, match="must be between"):
        parse_cron(cron)


def fields(least: int, most: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """A field's text and its numbers, written without a parser."""
    number, step = st.integers(least, most), st.integers(1, most)
    span = st.tuples(number, number).map(lambda pair: (min(pair), max(pair)))
    return st.one_of(
        st.just(("*", frozenset(range(least, most + 1)))),
        number.map(lambda n: (f"{n}", frozenset({n}))),
        step.map(lambda n: (f"*/{n}", frozenset(range(least, most + 1, n)))),
        span.map(lambda s: (f"{s[0]}-{s[1]}", frozenset(range(s[0], s[1] + 1)))),
        st.tuples(span, step).map(
            lambda t: (f"{t[0][0]}-{t[0][1]}/{t[1]}", frozenset(range(t[0][0], t[0][1] + 1, t[1])))
        ),
        st.tuples(number, step).map(lambda t: (f"{t[0]}/{t[1]}", frozenset(range(t[0], most + 1, t[1])))),
        st.tuples(number, number).map(lambda t: (f"{t[0]},{t[1]}", frozenset(t))),
    )


@given(
    at=st.integers(ms("2023-01-01T00:00:00"), ms("2030-01-01T00:00:00")),
    minute=fields(0, 59),
    hour=fields(0, 23),
    day=fields(1, 31),
    month=fields(1, 12),
    weekday=fields(0, 7),
)
def test_the_next_time_is_the_first_minute_that_matches(
    at: int,
    minute: tuple[str, frozenset[int]],
    hour: tuple[str, frozenset[int]],
    day: tuple[str, frozenset[int]],
    month: tuple[str, frozenset[int]],
    weekday: tuple[str, frozenset[int]],
) -> None:
    def is_date(at: datetime) -> bool:
        is_day, is_weekday = at.day in day[1], at.isoweekday() in weekday[1] or at.isoweekday() % 7 in weekday[1]
        is_either = not (day[0].startswith("*") or weekday[0].startswith("*"))
        return at.month in month[1] and ((is_day or is_weekday) if is_either else (is_day and is_weekday))

    expected = datetime.fromtimestamp(at // 60_000 * 60, UTC) + timedelta(minutes=1)
    limit = expected + timedelta(days=3 * 366)
    while expected < limit and not (is_date(expected) and expected.hour in hour[1] and expected.minute in minute[1]):
        if not is_date(expected):
            expected = datetime(expected.year, expected.month, expected.day, tzinfo=UTC) + timedelta(days=1)
        elif expected.hour not in hour[1]:
            expected = expected.replace(minute=0) + timedelta(hours=1)
        else:
            expected += timedelta(minutes=1)
    cron = parse_cron(" ".join(text for text, _ in (minute, hour, day, month, weekday)))
    try:
        found = cron.next_after(at)
    except Invalid:
        assert expected >= limit
    else:
        assert found == int(expected.timestamp()) * 1000 or (expected >= limit and found >= limit.timestamp() * 1000)


@given(
    at=st.integers(ms("2023-01-01T00:00:00"), ms("2026-01-01T00:00:00")),
    cron=st.sampled_from(["*/7 * * * *", "15 */3 * * *", "0 2 * * *", "30 2 * * 0", "59 23 28-31 * *"]),
    zone=st.sampled_from(["UTC", BERLIN, "America/New_York", "Antarctica/Troll", "Asia/Kathmandu", "Asia/Beirut"]),
)
def test_the_next_time_is_later_and_none_between_is_skipped(at: int, cron: str, zone: str) -> None:
    schedule = parse_cron(cron, zone)
    following = schedule.next_after(at)
    assert following > at
    assert schedule.next_after(following - 1) == following
    assert schedule.next_after((at + following) // 2) == following


@given(
    at=st.integers(ms("2023-01-01T00:00:00"), ms("2026-01-01T00:00:00")),
    cron=st.sampled_from(["* * * * *", "15 */3 * * *", "* 2 * * *", "0 2 * * *", "0-59 1 * * *"]),
)
def test_a_half_hour_clock_change_never_goes_back(at: int, cron: str) -> None:
    """On that day times may be skipped (docs/jobs.md), but they always increase."""
    assert parse_cron(cron, "Australia/Lord_Howe").next_after(at) > at
