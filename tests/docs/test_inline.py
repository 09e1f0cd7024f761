"""Every `argosy …` that a page, a message or a comment mentions exists, with its options. Nothing is run."""

import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, location, tracked_files
from tests.docs.blocks import FENCE, pages, read_blocks
from tests.docs.inline import check_command

IN_BACKTICKS = re.compile(r"`(argosy [a-z][^`]*)`")
QUOTED = re.compile(r"""(?:`|\\?")(argosy [a-z][^`"\\\n]*)(?:`|\\?")""")
LITERAL = re.compile(r"""^[a-zA-Z]*(?:\"{3}|'{3}|"|')|(?:\"{3}|'{3}|"|')$""")  # the quotes around a string
SPEECH = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
SUFFIXES = (".py", ".html", ".yaml", ".toml", ".service")


def _pages() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md" and "reference" not in path.parts]


def _mentions(path: Path) -> list[str]:
    """Commands in the strings and comments of a module; anywhere in another file."""
    text = path.read_text()
    if path.suffix != ".py":
        return IN_BACKTICKS.findall(text)
    if not QUOTED.search(text):
        return []
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in SPEECH:
            found += QUOTED.findall(LITERAL.sub("", token.string))
    return found


def _sources() -> list[Path]:
    places = (ROOT / "src", ROOT / "deploy")
    return [path for path in tracked_files() if path.suffix in SUFFIXES and any(map(path.is_relative_to, places))]


@pytest.mark.parametrize("path", _pages(), ids=location)
def test_commands_that_a_page_mentions_exist(path: Path) -> None:
    text = FENCE.sub("", path.read_text())
    for found in IN_BACKTICKS.findall(text):
        check_command(" ".join(found.split()))


def test_commands_that_messages_and_comments_mention_exist() -> None:
    mentioned = {(location(path), found) for path in _sources() for found in _mentions(path)}
    assert len(mentioned) > 10
    wrong = []
    for place, found in sorted(mentioned):
        try:
            check_command(found)
        except (AssertionError, ValueError) as error:
            wrong.append(f"{place}: {error}")
    assert wrong == []


def test_documented_command_lines_parse_before_they_are_run() -> None:
    """A stand-in does not run the command, so its options are checked here."""
    for path in pages():
        for block in read_blocks(path):
            for command in block.commands() if block.language in ("sh", "console") else ():
                if re.match(r"([A-Z_]+=\S+ )?argosy ", command.text):
                    check_command(command.text)


def test_examples_of_the_generated_reference_parse() -> None:
    """All but the usage lines, which click generates."""
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        for line in page.read_text().splitlines():
            if line.startswith("argosy ") and not re.search(r"[\[|]", line):
                check_command(line)


@pytest.mark.parametrize(
    "text", ["argosy nonsense", "argosy scale --stores x", "argosy repo ad", "argosy repo add --pn x"]
)
def test_a_command_or_option_that_does_not_exist_is_rejected(text: str) -> None:
    with pytest.raises(AssertionError):
        check_command(text)
