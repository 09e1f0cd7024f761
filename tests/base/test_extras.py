"""Missing packages: which extra has them, and the command that installs them."""

import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from argosy.base import extras
from argosy.base.errors import Invalid
from argosy.base.extras import (
    DEFAULT,
    load_module,
    missing_package,
    name_of,
    requirements_from_metadata,
    requirements_from_project,
)

ROOT = Path(__file__).parents[2]
METADATA = [
    "click>=8.4",
    "redis[hiredis]>=5.1; extra == 'all'",
    'slatedb==0.17.0; extra == "all"',
    "slatedb==0.17.0; extra == 'jobs'",
    "grpcio>=1.60; extra == 'jobs'",
    "grpcio>=1.60; extra == 'etcd'",
    "redis[hiredis]>=5.1; extra == 'redis'",
]


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates an installed wheel that requires METADATA."""
    monkeypatch.setattr(extras, "read_requirements", lambda: requirements_from_metadata(METADATA))
    monkeypatch.setattr(extras, "_checkout", lambda: None)
    monkeypatch.setattr(extras, "_is_installed", lambda package: package == "grpcio")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/home/ada/my env/bin/python")


def missing(module: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {module!r}", name=module)


@pytest.mark.usefixtures("_installed")
def test_a_missing_package_is_named_with_its_versions() -> None:
    """The largest extra with the package is named; its installed packages are left out."""
    error = missing_package(missing("slatedb.uniffi"))
    assert isinstance(error, Invalid)
    assert str(error) == (
        "this command needs the package slatedb, which is not installed: "
        "run `uv pip install --python '/home/ada/my env/bin/python' slatedb==0.17.0`"
    )


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("module", ["redis.asyncio", "hiredis"])
def test_pip_of_the_environment_is_used_if_present(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    error = missing_package(missing(module), extra="redis", purpose="the redis backend")
    assert str(error) == (
        "the redis backend needs the package redis, which is not installed: "
        "run `'/home/ada/my env/bin/python' -m pip install 'redis[hiredis]>=5.1'`"
    )


@pytest.mark.usefixtures("_installed")
def test_pipx_installs_into_its_own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert extras.install_command("redis") == "pipx inject argosy 'redis[hiredis]>=5.1'"


@pytest.mark.parametrize("module", ["pandas", "argosy.no_such_module"])
def test_a_module_that_no_extra_has_is_no_missing_package(module: str) -> None:
    error = missing(module)
    assert missing_package(error) is error


def test_in_a_checkout_the_environment_is_set_up() -> None:
    assert extras.install_command("jobs") == extras.install_command(DEFAULT) == "make setup"


def test_in_a_checkout_what_its_lock_does_not_have_is_installed_beside_it() -> None:
    command = extras.install_command("arrow")
    assert ".venv/boot/bin/uv" in command
    assert command.endswith(f"pip install --python {shlex.quote(sys.executable)} 'pyarrow>=20'")


def test_a_module_that_is_installed_is_loaded() -> None:
    assert load_module("json", extra="jobs", purpose="this") is sys.modules["json"]


def test_the_project_and_its_metadata_mean_the_same() -> None:
    project = {
        "project": {
            "dependencies": ["click>=8.4"],
            "optional-dependencies": {
                "jobs": ["slatedb==0.17.0", "grpcio>=1.60"],
                "etcd": ["grpcio>=1.60"],
                "redis": ["redis[hiredis]>=5.1"],
                "all": ["argosy[redis]", "slatedb==0.17.0"],
            },
        }
    }
    assert requirements_from_project(project) == requirements_from_metadata(METADATA)


def test_every_module_with_another_name_is_of_a_package_that_is_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    required = {name_of(each) for wanted in requirements_from_project(project).values() for each in wanted}
    assert set(extras.DISTRIBUTIONS.values()) <= required
