"""The code blocks of the documentation, with the page and line of each, and the commands in them."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import ROOT

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
COMMAND_LANGUAGES = ("sh", "bash", "console")


@dataclass(frozen=True)
class Command:
    """One command line; `output` is what a console block shows below it, None where nothing is shown."""

    page: str
    line: int
    text: str
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of the opening fence
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language or 'no language'})"

    def commands(self) -> list[Command]:
        if self.language == "console":
            return self._console_commands()
        lines = self.text.replace("\\\n", "\\\0").split("\n")  # a backslash at the end joins two lines
        commands_, at = [], self.line + 1
        for line in lines:
            text = line.replace("\\\0", " ").strip()
            if text and not text.startswith("#"):
                commands_.append(Command(self.page, at, text))
            at += 1 + line.count("\0")
        return commands_

    def _console_commands(self) -> list[Command]:
        commands_: list[Command] = []
        for at, text in enumerate(self.text.splitlines(keepends=True), start=self.line + 1):
            if text.startswith("$ "):
                commands_.append(Command(self.page, at, text[2:].strip(), ""))
            else:
                last = commands_[-1]
                commands_[-1] = Command(last.page, last.line, last.text, (last.output or "") + text)
        return commands_


def pages() -> list[Path]:
    """Every page whose blocks are run: README, CONTRIBUTING and the pages of docs/, without the generated reference."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def read_blocks(path: Path) -> list[Block]:
    text, page = path.read_text(), str(path.relative_to(ROOT))
    return [_block(page, text, match) for match in FENCE.finditer(text)]


def _block(page: str, text: str, match: re.Match[str]) -> Block:
    indent = len(match["indent"])
    content = "".join(line[indent:] for line in match["text"].splitlines(keepends=True))
    return Block(page, text.count("\n", 0, match.start()) + 1, match["language"], content)
