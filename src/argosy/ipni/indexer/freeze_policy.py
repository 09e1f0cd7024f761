"""When an indexer freezes: a machine over the readings of how full its disks are.

The fuller the disk, the sooner the next reading. Within 10 points of the limit each reading is a warning, within 2
points a critical one, so that an operator can add space before the indexer stops storing.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

UNREADABLE = -1.0
ALERT_POINTS = 10.0
CRITICAL_POINTS = 2.0
CHECK_S_MAX = 3600.0  # per 100 points that are left
CHECK_S_MIN = 30.0

Level: TypeAlias = Literal["ok", "alert", "critical", "unreadable"]


class Usage(Protocol):
    """How full the fullest of the indexer's disks is."""

    def percent(self) -> float: ...


@dataclass(frozen=True)
class UsageRead:
    """The fullest of the disks, in percent, or UNREADABLE."""

    percent: float


@dataclass(frozen=True)
class Freeze:
    percent: float


@dataclass(frozen=True)
class ReportUsage:
    level: Level
    percent: float


class Freezer:
    """A negative limit turns freezing off; readings are still told. Whoever carries out a freeze sets `is_frozen`."""

    def __init__(self, limit_percent: float, *, is_frozen: bool = False) -> None:
        self.limit_percent = limit_percent
        self.is_frozen = is_frozen
        self._next_at = 0.0

    @property
    def is_on(self) -> bool:
        return self.limit_percent >= 0

    def is_over(self, percent: float) -> bool:
        return self.is_on and percent != UNREADABLE and percent >= self.limit_percent

    def handle(self, event: UsageRead | None, now: float) -> list[Freeze | ReportUsage]:
        if event is None:
            return []
        percent = event.percent
        self._next_at = now + self.pause_s(percent)
        effects: list[Freeze | ReportUsage] = [ReportUsage(self.level(percent), percent)]
        if self.is_over(percent) and not self.is_frozen:
            effects.append(Freeze(percent))
        return effects

    def deadline(self) -> float | None:
        return self._next_at

    def level(self, percent: float) -> Level:
        if percent == UNREADABLE:
            return "unreadable"
        if not self.is_on or percent < self.limit_percent - ALERT_POINTS:
            return "ok"
        return "alert" if percent < self.limit_percent - CRITICAL_POINTS else "critical"

    def pause_s(self, percent: float) -> float:
        """Until the next reading."""
        left = (self.limit_percent if self.is_on else 100.0) - max(percent, 0.0)
        return max(CHECK_S_MIN, CHECK_S_MAX * left / 100.0)
