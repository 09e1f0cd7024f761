"""The settings of the limits: checked when they are read, and enough to open a limiter."""

from pathlib import Path

import pytest

from argosy.base.errors import Invalid
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.backends.sqlite import SqliteLimiter
from argosy.throttle.limits.factory import open_limits
from argosy.throttle.limits.settings import LimitSettings
from tests.throttle.limits.stage import HandClock, request


async def test_by_default_each_process_counts_for_itself(clock: HandClock) -> None:
    limiter = await open_limits(LimitSettings(), clock=clock)
    assert isinstance(limiter, MemoryLimiter)
    assert [each.remaining for each in await limiter.check([request(3)])] == [7]
    await limiter.close()


async def test_a_file_is_opened_with_the_numbers_given(clock: HandClock, tmp_path: Path) -> None:
    settings = LimitSettings(store=f"sqlite:///{tmp_path / 'limits.db'}", keys_max=2, zone="Europe/Berlin")
    limiter = await open_limits(settings, clock=clock)
    assert isinstance(limiter, SqliteLimiter)
    for key in ("a", "b", "c"):
        await limiter.check([request(3, key=key)])
    assert [each.remaining for each in await limiter.check([request(3, key="a")])] == [7]  # it had to evict
    await limiter.close()


async def test_a_store_that_there_is_not_is_refused(clock: HandClock) -> None:
    with pytest.raises(Invalid, match="did you mean rediss://"):
        await open_limits(LimitSettings(store="rediss2://x"), clock=clock)


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (LimitSettings(namespace="a:b"), "a namespace has letters"),
        (LimitSettings(namespace=""), "a namespace has letters"),
        (LimitSettings(zone="Atlantis/Capital"), "unknown time zone"),
        (LimitSettings(zone="../etc/passwd"), "unknown time zone"),
    ],
)
def test_impossible_settings_are_reported(settings: LimitSettings, fault: str) -> None:
    (problem,) = settings.check()
    assert fault in problem


def test_the_defaults_are_sound() -> None:
    assert list(LimitSettings().check()) == []
