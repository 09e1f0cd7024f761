"""What can be said on the command line of `argosy search`, and what it means to the engine."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.errors import Invalid
from argosy.cli.completion import complete_path

if TYPE_CHECKING:
    from argosy.search.model import Options
    from argosy.search.query import Parsed
    from argosy.search.query.tree import Query

FILES_MAX = 50  # shown unless more are asked for; names and counts are shown of all
MATCH_LIMIT = 100_000  # in one repository: a query that finds more is answered by its best so far
TIME_S = 20.0
COUNT_MAX = 1_000_000_000  # of anything: more than there is, and what kernels can count with

C = TypeVar("C", bound=Callable[..., Any])
_COUNT = click.IntRange(min=0)


class Look(Enum):
    """The form of the answer."""

    TEXT = "text"
    VIMGREP = "--vimgrep"
    COUNTS = "--count"
    NAMES = "--files-with-matches"


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line, as it was given."""

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

    def look(self) -> Look:
        """The one form that was asked for; two of them are a mistake."""
        asked = [
            look
            for look, is_asked in (
                (Look.VIMGREP, self.vimgrep),
                (Look.COUNTS, self.count),
                (Look.NAMES, self.files_with_matches),
            )
            if is_asked
        ]
        if len(asked) > 1 or (self.as_json and self.jsonl) or (self.vimgrep and self.is_for_machines):
            raise Invalid("an answer has one form: choose one of --json, --jsonl, --vimgrep, --count, -l")
        if self.null and (Look.NAMES not in asked or self.is_for_machines):
            raise Invalid("--null is for names: use it with --files-with-matches")
        return asked[0] if asked else Look.TEXT

    @property
    def is_for_machines(self) -> bool:
        return self.as_json or self.jsonl

    @property
    def is_for_all(self) -> bool:
        """Whether only names or counts are shown, so that there is no reason to stop at a screenful."""
        return self.count or self.files_with_matches


def parsed(flags: Flags) -> "Parsed":
    """The query. An option outranks its `case:`, and is outranked by its `patterntype:`."""
    from argosy.search.query import PatternType, parse

    kind = PatternType(flags.pattern_type or "regex")
    found = parse(flags.query, pattern_type=kind)
    if not flags.symbols and _asks_for_definitions(found.query):
        raise Invalid("sym: finds definitions, and --no-symbols leaves them out: leave out one of the two")
    if flags.case is None:
        return found
    # The text is known to be whole, so what is put at its end is a word of its own.
    return parse(f"{flags.query} case:{flags.case}", pattern_type=kind)


def _asks_for_definitions(query: "Query") -> bool:
    from argosy.search.query.tree import And, Boost, Not, Or, Symbol, Type

    match query:
        case And(children) | Or(children):
            return any(map(_asks_for_definitions, children))
        case Not(child) | Boost(child, _) | Type(_, child):
            return _asks_for_definitions(child)
        case _:
            return isinstance(query, Symbol)


def options(flags: Flags, query: "Parsed", look: Look) -> "Options":
    """The bounds and the form of the search."""
    from argosy.search.documents import DOCUMENT_BYTES_MAX
    from argosy.search.model import Form, Options

    shown = flags.max_files if flags.max_files is not None else query.count
    if shown is None:
        shown = 0 if flags.is_for_all else FILES_MAX
    standard = Options()
    return Options(
        files_max=min(shown, COUNT_MAX),
        matches_max=0 if flags.is_for_all else min(flags.max_matches, COUNT_MAX),
        file_matches_max=1 if flags.is_for_all else 0,  # the count of all is told with the file
        index_match_limit=min(flags.match_limit, COUNT_MAX),
        wall_time_s=flags.max_time,
        context_lines=min(flags.context, COUNT_MAX) if look is Look.TEXT else 0,
        form=Form.CHUNKS if flags.is_for_machines else Form.LINES,
        use_bm25=flags.bm25,
        # A column is counted from the start of its line, so that has to be there.
        line_bytes_max=DOCUMENT_BYTES_MAX if look is Look.VIMGREP else standard.line_bytes_max,
    )


_OPTIONS = (
    click.argument("query"),
    click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_path),
    click.option("-C", "--context", type=_COUNT, default=0, metavar="N", help="Lines shown around each match."),
    click.option(
        "--max-files", "--files-max", type=_COUNT, metavar="N",
        help=f"Files shown; 0 for all. By default {FILES_MAX}, and all with -c and -l.",
    ),
    click.option(
        "--max-matches", "--matches-max", type=_COUNT, default=0, metavar="N",
        help="Matches shown, over all files; 0 for all.",
    ),
    click.option(
        "--match-limit", type=_COUNT, default=MATCH_LIMIT, metavar="N",
        help="Stop looking through a path after so many matches; 0 for never.",
    ),
    click.option(
        "--max-time", type=click.FloatRange(min=0), default=TIME_S, metavar="SECONDS",
        help="Then answer with what was found; 0 for no bound. Indexing does not count.",
    ),
    click.option("-c", "--count", is_flag=True, help="Show how many matches each file has."),
    click.option("-l", "--files-with-matches", is_flag=True, help="Show only the names of files."),
    click.option("-0", "--null", is_flag=True, help="With -l, the exact names, each ended by a NUL, for xargs -0."),
    click.option("--vimgrep", is_flag=True, help="Show path:line:column:text, a line for each match."),
    click.option("--jsonl", is_flag=True, help="Print a line of JSON for each file, then one of figures."),
    click.option(
        "--symbols/--no-symbols", default=True,
        help="Find definitions, for sym: and for the order; indexing is faster without.",
    ),
    click.option("--branch", multiple=True, metavar="REF", help="Search this commit of a git repository; repeatable."),
    click.option("--no-ignore", is_flag=True, help="Search what ignore files leave out, too."),
    click.option("--large-file", multiple=True, metavar="GLOB", help="Files searched whatever their size; repeatable."),
    click.option("-F", "--literal", "pattern_type", flag_value="literal", help="Words are text, not regexes."),
    click.option("--keyword", "pattern_type", flag_value="keyword", help="Words are text, and all must be there."),
    click.option("-i", "--ignore-case", "case", flag_value="no", help="Case does not matter."),
    click.option("-s", "--case-sensitive", "case", flag_value="yes", help="Case matters."),
    click.option(
        "--sort", type=click.Choice(["score", "path"]), default="score", help="The order of the files shown."
    ),
    click.option("--bm25", is_flag=True, help="Order by how often the words stand in a file of its length."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours in text."),
    click.option("--heading/--no-heading", default=None, help="Names above their lines; by default on a terminal."),
    click.option("--stats", is_flag=True, help="Say what was indexed and what the search cost, on stderr."),
)  # fmt: skip


def search_options(command: C) -> C:
    """Adds all of them."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command
