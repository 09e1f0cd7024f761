"""Every code block of README, CONTRIBUTING and docs/ works as written: commands and programs are run, files are
parsed by their readers, and shown output is compared (`…` matches anything).

Exceptions are in tests/docs/tables.py with the reason.
"""

import ast
import asyncio
import json
import os
import re
import tomllib
from collections.abc import Callable
from inspect import CO_COROUTINE
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from starlette.applications import Starlette

from argosy.ipni.keyspace import layout
from argosy.jobs import JobsClient
from tests.architecture.tree import ROOT, location
from tests.docs.blocks import COMMAND_LANGUAGES, Block, Command, pages, read_blocks
from tests.docs.tables import (
    LONG,
    RETRIED,
    RUNNING_BEFORE,
    SERVERS,
    SMALLER,
    STAND_INS,
    shrink_counts,
    stand_in_for,
)
from tests.docs.world import World, capture
from tests.journeys.fleet import eventually

ANSWER_S_MAX = 60.0
FILE_NAME = re.compile(r"# ([\w/.-]+\.(?:py|toml))\n")  # the first line of a block that is a file
WITH_BLOCKS = [path for path in pages() if read_blocks(path)]


@pytest.mark.parametrize("path", WITH_BLOCKS, ids=location)
def test_every_block_of_a_page_works_as_written(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with World(tmp_path, os.environ) as world:
        for name in [each for each in os.environ if each.startswith("ARGOSY_")]:
            monkeypatch.delenv(name)
        for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            monkeypatch.setenv(name, world.environ[name])
        monkeypatch.chdir(world.checkout)
        page = Page(world, str(path.relative_to(ROOT)))
        blocks = read_blocks(path)
        for block in blocks:
            page.run(block)
        assert page.blocks_run == len(blocks)
        world.stop(world.running[::-1])


class Page:
    """Runs the blocks of one page in order."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.blocks_run = 0
        self._last_output = ""  # of the last command, for a block that shows it
        for text in RUNNING_BEFORE.get(name, ()):
            world.start(Command(name, 0, text), world.substitute(text))

    def run(self, block: Block) -> None:
        if block.language in COMMAND_LANGUAGES:
            self._run_commands(block)
        elif block.language == "python":
            self._run_python(block)
        elif block.language == "toml":
            self._check_toml(block)
        elif block.language == "json":
            _JSON[self.name](block, self.world)
        elif block.language == "" and self.name in _TEXT:
            _TEXT[self.name](block)
        else:
            assert block.language == "", f"{block}: nothing says how to check this language"
            assert self._last_output, f"{block}: no command precedes it"
            _assert_shown(block, self._last_output, block.text)
        self.blocks_run += 1

    def _run_commands(self, block: Block) -> None:
        started_before = self.world.running[::-1]
        for command in block.commands():
            stand_in = stand_in_for(command)
            if stand_in is not None:
                stand_in.check(command)
            elif LONG.match(command.text):
                if SERVERS.match(command.text):  # the reader has one machine: earlier processes are stopped
                    self.world.stop(started_before)
                self._start(command)
            else:
                self._execute(command)

    def _start(self, command: Command) -> None:
        text = shrink_counts(self.world.substitute(command.text))
        publishing = [each for each in self.world.running if " ipni publish" in each.command.text]
        if " ipni publish" in text:
            self.world.stop(publishing)  # stopped before the next one takes its port
        self.world.start(command, text)
        if text.startswith("argosy serve --role indexer") and "--config" not in text:
            self._start_publisher(command)

    def _start_publisher(self, command: Command) -> None:
        """A new indexer has no publishers; the commands that follow name one."""
        text = self.world.substitute("argosy ipni publish ~/papers --announce http://127.0.0.1:3000")
        self.world.start(Command(command.page, command.line, text), text)
        list_providers = self.world.substitute("argosy ipni providers --json")
        is_known = lambda: json.loads(self.world.execute(command, list_providers).output) != []  # noqa: E731
        eventually(is_known, within_s=ANSWER_S_MAX, what="the indexer knows the publisher")

    def _execute(self, command: Command) -> None:
        text = shrink_counts(self.world.substitute(command.text))
        wanted = None if command.output is None else self.world.substitute(command.output)

        def try_once() -> str:
            """The error, or an empty string."""
            outcome = self.world.execute(command, text)
            self._last_output = outcome.output
            if wanted is None:
                return "" if outcome.code == 0 else f"{command}: exit code {outcome.code}\n{outcome.output}"
            return _difference(command, outcome.output, wanted)

        complaint = try_once()
        if complaint and RETRIED.match(command.text):
            complaint = _retry_until_shown(try_once)
        assert not complaint, complaint

    def _run_python(self, block: Block) -> None:
        program = self.world.substitute(block.text)
        if name := FILE_NAME.match(program):
            path = self.world.checkout / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(program)
            compile(program, str(path), "exec")
        elif "\nworker.run_forever()" in program:  # stopped with SIGTERM, as the page states
            running = self.world.start_script(Command(block.page, block.line, "python"), program)
            running.assert_alive()
        else:
            self._last_output = capture(lambda: asyncio.run(_run_program(program, block)))

    def _check_toml(self, block: Block) -> None:
        program = self.world.substitute(block.text)
        tomllib.loads(program)
        name = FILE_NAME.match(program)
        assert name, f"{block}: the first line must be a comment with the name of the file"
        (self.world.checkout / name[1]).write_text(program)
        checked = Command(block.page, block.line, f"argosy config check --config {name[1]}")
        outcome = self.world.execute(checked, checked.text)
        assert outcome.code == 0, outcome.output
        assert "warning" not in outcome.output


def _retry_until_shown(try_once: Callable[[], str]) -> str:
    complaint = ""

    def is_shown() -> bool:
        nonlocal complaint
        complaint = try_once()
        return not complaint

    try:
        eventually(is_shown, within_s=ANSWER_S_MAX, what="the documented output")
    except AssertionError:
        return complaint
    return ""


def _difference(where: object, output: str, wanted: str) -> str:
    pattern = ".*".join(map(re.escape, wanted.rstrip("\n").split("…")))
    if re.fullmatch(pattern, output.rstrip("\n"), re.DOTALL):
        return ""
    return f"{where}: the page shows\n{wanted}\nand the output is\n{output}"


def _assert_shown(where: object, output: str, wanted: str) -> None:
    difference = _difference(where, output, wanted)
    assert not difference, difference


# Programs: the names that the page presupposes, and what is closed after them.


async def _run_program(program: str, block: Block) -> dict[str, Any]:
    """Runs it as written, including `await` at top level."""
    names: dict[str, Any] = {
        "app": Starlette(),
        "serve": lambda app: None,
        "JobsClient": JobsClient,
        "compute": lambda *_: "answer",
    }
    if "node.require_lease(unit)" in program:
        return await _with_a_node(program, block, names)
    await _exec(program, block, names)
    for name in ("store", "limiter"):
        if name in names:
            await names[name].close()
    return names


async def _exec(program: str, block: Block, names: dict[str, Any]) -> None:
    code = compile(program, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = FunctionType(code, names)()
    if code.co_flags & CO_COROUTINE:
        await running


async def _with_a_node(program: str, block: Block, names: dict[str, Any]) -> dict[str, Any]:
    """Runs it beside a node of examples/hold_a_unit.py that holds the unit."""
    example: dict[str, Any] = {"__name__": "example"}
    exec((ROOT / "examples" / "hold_a_unit.py").read_text(), example)
    space = example["Space"]("repos", is_auctioned=True)
    clock, random = example["SystemClock"](), example["system_random"]()
    store = await example["open_ownership_store"]("memory://", space, clock=clock, random=random, grace_s=0)
    node = example["OwnershipNode"](
        store,
        example["FixedCatalog"](),
        example["Indexes"](),
        example["Memory"](90_000),
        node_id="one",
        address="one:6070",
        settings=example["SETTINGS"],
    )
    holds = asyncio.Event()
    node.observers.append(lambda change: holds.set())
    task = asyncio.create_task(node.run())
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            await holds.wait()
        await _exec(program, block, names | {"node": node, "unit": example["UNIT"]})
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return names


# JSON


def _check_pool(block: Block, world: World) -> None:
    text = world.substitute(block.text)
    assert json.loads(text)["IndexerPool"]
    (world.checkout / "pool.json").write_text(text)  # the assigner of the page reads it


def _check_layout(block: Block, world: World) -> None:
    assert layout.parse_layout(block.text).now.nodes


def _check_report(block: Block, world: World) -> None:
    """The keys match those of a report that a benchmark wrote."""
    report = json.loads(block.text)
    real = json.loads((ROOT / "bench" / "results" / "throttle-quick.json").read_text())
    assert set(report) == set(real) - {"notes", "details"}
    assert set(report["machine"]) <= set(real["machine"])
    assert set(report["results"][0]) == set(real["results"][0]) - {"error"}


_JSON: dict[str, Callable[[Block, World], None]] = {
    "docs/content-index.md": _check_pool,
    "docs/content-keyspace.md": _check_layout,
    "docs/benchmarks.md": _check_report,
}


# Text that is not output


def _check_map(block: Block) -> None:
    """Every directory of the tree in README exists."""
    for line in block.text.splitlines():
        name = line.split()[0]
        folder = ROOT / "src" / "argosy" / name if line.startswith("  ") else ROOT / name
        assert folder.is_dir(), f"{block}: no directory {name}"


_TEXT: dict[str, Callable[[Block], None]] = {"README.md": _check_map}


def test_no_block_is_skipped() -> None:
    """Each language, JSON block and text block has a rule, and each rule of the tables has a command."""
    blocks = [block for path in pages() for block in read_blocks(path)]
    fences = sum(len(re.findall(r"^ *```", path.read_text(), re.MULTILINE)) for path in pages())
    assert fences == 2 * len(blocks), "a fence is not closed, or the parser does not see it"
    languages = {block.language for block in blocks}
    assert languages <= {*COMMAND_LANGUAGES, "python", "toml", "json", ""}
    assert {block.page for block in blocks if block.language == "json"} == set(_JSON)
    assert set(_TEXT) <= {block.page for block in blocks if block.language == ""}
    commands = [command for block in blocks if block.language in COMMAND_LANGUAGES for command in block.commands()]
    assert len(commands) > 70

    unused = [each.pattern for each in STAND_INS if not any(each.matches(command) for command in commands)]
    unused += [text for text, _ in SMALLER if not any(text in command.text for command in commands)]
    assert unused == []


def test_every_placeholder_is_on_a_page(tmp_path: Path) -> None:
    text = "\n".join(path.read_text() for path in pages())
    with World(tmp_path, os.environ) as world:
        assert [name for name in world.placeholders() if name not in text] == []
