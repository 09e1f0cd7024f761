"""What a person at a terminal sees of `argosy up`: what is starting, progress bars, then the addresses and warnings.

Log lines never reach the terminal: they go to a file, whose path is shown. Of the log only what its author wrote for
the user is shown (`notice`, see `base/logs.py`), and that an unexpected error is in the file (decision 0037). The file
is limited in size, and readable by its owner only, because logs contain names and addresses.
"""

import logging
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from rich.cells import cell_len, chop_cells
from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from argosy import __version__
from argosy.app.settings import LogSettings
from argosy.app.startup import ChildProcess, Display, IndexProgress, LogDisplay
from argosy.base import logs
from argosy.base.errors import Invalid
from argosy.base.redact import redact
from argosy.gateway.ports import RepoView

FILE_BYTES_MAX = 10 * 1024 * 1024
# 30 MiB in all: enough for a day of a busy node, and no surprise on a laptop (decision 0037).
OLDER_FILES_MAX = 2  # argosy.log.1 and argosy.log.2


class LogFile(RotatingFileHandler):
    """Appends to a file; a file that reaches its limit is renamed, and the oldest one is deleted."""

    def __init__(self, path: Path, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            super().__init__(
                path, maxBytes=bytes_max, backupCount=OLDER_FILES_MAX, encoding="utf-8", errors="backslashreplace"
            )
        except OSError as error:
            raise Invalid(
                f"cannot open log file {path}: {error.strerror}; set node.data_dir to a writable directory, "
                "or use --verbose"
            ) from error

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o600)
        os.fchmod(descriptor, 0o600)  # also for an existing file
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)


BARS_MAX = 12  # repositories with a bar of their own
CHILDREN_SHOWN_MAX = 8
WARNINGS_KNOWN_MAX = 256  # a warning that is among the last so many is not repeated
BAR_COLUMNS = 24
NARROW_COLUMNS = 60  # below this width the bars are shorter and without a word beside them
REFRESHES_PER_S = 8
HINT_AFTER_S = 3.0  # a step that takes longer is explained
LOG_FILE = "argosy.log"

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_ASCII = "|/-\\"


@contextmanager
def open_display(
    settings: LogSettings, folder: Path, *, is_verbose: bool = False, started_at: float | None = None
) -> Iterator[Display]:
    """Configures logging and yields where to report: the terminal with logs in `folder`, or the log on stderr."""
    format: logs.Format = "json" if settings.is_json else "text"
    # Without a terminal a supervisor reads stderr, and wants the log there.
    if is_verbose or not sys.stderr.isatty():
        logs.configure(settings.level, format)
        try:
            yield LogDisplay(started_at)
        except KeyboardInterrupt:  # as in the terminal, this is no failure
            pass
        return
    path = folder / LOG_FILE
    logs.configure(settings.level, format, handler=LogFile(path))
    # Python prints warnings to stderr, in the middle of the bars.
    logging.captureWarnings(True)
    display = TerminalDisplay(path, started_at=started_at)
    notices = _NoticeHandler(display)
    logging.getLogger().addHandler(notices)
    try:
        with display:
            yield display
    finally:
        logging.getLogger().removeHandler(notices)
        logging.captureWarnings(False)


class TerminalDisplay(LogDisplay):
    """Draws on stderr. Bars while the process starts, then lines that stay."""

    def __init__(self, log_path: Path, *, started_at: float | None = None) -> None:
        super().__init__(started_at)
        # Without a colour system rich writes no escape sequences for style, not even for bold text.
        is_plain = bool(os.environ.get("NO_COLOR"))
        self._console = Console(
            file=sys.stderr, color_system=None if is_plain else "auto", highlight=False, markup=False, emoji=False
        )
        self._log_path = log_path
        self._step, self._hint, self._step_at = "starting", "", 0.0
        self._children: Sequence[ChildProcess] = ()
        self._progress = IndexProgress()
        self._is_ascii = not self._console.encoding.startswith("utf")
        self._live = Live(
            # Transient: the bars disappear when the final lines are printed.
            get_renderable=self._render,
            console=self._console,
            transient=True,
            refresh_per_second=REFRESHES_PER_S,
        )

    def __enter__(self) -> "TerminalDisplay":
        if self._console.is_dumb_terminal:
            self._print(Text(f"starting argosy {__version__}"))
        else:
            self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        """Ctrl-C is how `argosy up` is stopped, so it is no failure, whenever it comes."""
        self._live.stop()
        is_interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        if is_interrupted:
            self._begin_line()
        if is_interrupted or kind is None:
            self._print(Text("stopped"))
        return is_interrupted

    def set_step(self, text: str, *, hint: str = "") -> None:
        self._step, self._hint, self._step_at = text, hint, time.monotonic()

    def set_children(self, children: Sequence[ChildProcess]) -> None:
        self._children = children

    def show_progress(self, progress: IndexProgress) -> None:
        self._progress = progress

    def show_ready(self, progress: IndexProgress) -> None:
        self._live.stop()  # which takes sys.stdout while it draws
        super().show_ready(progress)
        title = Text.assemble(("argosy", "bold"), f" {__version__}, ", ("ready", "bold green"))
        self._print(title.append(f" in {self.elapsed_s:.1f} s"))
        self._print(Text())
        for label, value in self._places():
            self._print(Text.assemble(f"  {label:<8} ", (value, "cyan")))
        self._print(Text())
        self._print(Text(f"  {_summary(progress)}. Press Ctrl-C to stop."))

    def warn(self, text: str) -> None:
        self._print(Text.assemble(("warning:", "yellow"), f" {_one_line(text)}"))

    def note(self, text: str) -> None:
        super().note(text)
        self.print_note(text)

    def print_note(self, text: str) -> None:
        """As `note`, for what is in the log already."""
        self._print(Text.assemble(("note:", "bold"), f" {_one_line(text)}"))

    def show_draining(self) -> None:
        self._begin_line()
        self._print(Text("draining; press Ctrl-C again to stop immediately"))

    def show_stopping(self) -> None:
        self._begin_line()
        self._print(Text("stopping immediately"))

    def _places(self) -> list[tuple[str, str]]:
        places = [("search", self._url), ("fleet", f"{self._url}/fleet"), ("logs", _shorten_home(self._log_path))]
        shown = self._children[:CHILDREN_SHOWN_MAX]
        places += [(each.name, f"http://{each.address} (pid {each.pid})") for each in shown]
        if len(self._children) > len(shown):
            places.append(("", f"and {len(self._children) - len(shown)} more nodes, on the fleet page"))
        return places

    def _begin_line(self) -> None:
        """Ends the bars, and returns to the start of the line, where the terminal has echoed `^C`."""
        self._live.stop()
        if self._console.is_dumb_terminal:
            self._print(Text())
        else:
            self._console.control(Control(ControlType.CARRIAGE_RETURN))

    def _print(self, line: Text) -> None:
        # Soft wrapping leaves a long URL or path in one piece, so that it can be copied.
        self._console.print(line, soft_wrap=True)

    # -- bars, drawn from a thread of rich's ---------------------------------------------------------------------------

    def _render(self) -> RenderableType:
        width, progress = self._console.width, self._progress
        frames = _FRAMES_ASCII if self._is_ascii else _FRAMES
        seconds = self.elapsed_s
        frame = frames[int(seconds * REFRESHES_PER_S) % len(frames)]
        if progress.total == 0:
            hint = f" ({self._hint})" if self._hint and time.monotonic() - self._step_at > HINT_AFTER_S else ""
            return _crop(f"{frame} argosy {__version__}: {self._step}, {seconds:.0f} s{hint}")
        done = len(progress.ready) + len(progress.failed)
        lines: list[RenderableType] = [
            _crop(f"{frame} indexing: {done} of {progress.total} repositories, {seconds:.0f} s")
        ]
        # Repositories that wait come last: a screen full of empty bars would look like a hang.
        at_work_first = sorted(progress.pending, key=lambda each: each.status is None)
        lines += [self._bar(each, width) for each in at_work_first[: self._bars_max()]]
        if self._url:
            lines.append(_crop(f"  {self._url}"))
        return Group(*lines)

    def _bars_max(self) -> int:
        return max(1, min(BARS_MAX, self._console.height - 4))

    def _bar(self, each: RepoView, width: int) -> RenderableType:
        percent = 0 if each.status is None else int(each.status.progress * 100)
        word = "waiting" if each.status is None else each.status.phase.value
        is_narrow = width < NARROW_COLUMNS
        bar_columns = BAR_COLUMNS // 2 if is_narrow else BAR_COLUMNS
        name_columns = max(8, min(40, width - bar_columns - (10 if is_narrow else 20)))
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_column(width=name_columns + 2, no_wrap=True, overflow="crop")
        row.add_column(width=bar_columns)
        row.add_column(width=4, justify="right", no_wrap=True)
        row.add_column(no_wrap=True, overflow="crop")
        name = Text(f"  {self._keep_tail(each.name, name_columns)}")
        row.add_row(name, ProgressBar(100, percent, width=bar_columns), f"{percent}%", "" if is_narrow else word)
        return row

    def _keep_tail(self, name: str, columns: int) -> str:
        """The end of a long name, which distinguishes repositories."""
        name = _one_line(name)
        if cell_len(name) <= columns:
            return name
        mark = ".." if self._is_ascii else "…"
        tail = chop_cells(name[::-1], columns - len(mark))[0][::-1]
        return f"{mark}{tail}"


class _NoticeHandler(logging.Handler):
    """Passes on what the log has for the user; the same text only once among the last `WARNINGS_KNOWN_MAX`."""

    def __init__(self, display: TerminalDisplay) -> None:
        super().__init__(logging.INFO)
        self._display = display
        self._known: OrderedDict[str, None] = OrderedDict()

    def emit(self, record: logging.LogRecord) -> None:
        event: object = record.msg
        notice = event.notice if isinstance(event, logs.Event) else ""
        if not notice and record.levelno >= logging.ERROR and record.exc_info:
            name = event.name if isinstance(event, logs.Event) else record.getMessage().partition("\n")[0]
            notice = f"unexpected error: {name}; the log file has more"
        # A store that is unreachable logs a warning per attempt; the user needs to see it once.
        if notice and notice not in self._known:
            self._known[notice] = None
            if len(self._known) > WARNINGS_KNOWN_MAX:
                self._known.popitem(last=False)
            show = self._display.warn if record.levelno >= logging.WARNING else self._display.print_note
            show(redact(notice))


def _summary(progress: IndexProgress) -> str:
    if progress.total == 0:
        return 'No repositories yet: add one with "argosy repo add"'
    ready, total, megabytes = len(progress.ready), progress.total, progress.memory_bytes / 1e6
    count = f"{ready}" if ready == total else f"{ready} of {total}"
    size = "less than 1 MB" if megabytes < 1 else f"{megabytes:,.0f} MB"
    return f"{count} {'repository' if total == 1 else 'repositories'}, {size} in memory"


def _shorten_home(path: Path) -> str:
    home = os.path.expanduser("~")
    return f"~{str(path)[len(home) :]}" if str(path).startswith(f"{home}{os.sep}") else str(path)


def _crop(line: str) -> Text:
    """A line of the part that is redrawn: if it were wrapped, the next one would overwrite the wrong lines."""
    return Text(_one_line(line), no_wrap=True, overflow="crop")


def _one_line(text: str) -> str:
    """Names and reasons come from elsewhere: nothing in them may steer the terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
