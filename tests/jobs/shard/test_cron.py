"""When a cron schedule comes round, clocks that are moved included."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.jobs.shard.cron import parse

BERLIN = "Europe/Berlin"


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def rounds(cron: str, after: str, count: int, zone: str = "UTC") -> list[str]:
    """In UTC, without the year's first digits."""
    schedule, at, found = parse(cron, zone), ms(after, zone), []
    for _ in range(count):
        at = schedule.next_after(at)
        found.append(datetime.fromtimestamp(at / 1000, ZoneInfo("UTC")).strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("cron", "found"),
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
def test_a_schedule_comes_round(cron: str, found: list[str]) -> None:
    assert rounds(cron, "2024-03-04T05:06:07", 2) == found


def test_a_time_the_clocks_skip_comes_as_much_later() -> None:
    # In Berlin 02:00 became 03:00 on 31 March 2024, at 01:00 UTC.
    assert rounds("30 2 * * *", "2024-03-30T12:00:00", 2, BERLIN) == ["03-31 01:30", "04-01 00:30"]


def test_a_time_the_clocks_show_twice_counts_once() -> None:
    # 03:00 became 02:00 on 27 October 2024, at 01:00 UTC.
    assert rounds("30 2 * * *", "2024-10-26T12:00:00", 2, BERLIN) == ["10-27 00:30", "10-28 01:30"]


def test_a_schedule_for_every_hour_neither_pauses_nor_catches_up_when_clocks_are_moved() -> None:
    assert rounds("30 * * * *", "2024-10-27T01:00:00", 4, BERLIN) == [
        "10-26 23:30", "10-27 00:30", "10-27 01:30", "10-27 02:30",
    ]  # fmt: skip
    assert rounds("*/30 * * * *", "2024-03-31T01:10:00", 3, BERLIN) == ["03-31 00:30", "03-31 01:00", "03-31 01:30"]


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *",
     "*/0 * * * *", "x * * * *", "1,,2 * * * *", "-1 * * * *", "* * * foo *", "٣ * * * *", "1" * 300],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(cron: str) -> None:
    with pytest.raises(Invalid):
        parse(cron)


def test_a_schedule_that_never_comes_round_is_refused() -> None:
    with pytest.raises(Invalid, match="never"):
        parse("0 0 30 2 *").next_after(ms("2024-01-01T00:00:00"))


@given(
    at=st.integers(ms("2023-01-01T00:00:00"), ms("2026-01-01T00:00:00")),
    cron=st.sampled_from(["*/7 * * * *", "15 */3 * * *", "0 2 * * *", "30 2 * * 0", "59 23 28-31 * *"]),
    zone=st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_the_next_round_is_later_and_none_is_left_out_between(at: int, cron: str, zone: str) -> None:
    schedule = parse(cron, zone)
    following = schedule.next_after(at)
    assert following > at
    assert schedule.next_after(following - 1) == following
    assert schedule.next_after((at + following) // 2) == following
