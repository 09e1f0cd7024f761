"""The page about the content index: every command on it exists with its options, and prints what the page says."""

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest

from argosy.cli import root
from argosy.cli.find import find
from tests.house.tree import ROOT
from tests.journeys.up_process import Up

PAGE = (ROOT / "docs" / "content-index.md").read_text()
PEER = re.compile(r"12D3KooW[1-9A-HJ-NP-Za-km-z]{44}")


def shown_commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]


def printed() -> list[tuple[str, str]]:
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [pair for block in blocks for pair in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


@pytest.mark.parametrize("line", shown_commands())
def test_every_command_on_the_page_can_be_given_as_it_stands(line: str, tmp_path: Path) -> None:
    program, *words = shlex.split(line.replace("~/", f"{tmp_path}/"))
    for word in words:
        if word.startswith(str(tmp_path)):
            Path(word).mkdir(parents=True)
    assert program == "argosy"
    command: click.Command | None = root.cli
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = find if name == "find" else command.get_command(click.Context(command), name)
    assert command is not None
    with command.make_context("argosy", words) as context:
        assert context.params


def test_what_the_page_says_a_find_prints_is_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(ROOT)
    [(command, text)] = printed()
    assert command.startswith("argosy find ")
    with Up(tmp_path) as up:
        up.start(str(tmp_path / "examples"))
        up.until_held((ROOT / "examples" / "ring_only.py").read_bytes(), "examples@")
        said = up.find(*shlex.split(command)[2:]).stdout.replace(up.url, "http://127.0.0.1:6070")
    assert PEER.sub("12D3KooW…", said) == text
