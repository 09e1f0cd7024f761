"""`argosy search`: the engine on what is in front of you, with no server and nothing left on the disk.

Exit codes are those of grep: 0 something was found, 1 nothing was, 2 there was an error, and 130 after Ctrl-C. An
answer that found nothing proves nothing if it was cut short or a file could not be read: that is an error as well.
"""

import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.extras import missing_package
from argosy.base.redact import redact
from argosy.cli.commands import Command
from argosy.cli.output import json_option
from argosy.cli.search_engine import load
from argosy.cli.search_flags import Flags, Look, options, parsed, search_options
from argosy.cli.search_json import document
from argosy.cli.search_notes import costs, cut_short, unsearched
from argosy.cli.search_output import Printer
from argosy.cli.search_progress import Stage, leave, watched
from argosy.cli.search_sources import Shelved, Survey, indexed, opened, survey

if TYPE_CHECKING:
    from argosy.search.model import Options, Repository, SearchResult
    from argosy.search.query import Parsed

FOUND, NOTHING, FAILED = 0, 1, 2


@click.command(cls=Command)
@search_options
@json_option
def search(**given: Any) -> None:
    """Search folders and repositories, from memory.

    QUERY is words and fields that must all hold: kmalloc gfp_atomic, "static inline", file:\\.go$ sym:^New lang:go.
    Words are regexes. PATH is what is searched, by default the folder you are in.
    """
    flags = Flags(**given)
    try:
        code = _answered(flags)
    except KeyboardInterrupt:
        leave()
    except BrokenPipeError:
        _drop_output()
        code = FOUND  # somebody had read enough of it
    except ArgosyError as error:
        code = _failed(error, flags)
    except Exception:  # a defect of ours: told in full, and not by the code for "nothing was found"
        traceback.print_exc()
        code = FAILED
    click.get_current_context().exit(code)


@dataclass(frozen=True)
class _Result:
    """All that is known when the work is done; `repositories` if the query asked for nothing else."""

    shelf: Shelved
    survey: Survey
    options: "Options"
    answer: "SearchResult"
    repositories: "tuple[Repository, ...] | None" = None

    @property
    def code(self) -> int:
        if self.answer.files or self.repositories:
            return FOUND
        return NOTHING if self.answer.is_complete and not self.survey.unread else FAILED


def _answered(flags: Flags) -> int:
    look = flags.look()
    if sys.stdout is None:  # how Python is told that it was closed
        raise Unavailable("the answer could not be written (stdout is closed): check where it goes")
    try:
        query = parsed(flags)
        result = watched(lambda stage: _work(flags, query, look, stage))
    except ImportError as error:
        raise missing_package(error, purpose="search") from error
    printer = Printer(flags, look, result.shelf)
    try:
        if result.repositories is None:
            printer.files(result.answer, result.survey)
        else:
            printer.repositories(result.repositories)
        sys.stdout.flush()  # before anything is said beside it
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise Unavailable(f"the answer could not be written ({error.strerror}): check where it goes") from error
    _say(unsearched(result.survey))
    if not flags.is_for_machines:
        _say(cut_short(result.answer, result.options, has_lines=look is Look.TEXT))
    if flags.stats:
        _say(costs(result.answer, result.shelf, result.survey))
    return result.code


def _work(flags: Flags, query: "Parsed", look: Look, stage: Stage) -> _Result:
    """Everything that takes time: the engine loaded, the paths indexed, the query answered."""
    stage.begin("loading")
    load(stage)
    from argosy.search.index_set import IndexSet
    from argosy.search.model import SearchResult
    from argosy.search.query.tree import Kind, Type

    shelved = indexed(opened(flags), flags, stage)
    found, wanted = survey(shelved), options(flags, query, look)
    stage.begin("searching")
    shelf = IndexSet(shelved.indexes)
    try:
        if isinstance(query.query, Type) and query.query.kind is Kind.REPO:
            repositories = shelf.repositories_now(query.query, stage.cancelled.is_set)
            return _Result(shelved, found, wanted, SearchResult(), repositories)
        answer = shelf.search_now(query.query, wanted, stage.cancelled.is_set)
    finally:
        shelf.close()
    return _Result(shelved, found, wanted, _with_counts_told(answer) if flags.is_for_all else answer)


def _with_counts_told(answer: "SearchResult") -> "SearchResult":
    """One match of each file was asked for, and no more is shown; its count is of all, so nothing is left out."""
    import msgspec

    from argosy.search.model import LimitHit

    limits_hit = tuple(each for each in answer.limits_hit if each is not LimitHit.MATCHES_SHOWN)
    return msgspec.structs.replace(answer, limits_hit=limits_hit)


def _failed(error: ArgosyError, flags: Flags) -> int:
    """Says what went wrong; of a query, also where."""
    message = redact(str(error))
    if flags.is_for_machines:
        told = {"kind": type(error).__name__, "status": error.status, "message": message}
        click.echo(document({"error": told}), err=True)
        return FAILED
    click.echo(f"error: {message}", err=True)
    pointed = getattr(error, "pointed", None)
    if pointed is not None:
        click.echo("\n".join(f"  {line}" for line in pointed().splitlines()), err=True)
    return FAILED


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _drop_output() -> None:
    """What is still to be written goes nowhere; else the interpreter would try once more at its end, and complain."""
    with suppress(OSError, ValueError):  # a stream that is no file has nothing to redirect
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
