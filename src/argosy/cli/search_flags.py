"""The command line of `argosy search`, and its translation into options of the engine."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import Invalid
from argosy.cli.completion import complete_path

if TYPE_CHECKING:
    from argosy.search.model import Options
    from argosy.search.query import ParsedQuery
    from argosy.search.query.tree import Query

FILES_MAX = 50  # default of --max-files; names and counts are shown for all
# A search for a common letter in a large corpus would otherwise collect millions of matches to show 50 files.
MATCH_LIMIT = 100_000  # in one repository; a query that finds more returns the best ones so far
TIME_S = 20.0
COUNT_MAX = 1_000_000_000  # of any option: more than any corpus has, and within the integers of the kernels

C = TypeVar("C", bound=Callable[..., Any])
_COUNT = click.IntRange(min=0)


class OutputFormat(Enum):
    """The format of the output."""

    TEXT = "text"
    VIMGREP = "--vimgrep"
    COUNTS = "--count"
    NAMES = "--files-with-matches"


@dataclass(frozen=True, slots=True)
class Flags:
    """The parsed command line."""

    query: str
    paths: tuple[str, ...]
    context: int
    max_files: int | None
    max_matches: int
    match_limit: int
    max_time: float
    count: bool
    files_with_matches: bool
    vimgrep: bool
    null: bool
    as_json: bool
    jsonl: bool
    symbols: bool
    branch: tuple[str, ...]
    no_ignore: bool
    large_file: tuple[str, ...]
    pattern_type: str | None
    case: str | None
    sort: str
    bm25: bool
    color: str
    heading: bool | None
    stats: bool

    def output_format(self) -> OutputFormat:
        """The requested format; raises Invalid for two of them."""
        requested = [
            form
            for form, is_requested in (
                (OutputFormat.VIMGREP, self.vimgrep),
                (OutputFormat.COUNTS, self.count),
                (OutputFormat.NAMES, self.files_with_matches),
            )
            if is_requested
        ]
        if len(requested) > 1 or (self.as_json and self.jsonl) or (self.vimgrep and self.is_for_machines):
            raise Invalid("--json, --jsonl, --vimgrep, --count and -l are mutually exclusive")
        # Lines of text may contain NUL themselves, so only names can be separated by it.
        if self.null and (OutputFormat.NAMES not in requested or self.is_for_machines):
            raise Invalid("--null requires --files-with-matches")
        return requested[0] if requested else OutputFormat.TEXT

    @property
    def is_for_machines(self) -> bool:
        return self.as_json or self.jsonl

    @property
    def is_for_all(self) -> bool:
        """Whether only names or counts are shown, for all files instead of a screenful."""
        return self.count or self.files_with_matches


def parse_query(flags: Flags) -> "ParsedQuery":
    """The query. Options override its `case:`; its `patterntype:` overrides options."""
    from argosy.search.query import PatternType, parse

    kind = PatternType(flags.pattern_type or "regex")
    found = parse(flags.query, pattern_type=kind)
    if not flags.symbols and _has_symbol_query(found.query):
        raise Invalid("sym: requires symbols; omit --no-symbols")
    if flags.case is None:
        return found
    # The query has parsed, so the appended field is a separate word.
    return parse(f"{flags.query} case:{flags.case}", pattern_type=kind)


def _has_symbol_query(query: "Query") -> bool:
    from argosy.search.query.tree import And, Boost, Not, Or, Symbol, Type

    match query:
        case And(children) | Or(children):
            return any(map(_has_symbol_query, children))
        case Not(child) | Boost(child, _) | Type(_, child):
            return _has_symbol_query(child)
        case _:
            return isinstance(query, Symbol)


def to_engine_options(flags: Flags, query: "ParsedQuery", form: OutputFormat) -> "Options":
    """The limits and the result format of the search."""
    from argosy.search.documents import DOCUMENT_BYTES_MAX
    from argosy.search.model import Form, Options

    shown = flags.max_files if flags.max_files is not None else query.count
    if shown is None:
        shown = 0 if flags.is_for_all else FILES_MAX
    standard = Options()
    return Options(
        files_max=min(shown, COUNT_MAX),
        matches_max=0 if flags.is_for_all else min(flags.max_matches, COUNT_MAX),
        file_matches_max=1 if flags.is_for_all else 0,  # a file reports its total count in any case
        index_match_limit=min(flags.match_limit, COUNT_MAX),
        wall_time_s=flags.max_time,
        context_lines=min(flags.context, COUNT_MAX) if form is OutputFormat.TEXT else 0,
        form=Form.CHUNKS if flags.is_for_machines else Form.LINES,
        use_bm25=flags.bm25,
        # A column is counted from the start of its line, so the line must not be clipped.
        line_bytes_max=DOCUMENT_BYTES_MAX if form is OutputFormat.VIMGREP else standard.line_bytes_max,
    )


_OPTIONS = (
    click.argument("query"),
    click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_path),
    click.option("-C", "--context", type=_COUNT, default=0, metavar="N", help="Lines of context around each match."),
    click.option(
        "--max-files", "--files-max", type=_COUNT, metavar="N",
        help=f"Maximum number of files; 0 for all. By default {FILES_MAX}, with -c and -l all.",
    ),
    click.option(
        "--max-matches", "--matches-max", type=_COUNT, default=0, metavar="N",
        help="Maximum number of matches over all files; 0 for all.",
    ),
    click.option(
        "--match-limit", type=_COUNT, default=MATCH_LIMIT, metavar="N",
        help="Stop searching a path after this many matches; 0 for no limit.",
    ),
    click.option(
        "--max-time", type=click.FloatRange(min=0), default=TIME_S, metavar="SECONDS",
        help="Time limit of the search without indexing; 0 for none. Results so far are printed.",
    ),
    click.option("-c", "--count", is_flag=True, help="Print the number of matches of each file."),
    click.option("-l", "--files-with-matches", is_flag=True, help="Print only file names."),
    click.option("-0", "--null", is_flag=True, help="With -l: print exact names terminated by NUL, for xargs -0."),
    click.option("--vimgrep", is_flag=True, help="Print path:line:column:text, one line per match."),
    click.option("--jsonl", is_flag=True, help="Print one line of JSON per file, then one with statistics."),
    click.option(
        "--symbols/--no-symbols", default=True,
        help="Index symbol definitions, for sym: and for ranking; indexing is faster without.",
    ),
    click.option("--branch", multiple=True, metavar="REF", help="Branch, tag or commit to search; repeatable."),
    click.option("--no-ignore", is_flag=True, help="Also search files that are ignored by ignore files."),
    click.option("--large-file", multiple=True, metavar="GLOB", help="Search these files at any size; repeatable."),
    click.option("-F", "--literal", "pattern_type", flag_value="literal", help="Words are literal text, not regexes."),
    click.option("--keyword", "pattern_type", flag_value="keyword", help="Words are literal text that must all match."),
    click.option("-i", "--ignore-case", "case", flag_value="no", help="Match case-insensitively."),
    click.option("-s", "--case-sensitive", "case", flag_value="yes", help="Match case-sensitively."),
    click.option(
        "--sort", type=click.Choice(["score", "path"]), default="score", help="Order of the files."
    ),
    click.option("--bm25", is_flag=True, help="Rank by BM25: term frequency relative to file length."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Color the output."),
    click.option("--heading/--no-heading", default=None, help="Print names above lines; by default on a terminal."),
    click.option("--stats", is_flag=True, help="Print indexing and search statistics on stderr."),
)  # fmt: skip


def search_options(command: C) -> C:
    """Adds all options."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command
