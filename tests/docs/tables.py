"""Commands of the documentation that are not run as written, each with the reason and the check that replaces it."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from argosy.bench.harness import BENCHES
from tests.architecture.tree import ROOT
from tests.docs.blocks import Command, read_blocks
from tests.docs.inline import check_command


@dataclass(frozen=True)
class StandIn:
    """A check for commands that match `pattern` on pages that match `page`."""

    pattern: str
    reason: str
    check: Callable[[Command], None]
    page: str = ".*"

    def matches(self, command: Command) -> bool:
        return bool(re.match(self.pattern, command.text) and re.fullmatch(self.page, command.page))


def _check_make(command: Command) -> None:
    target = command.text.split()[1]
    ran = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout, f"{command}: the target does nothing"


def _check_bench(command: Command) -> None:
    check_command(command.text)
    name = command.text.split()[2]
    assert name in BENCHES, f"{command}: no benchmark named {name}"


def _check_that_start_runs_it(command: Command) -> None:
    line = _without_comment(command.text)
    on_start = [each for block in read_blocks(ROOT / "docs" / "start.md") for each in block.commands()]
    assert line in [_without_comment(each.text) for each in on_start], f"{command} is no longer on docs/start.md"


def _without_comment(text: str) -> str:
    return text.partition(" #")[0].strip()


STAND_INS = (
    StandIn("make ", "works on the checkout that is under test; make run and make test would recurse", _check_make),
    StandIn("argosy bench [a-z]", "takes minutes; tests/bench runs each benchmark in small", _check_bench),
    StandIn(r"argosy up ~/src/\* --nodes 3", "is run on docs/start.md", _check_that_start_runs_it, page="README.md"),
)

# Runs on fewer nodes, repositories or seeds, because the documented number takes minutes.
SMALLER = (
    ("sim fleet --repos 500 --nodes 20", "sim fleet --repos 20 --nodes 3"),
    ("--seeds 200", "--seeds 2"),
)

# Commands that run until they are stopped.
LONG = re.compile(r"([A-Z_]+=\S+ )?argosy (up|serve|worker run|ipni publish(?!.* --once))\b")
SERVERS = re.compile(r"([A-Z_]+=\S+ )?argosy (up|serve)\b")

# Commands whose output is complete only after a delay (an index is built, a chain is read): retried until it is.
RETRIED = re.compile(r"argosy (find|ipni (providers|progress|assigned))\b|curl |zoekt-py ")

# Commands that must be running before a page's first command, which the page describes in words.
RUNNING_BEFORE = {
    "docs/api.md": ("argosy up examples",),
    "docs/operate.md": (
        "ARGOSY_NODE_ID=node-3 argosy serve --role search --store redis://store:6379 --registry redis://store:6379",
        "argosy serve --role gateway --store redis://store:6379 --registry redis://store:6379",
    ),
}


def stand_in_for(command: Command) -> StandIn | None:
    return next((each for each in STAND_INS if each.matches(command)), None)


def shrink_counts(text: str) -> str:
    for documented, run in SMALLER:
        text = text.replace(documented, run)
    return text
