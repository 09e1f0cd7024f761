"""Prints search results in the requested format, and notes on stderr: limits, unreadable files, statistics.

In JSON, UTF-8 text is written unchanged. Of a name or line that is not UTF-8, the field has U+FFFD for invalid bytes,
and a second field, `…_base64`, has the exact bytes. Terminal control characters are escaped as JSON allows.
"""

import json
import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from argosy.cli.output import Paint, safe_name
from argosy.cli.search_flags import Flags, OutputFormat
from argosy.cli.search_sources import IndexSummary, LoadedPaths
from argosy.cli.search_text import count_line, name_line, vimgrep, with_headings, without_headings

if TYPE_CHECKING:
    from argosy.search.model import FileMatch, Options, Repository, SearchResult


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
            # By bytes, as `ls` and `sort` in the C locale order them, and as names that are not UTF-8 allow.
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
    # The conventions of no-color.org and force-color.org; an explicit --color overrides both.
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
    # The text layer has a buffer of its own, which would be written after the bytes.
    sys.stdout.flush()
    for name in names:
        sys.stdout.buffer.write(os.fsencode(name) + b"\0")
    sys.stdout.buffer.flush()


# JSON requires escapes only below U+0020; these also control terminals, or end lines for some readers.
_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def document(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON, on one line unless indented."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def answer_fields(answer: "SearchResult") -> dict[str, Any]:
    """The fields of a result besides its files."""
    stats, limits_hit = plain(answer.stats), plain(answer.limits_hit)
    return {"stats": stats, "limits_hit": limits_hit, "is_complete": answer.is_complete}


def file_fields(file: "FileMatch", name: str) -> dict[str, Any]:
    """A matching file; the field `file` is its path relative to the working directory."""
    fields: dict[str, Any] = plain(file)
    del fields["encoded_matches"]  # only used between a node and a gateway
    return _exact("file", name) | fields


def plain(value: Any) -> Any:
    """Structs, enums and bytes as JSON types."""
    import msgspec

    return _to_json(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: field for name, inner in value.items() for key, field in _field(name, inner).items()}
    if isinstance(value, list | tuple):
        return [_to_json(inner) for inner in value]
    if isinstance(value, str):  # a list has no second field for the exact bytes
        return value.encode("utf-8", "surrogateescape").decode(errors="replace")
    return value


def _field(name: str, value: Any) -> dict[str, Any]:
    return _exact(name, value) if isinstance(value, bytes | str) else {name: _to_json(value)}


def _exact(name: str, value: bytes | str) -> dict[str, Any]:
    content = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {name: content.decode(errors="replace"), f"{name}_base64": b64encode(content).decode()}


def format_unread(found: IndexSummary) -> Iterator[str]:
    """Files whose content could not be searched."""
    from argosy.search.documents import DOCUMENT_BYTES_MAX, SkipReason

    unread = sum(found.skipped[reason] for reason in (SkipReason.UNREADABLE, SkipReason.MISSING))
    if unread:
        # One example is enough to see the cause; a directory without permission may hold thousands.
        yield f"warning: {_files(unread)} could not be read, such as {safe_name(found.unread)}"
    large = sum(found.skipped[reason] for reason in (SkipReason.TOO_LARGE, SkipReason.TOO_MANY_TRIGRAMS))
    if large:
        most = DOCUMENT_BYTES_MAX >> 20
        yield f"note: {_files(large)} too large to search; include them, up to {most} MiB, with --large-file GLOB"


def format_limits(answer: "SearchResult", options: "Options", *, has_lines: bool) -> Iterator[str]:
    """The limits that were reached and the option that raises each; `has_lines` if lines are shown."""
    from argosy.search.model import LimitHit

    stats, limits_hit = answer.stats, answer.limits_hit
    if LimitHit.INDEX_MATCHES in limits_hit:
        # A block in progress is finished, so there may be many more matches than the limit.
        found, most = stats.matches, options.index_match_limit
        yield f"note: stopped after {found:,} matches (limit {most:,} per path); raise it with --match-limit N"
    if LimitHit.WALL_TIME in limits_hit:
        yield f"note: stopped after {options.wall_time_s:g} s; raise the limit with --max-time SECONDS"
    if LimitHit.MATCHES_SHOWN in limits_hit:
        yield f"note: {options.matches_max:,} of {stats.matches:,} matches shown; raise the limit with --max-matches N"
    elif LimitHit.FILES_SHOWN in limits_hit:
        yield f"note: {len(answer.files):,} of {stats.files:,} files shown; raise the limit with --max-files N"
    clipped = sum(line.is_clipped for file in answer.files for line in file.lines)
    if clipped and has_lines:
        lines = "1 long line" if clipped == 1 else f"{clipped:,} long lines"
        yield f"note: {lines} truncated to {options.line_bytes_max:,} bytes"


def format_costs(answer: "SearchResult", loaded: LoadedPaths, found: IndexSummary) -> Iterator[str]:
    """The statistics for --stats."""
    rate = found.text_bytes / loaded.duration_s / 1e6 if loaded.duration_s else 0.0
    yield (
        f"indexed {_files(found.files)}, {_size(found.text_bytes)} of text, in {loaded.duration_s:.2f} s "
        f"({rate:.0f} MB/s), {_size(found.memory_bytes)} of memory"
    )
    if found.skipped:
        reasons = ", ".join(f"{count:,} {reason.value}" for reason, count in found.skipped.most_common())
        yield f"by name only: {reasons}"
    stats = answer.stats
    yield (
        f"found {_matches(stats.matches)} in {_files(stats.files)}; read {_size(stats.content_bytes)} in "
        f"{stats.files_loaded:,} of {stats.files_considered:,} candidates, {stats.duration_s * 1000:.1f} ms"
    )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _matches(count: int) -> str:
    return "1 match" if count == 1 else f"{count:,} matches"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
