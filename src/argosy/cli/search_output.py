"""An answer on stdout, in the form that was asked for."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from argosy.cli.search_flags import Flags, Look
from argosy.cli.search_json import answer_fields, document, file_fields, plain
from argosy.cli.search_sources import Shelved, Survey
from argosy.cli.search_text import counted, named, vimgrep, with_headings, without_headings
from argosy.cli.terminal_text import Paint, safe_name

if TYPE_CHECKING:
    from argosy.search.model import FileMatch, Repository, SearchResult

PARTS = ("chunks", "lines")  # of a file match, which names and counts leave out


class Printer:
    """Writes answers about a shelf."""

    def __init__(self, flags: Flags, look: Look, shelf: Shelved) -> None:
        self._flags = flags
        self._look = look
        self._shelf = shelf
        self._paint = Paint(_is_colourful(flags.color))
        self._has_headings = sys.stdout.isatty() if flags.heading is None else flags.heading

    def files(self, answer: "SearchResult", survey: Survey) -> None:
        files = answer.files
        if self._flags.sort == "path":
            files = tuple(sorted(files, key=lambda file: os.fsencode(self._shelf.name_of(file))))
        if self._flags.as_json:
            told = [self._fields(file) for file in files]
            head = {"query": self._flags.query, "files": told}
            _write(document(head | answer_fields(answer) | _indexed(self._shelf, survey), indent=2))
        elif self._flags.jsonl:
            for file in files:
                _write(document({"type": "file"} | self._fields(file)))
            _write(document({"type": "stats"} | answer_fields(answer) | _indexed(self._shelf, survey)))
        elif self._flags.null:
            _write_names(self._shelf.name_of(file) for file in files)
        else:
            for text in self._texts(files):
                _write(text, end="")

    def repositories(self, found: "Iterable[Repository]") -> None:
        """The answer to `type:repo`: where they were found."""
        if self._flags.as_json:
            told = [self._repository(each) for each in found]
            _write(document({"query": self._flags.query, "repositories": told}, indent=2))
        elif self._flags.jsonl:
            for each in found:
                _write(document({"type": "repository"} | self._repository(each)))
        else:
            for each in found:
                _write(self._paint.path(safe_name(self._shelf.place_of(each.name))))

    def _texts(self, files: "Iterable[FileMatch]") -> Iterator[str]:
        name_of, paint, has_context = self._shelf.name_of, self._paint, self._flags.context > 0
        for number, file in enumerate(files):
            if self._look is Look.VIMGREP:
                yield vimgrep(file, name_of, paint)
            elif self._look is Look.COUNTS:
                yield counted(file, name_of, paint)
            elif self._look is Look.NAMES:
                yield named(file, name_of, paint)
            elif self._has_headings:
                yield ("\n" if number else "") + with_headings(file, name_of, paint, has_context=has_context)
            else:
                gap = paint.aside("--") + "\n" if number and has_context else ""
                yield gap + without_headings(file, name_of, paint, has_context=has_context)

    def _fields(self, file: "FileMatch") -> dict[str, Any]:
        fields = file_fields(file, self._shelf.name_of(file))
        if self._look is not Look.TEXT:
            fields = {name: value for name, value in fields.items() if name not in PARTS}
        return fields

    def _repository(self, found: "Repository") -> dict[str, Any]:
        fields: dict[str, Any] = plain(found)
        return fields


def _indexed(shelf: Shelved, survey: Survey) -> dict[str, Any]:
    """What was searched, for machines."""
    told = {
        "files": survey.files,
        "text_bytes": survey.text_bytes,
        "memory_bytes": survey.memory_bytes,
        "duration_s": shelf.duration_s,
        "by_name_only": {reason.name.lower(): count for reason, count in survey.skipped.items()},
    }
    return {"indexed": told}


def _is_colourful(wish: str) -> bool:
    if wish != "auto":
        return wish == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _write(text: str, end: str = "\n") -> None:
    """What the terminal's encoding does not know is written out, rather than being an error."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write((text + end).encode(encoding, "backslashreplace").decode(encoding))


def _write_names(names: Iterable[str]) -> None:
    """The very bytes for another program; a terminal is shown what can be shown."""
    if sys.stdout.isatty():
        for name in names:
            _write(safe_name(name))
        return
    sys.stdout.flush()
    for name in names:
        sys.stdout.buffer.write(os.fsencode(name) + b"\0")
    sys.stdout.buffer.flush()
