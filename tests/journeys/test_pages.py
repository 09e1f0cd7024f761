"""What the pages show of a terminal is what happens: every command in them is run, and `…` stands for anything."""

import json
import re
import shlex
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from click.testing import CliRunner

from argosy.cli.root import cli
from tests.cli.test_up import found, process, wait_for
from tests.house.tree import ROOT
from tests.journeys.fleet import eventually

ANSWER_S = 30
LIST = "# those of the second deck\nhttps://example.org/sea/oars.git main next\nhttps://github.com/owner/tool\n"


def blocks(page: str) -> list[tuple[str, str]]:
    """Commands in their order, each with what it is said to print."""
    text = (ROOT / "docs" / page).read_text()
    shown = "".join(re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)


def assert_alike(said: str, shown: str) -> None:
    pattern = ".*".join(map(re.escape, shown.rstrip("\n").split("…")))
    assert re.fullmatch(pattern, said.rstrip("\n"), re.DOTALL), f"the page says\n{shown}\nand it was\n{said}"


def test_the_catalogs_commands_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARGOSY_NODE_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "list.txt").write_text(LIST)
    commands = blocks("fleet.md")
    assert len(commands) > 5
    for command, shown in commands:
        program, *words = shlex.split(command)
        assert program == "argosy"
        assert_alike(CliRunner().invoke(cli, words).output, shown)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """`argosy up examples`, as the page says."""
    with process("up", str(ROOT / "examples"), ARGOSY_NODE_DATA_DIR=str(tmp_path)) as started:
        address = str(wait_for(started, "node up")["address"])
        eventually(lambda: found(address, "sym:Wishes") == 1, within_s=60, what="the examples are searched")
        yield address


def curl(address: str, words: list[str]) -> str:
    """The little of it that the pages use: -s, -d, and an address."""
    body = words[words.index("-d") + 1] if "-d" in words else None
    [url] = [word for word in words if word.startswith("localhost:6070")]
    split = urlsplit(f"http://{url}")
    connection = HTTPConnection(address, timeout=ANSWER_S)
    try:
        path = split.path + (f"?{quote(split.query, safe='=&:(')}" if split.query else "")
        connection.request("GET" if body is None else "POST", path, body)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_a_newcomers_questions_are_answered_as_the_page_says(server: str) -> None:
    commands = blocks("start.md")
    assert len(commands) > 3
    for command, shown in commands:
        program, *words = shlex.split(command)
        assert program == "curl"
        assert_alike(curl(server, words), shown)


def test_the_questions_on_the_page_of_the_apis_are_understood(server: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    asked = [line for line in re.findall(r"^curl (.*)$", page, re.MULTILINE) if "authorization" not in line]
    assert len(asked) >= 2
    for line in asked:
        answer = json.loads(curl(server, shlex.split(line, comments=True)).splitlines()[-1])
        assert answer.get("event", "end") == "end", answer
        assert not {"error", "Error"} & answer.keys(), answer
