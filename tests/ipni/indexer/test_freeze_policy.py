"""When an indexer freezes, and how early it warns."""

from pathlib import Path

import pytest

from argosy.ipni.backends.disk_usage import DiskUsage, FileUsage
from argosy.ipni.indexer.freeze import UNREADABLE, Freeze, Freezer, ReportUsage, UsageRead


@pytest.mark.parametrize(
    ("percent", "level"),
    [(0, "ok"), (79.9, "ok"), (80, "alert"), (87.9, "alert"), (88, "critical"), (95, "critical"), (-1, "unreadable")],
)
def test_readings_warn_within_10_points_and_again_within_2(percent: float, level: str) -> None:
    """ "If the freeze limit is set at 90% usage, then the warning starts when the indexer is at or above 80% usage"."""
    assert Freezer(90).level(percent) == level


def test_it_freezes_at_the_limit_and_not_below() -> None:
    freezer = Freezer(90)
    assert freezer.handle(UsageRead(89.99), 0) == [ReportUsage("critical", 89.99)]
    assert freezer.handle(UsageRead(90), 1) == [ReportUsage("critical", 90), Freeze(90)]
    freezer.is_frozen = True
    assert freezer.handle(UsageRead(91), 2) == [ReportUsage("critical", 91)], "once is enough"


def test_an_unreadable_disk_does_not_freeze() -> None:
    assert Freezer(0).handle(UsageRead(UNREADABLE), 0) == [ReportUsage("unreadable", UNREADABLE)]


def test_a_negative_limit_turns_freezing_off() -> None:
    freezer = Freezer(-1)
    assert not freezer.is_on
    assert freezer.handle(UsageRead(100), 0) == [ReportUsage("ok", 100)]


def test_the_fuller_the_disk_the_sooner_the_next_reading() -> None:
    freezer = Freezer(90)
    freezer.handle(UsageRead(40), 1000)
    assert freezer.deadline() == 1000 + 1800
    freezer.handle(UsageRead(89.9), 5000)
    assert freezer.deadline() == 5000 + 30
    assert freezer.handle(None, 5001) == []


def test_the_usage_of_a_folder_is_that_of_its_file_system(tmp_path: Path) -> None:
    percent = DiskUsage([tmp_path, tmp_path]).percent()
    assert 0 <= percent <= 100
    assert DiskUsage([tmp_path / "missing"]).percent() == UNREADABLE
    assert DiskUsage([]).percent() == 0


@pytest.mark.parametrize(
    ("text", "percent"), [("93.5\n", 93.5), ("12%", 12), ("", UNREADABLE), ("full", UNREADABLE), ("101", UNREADABLE)]
)
def test_the_usage_may_come_from_a_file(tmp_path: Path, text: str, percent: float) -> None:
    path = tmp_path / "usage"
    path.write_text(text)
    assert FileUsage(path).percent() == percent
    assert FileUsage(tmp_path / "missing").percent() == UNREADABLE
