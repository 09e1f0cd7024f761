"""Commands are tested without the settings of whoever runs the tests."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ARGOSY_")]:
        monkeypatch.delenv(name)
