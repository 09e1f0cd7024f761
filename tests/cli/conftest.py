"""Commands are tested without the settings of the user who runs the tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in [name for name in os.environ if name.startswith("ARGOSY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("no-config")))
    monkeypatch.setattr("argosy.app.settings.MACHINE_CONFIG", Path("/nonexistent/argosy/config.toml"))
