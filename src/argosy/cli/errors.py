"""The error output of a failed command, and its exit code.

    error: unknown option "--prot"; did you mean "--port"?
    run "argosy up --help" for usage

With `--json` the error is one JSON object. Exit codes: 0 success, 1 failure, 2 wrong usage or settings, 130 after
Ctrl-C.
"""

import json

import click
from click.exceptions import NoArgsIsHelpError, NoSuchCommand, NoSuchOption

from argosy.base.errors import ArgosyError, Invalid
from argosy.base.redact import redact
from argosy.cli.output import wants_json

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def exit_code_of(error: ArgosyError | click.ClickException) -> int:
    return EXIT_USAGE if isinstance(error, Invalid | click.UsageError) else EXIT_FAILURE


def print_error(error: ArgosyError | click.ClickException, ctx: click.Context | None = None) -> None:
    """Prints the error, redacted because a message may contain the URL of a store with its password."""
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    message = redact(format_usage_error(error) if isinstance(error, click.ClickException) else str(error))
    if ctx is not None and wants_json(ctx):
        kind, status = (
            (Invalid.__name__, Invalid.status)
            if isinstance(error, click.ClickException)
            else (type(error).__name__, error.status)
        )
        click.echo(json.dumps({"error": {"kind": kind, "status": status, "message": message}}), err=True)
        return
    click.echo(f"error: {message}", err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f'run "{error.ctx.command_path} --help" for usage', err=True)


def format_usage_error(error: click.ClickException) -> str:
    """Click's message in our format: lower case, no full stop, the suggestion after a semicolon."""
    match error:
        case NoSuchOption():
            return f'unknown option "{error.option_name}"{_suggest(error.possibilities)}'
        case NoSuchCommand():
            group = "" if error.ctx is None or error.ctx.parent is None else f' of "{error.ctx.command_path}"'
            return f'unknown command "{error.command_name}"{group}{_suggest(error.possibilities)}'
    text = " ".join(error.format_message().split()).removesuffix(".").replace(". Choose from:", "; choose from")
    return text[:1].lower() + text[1:]


def _suggest(possibilities: list[str] | None) -> str:
    if not possibilities:
        return ""
    names = " or ".join(f'"{name}"' for name in possibilities)
    return f"; did you mean {names}?"
