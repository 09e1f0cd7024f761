"""`argosy search`: searches local directories and repositories, without a server and without an index on disk.

Exit codes are those of grep: 0 a match, 1 no match, 2 an error, and 130 after Ctrl-C. A search without a match that was
cut short, or that could not read a file, counts as an error: it does not prove that there is no match.
"""

import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.extras import missing_package
from argosy.base.redact import redact
from argosy.cli.commands import Command
from argosy.cli.output import json_option
from argosy.cli.search_flags import Flags, OutputFormat, parse_query, search_options, to_engine_options
from argosy.cli.search_output import Printer, document, format_costs, format_limits, format_unread
from argosy.cli.search_progress import SearchProgress, exit_interrupted, run_with_progress
from argosy.cli.search_sources import IndexSummary, LoadedPaths, index_sources, open_sources, summarize

if TYPE_CHECKING:
    from argosy.search.model import Options, Repository, SearchResult
    from argosy.search.query import ParsedQuery


FOUND, NOTHING, FAILED = 0, 1, 2


@click.command(cls=Command)
@search_options
@json_option
def search(**given: Any) -> None:
    """Search directories and repositories without a server.

    QUERY consists of words and fields that must all match: kmalloc gfp_atomic, "static inline", file:\\.go$ sym:^New
    lang:go. Words are regexes. PATH is by default the current directory.
    """
    flags = Flags(**given)
    try:
        code = _run_search(flags)
    except KeyboardInterrupt:
        exit_interrupted()
    # `argosy search … | head` ends this way, and is no error.
    except BrokenPipeError:
        _drop_output()
        code = FOUND  # the reader of the pipe has read enough
    except ArgosyError as error:
        code = _print_error(error, flags)
    except Exception:  # a bug: print the traceback, and do not exit with the code for "no match"
        traceback.print_exc()
        code = FAILED
    click.get_current_context().exit(code)


@dataclass(frozen=True)
class _SearchRun:
    """The outcome of a search; `repositories` is set if the query was `type:repo`."""

    loaded: LoadedPaths
    summary: IndexSummary
    options: "Options"
    answer: "SearchResult"
    repositories: "tuple[Repository, ...] | None" = None

    @property
    def code(self) -> int:
        if self.answer.files or self.repositories:
            return FOUND
        # Exit code 1 promises that there is no match, so an incomplete search must not return it.
        return NOTHING if self.answer.is_complete and not self.summary.unread else FAILED


def _run_search(flags: Flags) -> int:
    form = flags.output_format()
    if sys.stdout is None:  # Python sets it to None if it was closed
        raise Unavailable("cannot write to stdout: it is closed")
    # The query is parsed before anything is indexed: a typing error should not take a minute to show.
    try:
        query = parse_query(flags)
        result = run_with_progress(lambda progress: _work(flags, query, form, progress))
    except ImportError as error:
        raise missing_package(error, purpose="search") from error
    printer = Printer(flags, form, result.loaded)
    try:
        if result.repositories is None:
            printer.files(result.answer, result.summary)
        else:
            printer.repositories(result.repositories)
        sys.stdout.flush()  # before the notes on stderr
    # The command handles it: the reader of the pipe has read enough.
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise Unavailable(f"cannot write to stdout: {error.strerror}") from error
    _print_notes(format_unread(result.summary))
    if not flags.is_for_machines:
        _print_notes(format_limits(result.answer, result.options, has_lines=form is OutputFormat.TEXT))
    if flags.stats:
        _print_notes(format_costs(result.answer, result.loaded, result.summary))
    return result.code


def _work(flags: Flags, query: "ParsedQuery", form: OutputFormat, progress: SearchProgress) -> _SearchRun:
    """The slow part, run in a thread: loads the engine, indexes the paths, runs the query."""
    progress.begin("loading")
    load_engine(progress)
    from argosy.search.index_set import IndexSet
    from argosy.search.model import SearchResult
    from argosy.search.query.tree import ResultKind, Type

    loaded = index_sources(open_sources(flags), flags, progress)
    summary, options = summarize(loaded), to_engine_options(flags, query, form)
    progress.begin("searching")
    index_set = IndexSet(loaded.indexes)
    try:
        # `type:repo` lists repositories, so no file is searched.
        if isinstance(query.query, Type) and query.query.kind is ResultKind.REPO:
            repositories = index_set.repositories_now(query.query, progress.cancelled.is_set)
            return _SearchRun(loaded, summary, options, SearchResult(), repositories)
        answer = index_set.search_now(query.query, options, progress.cancelled.is_set)
    finally:
        index_set.close()
    return _SearchRun(loaded, summary, options, _without_display_limit(answer) if flags.is_for_all else answer)


def _without_display_limit(answer: "SearchResult") -> "SearchResult":
    """Names and counts need one match per file, and the count covers all: the limit on shown matches omits nothing."""
    import msgspec

    from argosy.search.model import LimitHit

    limits_hit = tuple(each for each in answer.limits_hit if each is not LimitHit.MATCHES_SHOWN)
    return msgspec.structs.replace(answer, limits_hit=limits_hit)


def _print_error(error: ArgosyError, flags: Flags) -> int:
    """Prints the error; for an invalid query, also its position."""
    message = redact(str(error))
    if flags.is_for_machines:
        fields = {"kind": type(error).__name__, "status": error.status, "message": message}
        click.echo(document({"error": fields}), err=True)
        return FAILED
    click.echo(f"error: {message}", err=True)
    excerpt = getattr(error, "excerpt", None)  # of a QuerySyntaxError, whose module is loaded only with the engine
    if excerpt is not None:
        click.echo("\n".join(f"  {line}" for line in excerpt().splitlines()), err=True)
    return FAILED


def _print_notes(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _drop_output() -> None:
    """Redirects stdout to /dev/null; the interpreter would otherwise flush it again on exit, and fail."""
    with suppress(OSError, ValueError):  # a stream that is not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_ENGINE = ("argosy.search.index.build", "argosy.search.index_set")


def load_engine(progress: SearchProgress) -> None:
    """Loads the engine and compiles the essential kernels that are not cached, with progress in `progress`.

    Other kernels are loaded when they are called; `progress` also shows if one of them has to be compiled."""
    from numba.core import event

    from argosy.search.precompiler import compile_essential

    class Listener(event.Listener):
        depth = 0  # helpers are compiled inside kernels

        def on_start(self, _: Any) -> None:
            self.depth += 1
            progress.is_compiling = True

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            progress.is_compiling = self.depth > 0

    # Importing numba takes most of this time, which is why the progress line starts with "loading".
    for name in _ENGINE:
        import_module(name)

    def show(done: int, total: int) -> None:
        progress.compiled = done, total
        progress.is_compiling = done < total

    compile_essential(show)
    # numba sends this event only if the cache has no compiled kernel.
    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]
