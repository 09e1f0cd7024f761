"""Logs: structured, one event per line, on top of the standard library's logging.

    log = logs.get("ownership.keeper").bind(node="n1")
    log.info("lease lost", unit=unit, epoch=epoch)

An event is a fixed lower-case phrase that can be searched for; variable parts are fields. Secrets never reach a log:
fields are redacted when they are rendered, even if a host program uses a formatter of its own. In the JSON
format every event is one line; in the text format, which is for people, a traceback follows indented.

An event may carry a `notice`: one plain sentence for the person who started the process, with what to do.
It is not part of the log line; `argosy up` shows it in the terminal, where log lines are not shown.

    log.warning("node exited", node="node-2", code=1, notice="node-2 ended with exit code 1; restarting in 2 s")
"""

import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from argosy.base.errors import Invalid
from argosy.base.redact import MASK, is_secret_name, redact

Format = Literal["json", "text"]

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Also ends the recursion of a structure that contains itself.
DEPTH_MAX = 6  # fields within fields; deeper ones are shown as their repr

HANDLER_NAME = "argosy"  # of the one handler that `configure` installs

_ROOT = "argosy"
_RESERVED = ("at", "level", "logger", "event", "traceback")

# Until a program configures logging the library is silent; Python would print bare lines on stderr.
logging.getLogger(_ROOT).addHandler(logging.NullHandler())


class Event:
    """An event and its fields as the message of a log record; as text it reads `lease lost unit=a epoch=3`."""

    __slots__ = ("fields", "name", "notice")

    def __init__(self, name: str, fields: Mapping[str, object], notice: str = "") -> None:
        self.name = name
        self.fields = fields
        self.notice = notice

    def redact_fields(self) -> dict[str, Any]:
        return {_free(key): _redact_value(key, value) for key, value in self.fields.items()}

    def __str__(self) -> str:
        words = [_one_line(redact(self.name))]
        words += [f"{_one_line(key)}={_word(value)}" for key, value in self.redact_fields().items()]
        return " ".join(words)


class Log:
    """A logger with fields bound to it; a level that is off costs one look-up."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: Mapping[str, object]) -> None:
        self._logger = logger
        self._fields = fields

    def bind(self, **fields: object) -> "Log":
        """The same logger with these fields on every event."""
        return Log(self._logger, {**self._fields, **fields})

    def debug(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, /, *, notice: str = "", **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._emit(logging.INFO, event, fields, notice=notice)

    def warning(
        self, event: str, /, *, exc_info: bool | BaseException = False, notice: str = "", **fields: object
    ) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._emit(logging.WARNING, event, fields, exc_info, notice)

    def error(
        self, event: str, /, *, exc_info: bool | BaseException = False, notice: str = "", **fields: object
    ) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._emit(logging.ERROR, event, fields, exc_info, notice)

    def _emit(
        self,
        level: int,
        event: str,
        fields: Mapping[str, object],
        exc_info: bool | BaseException = False,
        notice: str = "",
    ) -> None:
        # The third frame up is the caller of `info`, for hosts whose formatter shows file and line.
        self._logger.log(level, Event(event, {**self._fields, **fields}, notice), exc_info=exc_info, stacklevel=3)


def get(name: str) -> Log:
    """The log of one component, such as `ownership.keeper`."""
    return Log(logging.getLogger(f"{_ROOT}.{name}"), {})


def configure(
    level: str = "info",
    format: Format = "text",
    stream: TextIO | None = None,
    *,
    handler: logging.Handler | None = None,
) -> None:
    """Sends this process's logs to `handler` or `stream` (stderr unless given); a second call replaces the first.

    Other libraries' warnings take the same form, so that one parser can read everything that the process logs.
    """
    if level not in LEVELS:
        raise Invalid(f"the log level is one of {', '.join(LEVELS)}; got {level!r}")
    if format not in ("json", "text"):
        raise Invalid(f"the log format is json or text; got {format!r}")
    root = logging.getLogger()
    # Only our own handler: a host program or pytest may have installed others.
    for installed in [each for each in root.handlers if each.name == HANDLER_NAME]:
        root.removeHandler(installed)
        installed.close()
    handler = handler or _Handler(stream)
    handler.set_name(HANDLER_NAME)
    handler.setFormatter(_JsonLines() if format == "json" else _TextLines())
    root.addHandler(handler)
    # Info lines of other libraries (one per HTTP request in some) would drown ours.
    root.setLevel(logging.WARNING)
    logging.getLogger(_ROOT).setLevel(LEVELS[level])


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of `configure`; its class distinguishes it from handlers of a host program or a test."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream or sys.stderr)
        self._is_stderr = stream is None

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_stderr:
            self.stream = sys.stderr  # while bars are drawn, rich replaces it with a stream that writes above them
        super().emit(record)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = _event(record)
        line = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": _name(record),
            "event": redact(event.name),
            **event.redact_fields(),
        }
        if record.exc_info:
            line["traceback"] = redact(self.formatException(record.exc_info))
        return _json(line)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_at(record)} {record.levelname.lower():<7} {_name(record)}: {_event(record)}"
        if record.exc_info:
            traceback = redact(self.formatException(record.exc_info))
            line += "\n    " + traceback.replace("\n", "\n    ")
        return line


def _event(record: logging.LogRecord) -> Event:
    """The record's event; a record of another library is an event without fields."""
    message: object = record.msg
    return message if isinstance(message, Event) else Event(record.getMessage(), {})


def _at(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{_ROOT}.")


def _free(key: str) -> str:
    """A field may not displace what every line has: `level=3` is shown as `level_`."""
    return f"{key}_" if key in _RESERVED else key


def _redact_value(key: str, value: object, depth: int = 0) -> Any:
    """`value` as JSON types, with its secrets masked."""
    # By name first: a secret need not look like one.
    if is_secret_name(key):
        return MASK
    match value:
        case str():
            return redact(value)
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping() if depth < DEPTH_MAX:
            return {str(name): _redact_value(str(name), part, depth + 1) for name, part in value.items()}
        case list() | tuple() | set() | frozenset() if depth < DEPTH_MAX:
            return [_redact_value(key, part, depth + 1) for part in value]
    return redact(_repr(value))


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # a log line must not fail because of the object it describes
        return f"<{type(value).__name__} without a repr>"


def _word(value: object) -> str:
    """A field's value in a text line: bare if it is one plain word, else as JSON."""
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "='):
        return value
    return _json(value)


def _one_line(text: str) -> str:
    return text if text.isprintable() else _json(text)


def _json(value: object) -> str:
    """One line of JSON; escaped to ASCII if it contains anything that could break a line or control a terminal."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
