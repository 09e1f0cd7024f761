"""The throttle's settings, and the configuration they describe."""

from typing import Any

import pytest

from argosy.base.errors import Invalid
from argosy.base.settings import load
from argosy.throttle import FairThrottle, ThrottleSync, preset, tune_config
from argosy.throttle.model import mean
from argosy.throttle.settings import ThrottleSettings


def loaded(toml: str = "", **environ: str) -> ThrottleSettings:
    return load([ThrottleSettings], toml_text=toml, environ=environ).get(ThrottleSettings)


def test_without_any_settings_it_is_the_standard_throttle_alone() -> None:
    settings = loaded()
    assert settings.config() == tune_config()
    assert settings.store is None


def test_a_preset_can_be_chosen_and_changed_in_parts() -> None:
    settings = loaded('[throttle]\npreset = "strict"\nbuckets = 500\nfinal = "mean"\nis_shadow = true')
    config = settings.config()
    assert (config.decay_per_s, config.buckets, config.final, config.is_shadow) == (0.0, 500, mean, True)
    assert config.failure_step == preset("strict").failure_step


def test_secrets_come_from_the_environment_and_are_bytes() -> None:
    settings = loaded(ARGOSY_THROTTLE_SECRET="größe", ARGOSY_THROTTLE_STORE="rediss://:pw@host")
    assert settings.config().secret == "größe".encode()
    assert settings.store == "rediss://:pw@host"


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("poll_s = 0.1", "poll_s"),
        ('namespace = "a:b"', "namespace"),
        ("failure_step = 0.001\nsuccess_step = 0.01", "must be greater"),
        ("failure_step = 1.0", "less than 1"),
        ("levels = 64\nbuckets = 1000000", "levels times buckets"),
        ('preset = "lenient"', "one of standard, strict"),
        ('squash = "min"', "one of rebase"),
    ],
)
def test_inconsistent_settings_are_reported_at_load_time(toml: str, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        loaded(f"[throttle]\n{toml}")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"flush_s": -1}, "flush_s: "),
        ({"queue_max": 0}, "queue_max: "),
        ({"squash": "none"}, "squash: "),
        ({"flush_s": 2.0, "poll_s": 1.0}, "poll_s"),
    ],
)
def test_settings_made_in_code_are_checked_before_sharing_starts(wrong: dict[str, Any], complaint: str) -> None:
    settings = ThrottleSettings(store="redis://nowhere.invalid", **wrong)
    with pytest.raises(Invalid, match=f"invalid throttle settings: {complaint}"):
        ThrottleSync.open(FairThrottle(), settings)
