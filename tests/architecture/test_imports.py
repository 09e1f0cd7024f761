"""Layers: a package imports only packages below it, and every package is in the contract."""

import tomllib

import pytest
from importlinter.application.use_cases import lint_imports
from importlinter.configuration import configure

from tests.architecture.tree import ROOT, SOURCE

configure()


def layers() -> list[list[str]]:
    """The packages by layer, as pyproject.toml declares them; a planned package keeps its brackets."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = declared["tool"]["importlinter"]["contracts"][0]
    return [[package.strip() for package in layer.split("|")] for layer in contract["layers"]]


def test_packages_import_only_downwards(capsys: pytest.CaptureFixture[str]) -> None:
    is_kept = lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=None, no_logo=True)
    assert is_kept, capsys.readouterr().out


def test_every_package_is_in_the_contract() -> None:
    existing = {p.stem for p in SOURCE.iterdir() if (p / "__init__.py").exists() or p.suffix == ".py"} - {"__init__"}
    named = {package.strip("()") for layer in layers() for package in layer}
    assert existing <= named


def test_the_map_in_architecture_md_shows_the_declared_layers() -> None:
    pages = (ROOT / "ARCHITECTURE.md").read_text()
    for layer in layers():
        names = [package.strip("()") for package in layer]
        assert any(all(name in line for name in names) for line in pages.splitlines()), names
