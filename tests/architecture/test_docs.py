"""Documentation is part of the product: generated pages are current, links lead somewhere, commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from argosy.app import SECTIONS
from argosy.base import settings
from argosy.cli.root import command_tree
from argosy.ownership.backends import etcd_records, redis_records
from argosy.registry.backends import redis_keys as registry_keys
from argosy.search.model import MissingReason
from argosy.throttle.backends import redis_keys as throttle_keys
from argosy.throttle.limits.backends import redis_keys as limit_keys
from tests.architecture.tree import ROOT, location, tracked_files

README_LINES_MAX = 80
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE_ENDINGS = ("md", "py", "yaml", "json", "toml", "sql")
REFERENCE = ROOT / "docs" / "reference"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def pages() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def pages_of_docs() -> list[Path]:
    return [path for path in pages() if path.parent == ROOT / "docs"]


def test_generated_pages_are_current() -> None:
    answer = subprocess.run([sys.executable, "tools/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


def test_every_setting_is_documented() -> None:
    page = (REFERENCE / "settings.md").read_text()
    assert [each.env for each in settings.describe(SECTIONS) if f"`{each.env}`" not in page] == []


def test_every_settings_class_is_among_the_sections() -> None:
    found = "\n".join(path.read_text() for path in tracked_files() if path.suffix == ".py" and "src" in path.parts)
    declared = set(re.findall(r'^    SECTION: ClassVar\[str\] = "(\w+)"', found, re.MULTILINE))
    assert declared == {section.SECTION for section in SECTIONS}  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", [*pages_of_docs(), ROOT / "README.md"], ids=location)
def test_every_setting_a_page_names_exists(path: Path) -> None:
    """Values of the chart are spelled alike, and may be named, too."""
    known = {f"{each.section}.{each.name}" for each in settings.describe(SECTIONS)}
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "argosy" / "values.yaml").read_text())
    known |= {f"{section}.{name}" for section, inner in values.items() if isinstance(inner, dict) for name in inner}
    sections = {name.partition(".")[0] for name in known}
    named = re.findall(r"`([a-z_]+)\.([a-z_A-Z]+)(?: = [^`]*)?`", path.read_text())
    spelled = {f"{section}.{name}" for section, name in named if section in sections and name not in FILE_ENDINGS}
    assert spelled <= known


def test_the_reasons_on_the_fleets_page_are_those_of_an_answer() -> None:
    page = (ROOT / "docs" / "fleet.md").read_text()
    table = page.partition("| reason | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z ]+)` \|", table, re.MULTILINE)) == {each.value for each in MissingReason}


def test_every_command_is_documented() -> None:
    page = (REFERENCE / "cli.md").read_text()
    assert [name for name, _ in command_tree()[1:] if f"\n## {name}\n" not in page] == []


def test_every_metric_in_the_code_is_documented() -> None:
    page = (REFERENCE / "metrics.md").read_text()
    sources = [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(ROOT / "src")]
    named = {name for path in sources for name in re.findall(r'"(argosy_[a-z0-9_]+)"', path.read_text())}
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []


def test_every_key_is_documented() -> None:
    page = (REFERENCE / "keys.md").read_text()
    rooms = (redis_records, etcd_records, registry_keys, throttle_keys, limit_keys)
    docs = [doc for room in rooms for doc in room.KEY_DOCS]
    assert [doc.name for doc in docs if f"`{doc.name}`" not in page] == []


@pytest.mark.parametrize("path", pages(), ids=location)
def test_links_lead_somewhere(path: Path) -> None:
    links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", pages(), ids=location)
def test_commands_in_the_pages_exist(path: Path) -> None:
    text = path.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= targets
    commands = {name for name, _ in command_tree()}
    for line in re.findall(r"^argosy [a-z-]+(?: [a-z-]+)?", text, re.MULTILINE):
        assert line in commands or line.rsplit(" ", 1)[0] in commands, line


def test_every_file_the_readme_names_exists() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in re.findall(r"`(src/[\w/]+\.py)`", text) if not (ROOT / name).exists()] == []


def test_the_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    beneath = [path.relative_to(ROOT / "docs") for path in pages() if path.is_relative_to(ROOT / "docs")]
    wanted = [str(path) for path in beneath if path.parts[0] != "decisions" and path.name != "README.md"]
    assert [name for name in wanted if f"({name})" not in index] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path: Path) -> None:
    answer = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout
