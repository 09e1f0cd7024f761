"""The storeys of the house: a room imports only rooms beneath it, and every room says where it stands."""

import tomllib

import pytest
from importlinter.application.use_cases import lint_imports
from importlinter.configuration import configure

from tests.house.tree import ROOT, SOURCE

configure()


def storeys() -> list[list[str]]:
    """The rooms by storey as pyproject.toml declares them; a planned room keeps its brackets."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = declared["tool"]["importlinter"]["contracts"][0]
    return [[room.strip() for room in storey.split("|")] for storey in contract["layers"]]


def test_every_room_imports_only_rooms_beneath_it(capsys: pytest.CaptureFixture[str]) -> None:
    is_kept = lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=None, no_logo=True)
    assert is_kept, capsys.readouterr().out


def test_every_room_says_where_it_stands() -> None:
    standing = {p.stem for p in SOURCE.iterdir() if (p / "__init__.py").exists() or p.suffix == ".py"} - {"__init__"}
    named = {room.strip("()") for storey in storeys() for room in storey}
    assert standing <= named


def test_the_map_in_architecture_md_shows_the_declared_storeys() -> None:
    pages = (ROOT / "ARCHITECTURE.md").read_text()
    for storey in storeys():
        names = [room.strip("()") for room in storey]
        assert any(all(name in line for name in names) for line in pages.splitlines()), names
