"""`argosy up` as a person sees it: a real process on a pseudo-terminal, and the screen that it makes."""

import os
import re
import shlex
import signal
import stat
import subprocess
import sys
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.journeys.fleet import eventually
from tests.newcomer.terminal import CTRL_C, Terminal, open_terminal

READY_S_MAX = 120.0  # 2 s on an idle machine
LINES_MAX = 10  # on the screen once it is ready
COLUMNS = 120

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT|\b(info|warning|error) +[a-z.]+:|[a-z_]+=[^ ]")
STYLE = re.compile(rb"\x1b\[[0-9;]*m")
URL = re.compile(r"search +(http://127\.0\.0\.1:\d+)")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "ship"
    folder.mkdir()
    (folder / "ship.py").write_text("def sail(argo):\n    return argo\n")
    return folder


def environ(home: Path, **settings: str) -> dict[str, str]:
    """A user's environment with a home of its own, without settings of the user who runs the tests."""
    dropped = ("ARGOSY_", "NO_COLOR", "FORCE_COLOR", "LC_", "LANG", "COLUMNS", "LINES")
    mine = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {
        **mine,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **settings,
    }


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "argosy.cli", "up", "--port", "0", *map(str, words)]


def up(home: Path, *words: object, columns: int = COLUMNS, **settings: str) -> AbstractContextManager[Terminal]:
    return open_terminal(command(*words), environ=environ(home, **settings), columns=columns)


def is_ready(text: str) -> bool:
    return "ready in" in text and "Press Ctrl-C to stop." in " ".join(text.split())


def log_path(home: Path, screen: str) -> Path:
    found = re.search(r"logs +(\S+)", screen)
    assert found is not None, screen
    return Path(found[1].replace("~", str(home), 1))


def assert_quiet(terminal: Terminal) -> None:
    assert len(terminal.lines) <= LINES_MAX, terminal.text
    assert URL.search(terminal.text) is not None, terminal.text
    assert not LOG_LINE.search(terminal.text), terminal.text


def test_the_screen_after_ready_has_the_address_and_no_log_line(tmp_path: Path, source: Path) -> None:
    with up(tmp_path, source) as terminal:
        terminal.wait_for("argosy", within_s=READY_S_MAX)
        screen = terminal.wait_for(is_ready, within_s=READY_S_MAX)
        assert_quiet(terminal)
        assert re.search(r"ready in \d+\.\d s", screen)
        assert "1 repository" in screen
        assert STYLE.search(terminal.raw), "a terminal that can shows colours"
        found = URL.search(screen)
        assert found is not None
        connection = HTTPConnection(found[1].removeprefix("http://"), timeout=30)
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 200, "ready means what /readyz reports"
        connection.close()

        path = log_path(tmp_path, screen)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert " app: node up " in path.read_text()
        assert " app: ready " in path.read_text()

        terminal.press(CTRL_C)
        assert terminal.wait_for_exit() == 0
        after = terminal.lines[len(screen.splitlines()) :]
        assert after == ["draining; press Ctrl-C again to stop immediately", "stopped"], terminal.text
        assert b"\x1b[?25h" in terminal.raw, "the cursor is shown again"


def test_the_second_start_does_not_use_the_address_of_the_first(tmp_path: Path, source: Path) -> None:
    for _ in range(2):
        with up(tmp_path, source) as terminal:
            path = log_path(tmp_path, terminal.wait_for(is_ready, within_s=READY_S_MAX))
            terminal.press(CTRL_C)
            assert terminal.wait_for_exit() == 0
    assert path.read_text().count(" app: node up ") == 2, "one file over restarts"
    assert "sync failed" not in path.read_text()


def test_nodes_are_shown_with_pid_and_address_and_their_logs_are_not(tmp_path: Path, source: Path) -> None:
    with up(tmp_path, source, "--nodes", "2", NO_COLOR="1") as terminal:
        screen = terminal.wait_for(is_ready, within_s=READY_S_MAX)
        assert_quiet(terminal)
        assert not STYLE.search(terminal.raw), "NO_COLOR is set"
        for name in ("node-1", "node-2"):
            found = re.search(rf"{name} +http://127\.0\.0\.1:(\d+) \(pid (\d+)\)", screen)
            assert found is not None, screen
            os.kill(int(found[2]), 0)
            assert name in (log_path(tmp_path, screen).parent / f"{name}.log").read_text()
        terminal.press(CTRL_C)
        assert terminal.wait_for_exit() == 0
        assert terminal.lines[-1] == "stopped", terminal.text
        assert len(terminal.lines) <= LINES_MAX + 2


def test_a_node_that_dies_is_reported_and_so_is_its_new_pid_and_address(tmp_path: Path, source: Path) -> None:
    node = r"http://127\.0\.0\.1:\d+ \(pid (\d+)\)"
    with up(tmp_path, source, "--nodes", "1") as terminal:
        screen = terminal.wait_for(is_ready, within_s=READY_S_MAX)
        shown = re.search(rf"node-1 +{node}", screen)
        assert shown is not None, screen
        os.kill(int(shown[1]), signal.SIGKILL)
        terminal.wait_for("note: restarted node-1", within_s=READY_S_MAX)
        text = terminal.wait_for(lambda text: bool(re.search(rf"restarted node-1: {node}", text)), within_s=READY_S_MAX)
        died = rf"warning: node-1 \(pid {shown[1]}\) was killed by SIGKILL; restarting in \d\.\d s"
        assert re.search(died, text)
        again = re.search(rf"restarted node-1: {node}", text)
        assert again is not None
        assert again[1] != shown[1]
        os.kill(int(again[1]), 0)
        assert not LOG_LINE.search(text), text


def test_a_narrow_terminal_shows_what_failed_and_no_torn_lines(tmp_path: Path, source: Path) -> None:
    gone = "http://127.0.0.1:9/owner/a-repository-with-a-long-name.git"
    with up(tmp_path, source, gone, columns=40) as terminal:
        terminal.wait_for(is_ready, within_s=READY_S_MAX)
        text = terminal.wait_for("warning: 127.0.0.1:9/owner/", within_s=READY_S_MAX)
        assert terminal.lines[0].startswith("argosy"), text
        assert re.fullmatch(r"argosy \S+, ready in \d+\.\d s", terminal.lines[0]), "no bar is left above it"
        assert "1 of 2 repositories" in text
        assert "unreachable;retryinglater" in "".join(text.split())
        assert not LOG_LINE.search(text), text
        assert not re.search("[━⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", text), text


def test_a_dumb_terminal_gets_plain_ascii_lines(tmp_path: Path, source: Path) -> None:
    plain = {"TERM": "dumb", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with up(tmp_path, source, **plain) as terminal:
        terminal.wait_for(is_ready, within_s=READY_S_MAX)
        assert terminal.lines[0].startswith("starting argosy")
        assert_quiet(terminal)
        terminal.press(CTRL_C)
        assert terminal.wait_for_exit() == 0
        assert b"\x1b" not in terminal.raw
        assert terminal.raw.isascii()


def test_bars_are_plain_where_the_locale_is_not_utf_8(tmp_path: Path, source: Path) -> None:
    with up(tmp_path, source, LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") as terminal:
        terminal.wait_for(is_ready, within_s=READY_S_MAX)
        assert_quiet(terminal)
        assert terminal.raw.isascii()
        assert b"\\u" not in terminal.raw


def test_ctrl_c_during_the_start_leaves_no_process(tmp_path: Path, source: Path) -> None:
    with up(tmp_path, source) as terminal:
        terminal.wait_for("argosy", within_s=READY_S_MAX)
        terminal.press(CTRL_C)
        assert terminal.wait_for_exit() == 0, terminal.text
        assert terminal.lines[-1] == "stopped", terminal.text
        assert "Traceback" not in terminal.text
        assert len(terminal.lines) <= 2, terminal.text


def test_verbose_prints_the_log_instead(tmp_path: Path, source: Path) -> None:
    with up(tmp_path, source, "--verbose") as terminal:
        terminal.wait_for(" app: ready url=http://127.0.0.1:", within_s=READY_S_MAX)
        assert " app: node up " in terminal.text
        assert not re.search("[━⠋⠙⠹]", terminal.text)
    assert not list(tmp_path.rglob("argosy.log"))


def test_a_service_logs_its_address_and_when_it_is_ready(tmp_path: Path, source: Path) -> None:
    with subprocess.Popen(
        command(source), env=environ(tmp_path), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if " app: ready " in line:
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    log = "".join(lines)
    assert re.search(r" info +app: node up .*url=http://127\.0\.0\.1:\d+\n", log), log
    assert re.search(r" app: ready url=http://127\.0\.0\.1:\d+ seconds=\d", log), log


ADDRESS = re.compile(r"argosy is ready: http://127\.0\.0\.1:\d+\n")


def test_redirected_output_gets_the_address_and_the_terminal_the_rest(tmp_path: Path, source: Path) -> None:
    """`argosy up > log`."""
    out = tmp_path / "log"
    redirected = f"exec {shlex.join(command(source))} > {shlex.quote(str(out))}"
    with open_terminal(["sh", "-c", redirected], environ=environ(tmp_path), columns=COLUMNS) as terminal:
        terminal.wait_for(is_ready, within_s=READY_S_MAX)
        assert_quiet(terminal)
        terminal.press(CTRL_C)
        assert terminal.wait_for_exit() == 0
    assert ADDRESS.fullmatch(out.read_text())


def test_redirected_output_gets_the_address_without_a_terminal(tmp_path: Path, source: Path) -> None:
    out, err = tmp_path / "log", tmp_path / "err"
    with (
        out.open("w") as one,
        err.open("w") as other,
        subprocess.Popen(command(source), env=environ(tmp_path), stdout=one, stderr=other) as process,
    ):
        eventually(lambda: bool(ADDRESS.fullmatch(out.read_text())), within_s=READY_S_MAX, what="the address")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert " app: ready " in err.read_text()


def test_output_and_errors_in_one_file_are_the_log(tmp_path: Path, source: Path) -> None:
    path = tmp_path / "log"
    with (
        path.open("w") as out,
        subprocess.Popen(command(source), env=environ(tmp_path), stdout=out, stderr=out) as process,
    ):
        eventually(lambda: " app: ready " in path.read_text(), within_s=READY_S_MAX, what="it is ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert "argosy is ready" not in path.read_text()
