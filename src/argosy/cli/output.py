"""Output of commands: tables for people, JSON for programs, and progress if stderr is a terminal.

File names and lines from elsewhere are untrusted text: `safe_name` and `safe_text` escape control characters,
bidirectional and invisible characters, and undecodable bytes as `\\x1b`, `\\u202e`, `\\xff`, so that they cannot
control the terminal. A backslash is not escaped, so the text is not always reversible; `--json` and `--null` are exact.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])

_JSON = "argosy.cli.json"
PIPE_WIDTH = 1 << 20  # columns of a table that is not printed to a terminal: one line per row, for grep


def json_option(command: C) -> C:
    """Adds `--json`. It is parsed first, so that errors in other options are printed as JSON too."""
    return click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_store_flag, help="Print JSON.")(
        command
    )


def _store_flag(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
    ctx.meta[_JSON] = value
    return value


def wants_json(ctx: click.Context) -> bool:
    return bool(ctx.meta.get(_JSON, False))


def print_json(value: object) -> None:
    """Prints a value; equal values give equal bytes."""
    # Keys keep the order of the code, so that two runs can be compared with `diff`.
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str, title: str = "") -> None:
    """Prints a table with numbers right-aligned, or `empty` if there are no rows."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        click.echo(empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # No frame and no color, as `kubectl get` prints tables: output is for reading and for pipes alike.
    table = Table(box=None, pad_edge=False, header_style="bold", title=title or None, title_justify="left")
    for at, name in enumerate(columns):
        is_number = all(_is_number(row[at]) for row in cells)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=at == 0)
    for row in cells:
        # Not strings, in which rich would interpret brackets as markup.
        table.add_row(*[Text(cell) for cell in row])
    # No width limit in a pipe: a wrapped row would break `grep` and `awk`.
    stream = sys.stdout
    Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH, highlight=False).print(table)


@contextmanager
def progress(description: str) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on stderr, if that is a terminal; yields a callback for the fraction done and a text."""
    stream = sys.stderr
    # A bar in a log file would be thousands of lines.
    if not stream.isatty():
        yield lambda part, text: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(description, total=1.0)
        yield lambda part, text: bar.update(task, completed=part, description=text)


@contextmanager
def status(description: str) -> Iterator[Callable[[str], None]]:
    """A status line on stderr, if that is a terminal; yields a callback for its text."""
    stream = sys.stderr
    if not stream.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    with Console(file=stream).status(description) as line:
        yield lambda text: line.update(f"{description}: {text}")


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
    return str(value)


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "", 1).replace("e+", "").lstrip("-").isdigit()


# All control characters but the tab; characters that direct or hide text and are not part of words (joiners are, in
# some scripts); and lone surrogates, by which Python represents undecodable bytes.
_HOSTILE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
_UNDECODABLE = range(0xDC80, 0xDD00)


def safe_text(content: bytes) -> str:
    """A line of a file; tabs are kept."""
    return _HOSTILE.sub(_escape, content.decode("utf-8", "surrogateescape"))


def safe_name(name: str) -> str:
    """A file name, always on one line."""
    # A tab in a file name would shift the columns of a table.
    return _HOSTILE.sub(_escape, name).replace("\t", _SHORT["\t"])


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    code = ord(letter)
    if letter in _SHORT:
        return _SHORT[letter]
    # Python represents the undecodable byte 0xff as the lone surrogate U+DCFF (PEP 383).
    if code in _UNDECODABLE:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@dataclass(frozen=True, slots=True)
class Paint:
    """The colors of ripgrep, or none."""

    is_on: bool

    def path(self, text: str) -> str:
        return click.style(text, fg="magenta") if self.is_on else text

    def number(self, text: str) -> str:
        return click.style(text, fg="green") if self.is_on else text

    def match(self, text: str) -> str:
        return click.style(text, fg="red", bold=True) if self.is_on and text else text

    def aside(self, text: str) -> str:
        return click.style(text, dim=True) if self.is_on else text
