"""Prints search results in the requested format."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from argosy.cli.search_flags import Flags, OutputFormat
from argosy.cli.search_json import answer_fields, document, file_fields, plain
from argosy.cli.search_sources import IndexSummary, LoadedPaths
from argosy.cli.search_text import count_line, name_line, vimgrep, with_headings, without_headings
from argosy.cli.terminal_text import Paint, safe_name

if TYPE_CHECKING:
    from argosy.search.model import FileMatch, Repository, SearchResult

PARTS = ("chunks", "lines")  # fields of a file match that are left out of names and counts


class Printer:
    """Prints results of a search of the loaded paths."""

    def __init__(self, flags: Flags, form: OutputFormat, loaded: LoadedPaths) -> None:
        self._flags = flags
        self._form = form
        self._loaded = loaded
        self._paint = Paint(_has_color(flags.color))
        self._has_headings = sys.stdout.isatty() if flags.heading is None else flags.heading

    def files(self, answer: "SearchResult", summary: IndexSummary) -> None:
        files = answer.files
        if self._flags.sort == "path":
            files = tuple(sorted(files, key=lambda file: os.fsencode(self._loaded.name_of(file))))
        if self._flags.as_json:
            matches = [self._fields(file) for file in files]
            head = {"query": self._flags.query, "files": matches}
            _write(document(head | answer_fields(answer) | _index_fields(self._loaded, summary), indent=2))
        elif self._flags.jsonl:
            for file in files:
                _write(document({"type": "file"} | self._fields(file)))
            _write(document({"type": "stats"} | answer_fields(answer) | _index_fields(self._loaded, summary)))
        elif self._flags.null:
            _write_names(self._loaded.name_of(file) for file in files)
        else:
            for text in self._texts(files):
                _write(text, end="")

    def repositories(self, found: "Iterable[Repository]") -> None:
        """Prints the result of `type:repo`."""
        if self._flags.as_json:
            repositories = [self._repository(each) for each in found]
            _write(document({"query": self._flags.query, "repositories": repositories}, indent=2))
        elif self._flags.jsonl:
            for each in found:
                _write(document({"type": "repository"} | self._repository(each)))
        else:
            for each in found:
                _write(self._paint.path(safe_name(self._loaded.path_of(each.name))))

    def _texts(self, files: "Iterable[FileMatch]") -> Iterator[str]:
        name_of, paint, has_context = self._loaded.name_of, self._paint, self._flags.context > 0
        for number, file in enumerate(files):
            if self._form is OutputFormat.VIMGREP:
                yield vimgrep(file, name_of, paint)
            elif self._form is OutputFormat.COUNTS:
                yield count_line(file, name_of, paint)
            elif self._form is OutputFormat.NAMES:
                yield name_line(file, name_of, paint)
            elif self._has_headings:
                yield ("\n" if number else "") + with_headings(file, name_of, paint, has_context=has_context)
            else:
                gap = paint.aside("--") + "\n" if number and has_context else ""
                yield gap + without_headings(file, name_of, paint, has_context=has_context)

    def _fields(self, file: "FileMatch") -> dict[str, Any]:
        fields = file_fields(file, self._loaded.name_of(file))
        if self._form is not OutputFormat.TEXT:
            fields = {name: value for name, value in fields.items() if name not in PARTS}
        return fields

    def _repository(self, found: "Repository") -> dict[str, Any]:
        fields: dict[str, Any] = plain(found)
        return fields


def _index_fields(loaded: LoadedPaths, summary: IndexSummary) -> dict[str, Any]:
    """Statistics of the indexed paths."""
    fields = {
        "files": summary.files,
        "text_bytes": summary.text_bytes,
        "memory_bytes": summary.memory_bytes,
        "duration_s": loaded.duration_s,
        "by_name_only": {reason.name.lower(): count for reason, count in summary.skipped.items()},
    }
    return {"indexed": fields}


def _has_color(option: str) -> bool:
    if option != "auto":
        return option == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _write(text: str, end: str = "\n") -> None:
    """Writes text; characters that the encoding of stdout lacks are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write((text + end).encode(encoding, "backslashreplace").decode(encoding))


def _write_names(names: Iterable[str]) -> None:
    """Writes the exact bytes for another program; on a terminal, escaped names."""
    if sys.stdout.isatty():
        for name in names:
            _write(safe_name(name))
        return
    sys.stdout.flush()
    for name in names:
        sys.stdout.buffer.write(os.fsencode(name) + b"\0")
    sys.stdout.buffer.flush()
