"""Output on a terminal: bounded bars, foreign text unchanged, and each warning once."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len

from argosy.app.console import BARS_MAX, TerminalDisplay, open_display
from argosy.app.settings import LogSettings
from argosy.app.startup import IndexProgress
from argosy.base import logs
from argosy.gateway.ports import RepoState, RepoView
from argosy.search.fleet.model import Phase, RepoSpec, RepoStatus


class Screen(StringIO):
    """A terminal that records its output."""

    def isatty(self) -> bool:
        return True


@contextmanager
def terminal(columns: int = 100) -> Iterator[Screen]:
    """Within a test, for between a fixture and its test pytest sets stderr itself."""
    screen = Screen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", screen)
        for name, value in {"COLUMNS": str(columns), "LINES": "50", "TERM": "xterm", "NO_COLOR": "1"}.items():
            patch.setenv(name, value)
        yield screen
    logs.configure()  # closes the log file; conftest removes the handler


def pending(name: str) -> RepoView:
    status = RepoStatus(name, Phase.INDEXING, progress=0.5)
    return RepoView(name, RepoState.WARMING, RepoSpec(name, "https://example.org"), status=status)


def bars(*names: str, columns: int = 100) -> list[str]:
    with terminal(columns) as screen:
        display = TerminalDisplay(Path("argosy.log"))
        display.show_progress(IndexProgress(pending=tuple(pending(name) for name in names)))
        display._console.print(display._render())
    return screen.getvalue().splitlines()


def test_many_repositories_have_a_bounded_number_of_bars() -> None:
    shown = bars(*(f"repo-{number}" for number in range(500)))
    assert "0 of 500 repositories" in shown[0]
    assert len(shown) == 1 + BARS_MAX


def test_repositories_that_are_being_indexed_are_shown_before_those_that_wait() -> None:
    waiting = [
        RepoView(f"a-{n}", RepoState.WARMING, RepoSpec(f"a-{n}", "https://example.org")) for n in range(BARS_MAX)
    ]
    with terminal() as screen:
        display = TerminalDisplay(Path("argosy.log"))
        display.show_progress(IndexProgress(pending=(*waiting, pending("z"))))
        display._console.print(display._render())
    shown = screen.getvalue().splitlines()
    assert shown[1].split()[0] == "z"
    assert len(shown) == 1 + BARS_MAX


def test_no_line_of_the_bars_is_wider_than_the_terminal() -> None:
    names = ("a", "github.com/" + "x" * 300, "船" * 80, "[bold]a[/b]", "a\x1b[2J\nb")
    for columns in (20, 40, 59, 60, 80, 200):
        shown = bars(*names, columns=columns)
        assert len(shown) == 1 + len(names), shown
        assert all(cell_len(line) <= columns for line in shown), shown
        assert not any("\x1b" in line for line in shown)


def test_a_reason_is_shown_with_any_characters(tmp_path: Path) -> None:
    with terminal() as screen, open_display(LogSettings(), tmp_path) as display:
        display.warn("[/i]: there is no file or folder '[/b]':\n\x1b[2Jcheck the path")
    assert "warning: [/i]: there is no file or folder '[/b]':  [2Jcheck the path\n" in screen.getvalue()


def test_of_the_log_only_notices_and_unexpected_errors_are_shown_and_each_once(tmp_path: Path) -> None:
    log = logs.get("app")
    with terminal() as screen, open_display(LogSettings(), tmp_path) as display:
        assert isinstance(display, TerminalDisplay)
        for _ in range(3):
            log.info("index provisioned")
            log.warning("sync failed", error="no answer")
            log.error("warming failed", why="foreseen")
            log.warning("node exited", node="node-2", notice="node-2 exited with code 1; restarting it in 2 s")
            log.info("node restarted", node="node-2", notice="node-2 was restarted")
            log.error("sync crashed", exc_info=ValueError("bug"))
            logging.getLogger("other.library").warning("not for the user")
    shown = screen.getvalue()
    assert shown.count("warning: node-2 exited with code 1; restarting it in 2 s\n") == 1
    assert shown.count("warning: unexpected error: sync crashed; the log file has more\n") == 1
    assert shown.count("note: node-2 was restarted\n") == 1
    assert not any(text in shown for text in ("index provisioned", "sync failed", "warming failed", "not for the user"))
    written = (tmp_path / "argosy.log").read_text()
    assert written.count("node exited node=node-2\n") == 3
    assert written.count("not for the user") == 3


def test_an_error_ends_the_bars_and_is_printed_by_the_command(tmp_path: Path) -> None:
    with terminal() as screen, pytest.raises(ValueError, match="wrong"), open_display(LogSettings(), tmp_path):
        raise ValueError("wrong")
    assert "stopped" not in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K"), "the bars are cleared"
