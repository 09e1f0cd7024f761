"""Base classes of commands: help with examples, suggestions for mistyped names, and one error format.

    error: unknown option "--prot"; did you mean "--port"?
    run "argosy up --help" for usage

With `--json` the error is one JSON object. Exit codes: 0 success, 1 failure, 2 wrong usage or settings, 130 after
Ctrl-C. A command's module is imported when the command is called, so that `argosy --help` and shell completion are
fast.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError, NoSuchCommand, NoSuchOption

from argosy.base.errors import ArgosyError, Invalid
from argosy.base.redact import redact
from argosy.cli.output import wants_json

SECONDS_MAX = 10 * 365 * 86_400  # ten years: more is a typing error


class Seconds(click.FloatRange):
    """A range of seconds, at most `SECONDS_MAX`. `nan` and `inf` are floats too, but no clock can wait for them."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds) or seconds > SECONDS_MAX:
            self.fail(f"{value} is not a number of seconds up to {SECONDS_MAX}.", param, ctx)
        return seconds


# Click names its parameter types after their classes.
_CLICK_TERMS = {
    "not a valid integer range": "not a whole number",
    "not a valid float range": "not a number",
    "not a valid integer": "not a whole number",
    "not a valid float": "not a number",
}

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def exit_code_of(error: ArgosyError | click.ClickException) -> int:
    # Scripts can distinguish a mistake in their arguments (2) from a failure that a retry may cure (1).
    return EXIT_USAGE if isinstance(error, Invalid | click.UsageError) else EXIT_FAILURE


def print_error(error: ArgosyError | click.ClickException, ctx: click.Context | None = None) -> None:
    """Prints the error, redacted because a message may contain the URL of a store with its password."""
    # Not an error but the help text, which click prints itself.
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    # Messages of stores and of git may contain the URL that they were given, with its password.
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
    for of_click, ours in _CLICK_TERMS.items():
        text = text.replace(of_click, ours)
    return text[:1].lower() + text[1:]


def _suggest(possibilities: list[str] | None) -> str:
    if not possibilities:
        return ""
    names = " or ".join(f'"{name}"' for name in possibilities)
    return f"; did you mean {names}?"


Table = Mapping[str, tuple[str, str]]  # command: the object that defines it, and its line in the help of the group


class Command(click.Command):
    """A command whose help ends with its examples."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_examples(ctx, formatter)


class Group(click.Group):
    """A group of commands, with their examples at the end of its help."""

    command_class = Command
    # For click, the class of a sub-group is that of its parent: so all of them show examples.
    group_class = type

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_examples(ctx, formatter)


def _write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    from argosy.cli.examples import examples_of

    if examples := examples_of(ctx.command_path.partition(" ")[2]):
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class LazyGroup(Group):
    """The top-level group: imports commands when they are called, and prints the errors of all commands."""

    def __init__(self, *args: Any, table: Table, **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    # Importing all commands is slow, because some of them load numba or gRPC; the table has their help lines.
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:  # click does not know commands that are not imported yet
            raise NoSuchCommand(error.command_name, possibilities=self.table, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        # Many commands work without the optional packages, so a missing one is an error only when it is needed.
        except ModuleNotFoundError as error:
            from argosy.base.extras import missing_package

            missing = missing_package(error)
            # A module that no extra provides is a bug of ours.
            if not isinstance(missing, Invalid):
                raise
            _fail(missing, ctx)
        except (ArgosyError, click.ClickException) as error:
            _fail(error, ctx)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """As click's `main`, with our error format, and exit code 130 after Ctrl-C."""
        # Tests and other programs handle errors themselves.
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        # Not in standalone mode, in which click would print errors in its own format.
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        except click.ClickException as error:  # before a command was found
            print_error(error)
            sys.exit(exit_code_of(error))
        sys.exit(code if isinstance(code, int) else 0)


def _fail(error: ArgosyError | click.ClickException, ctx: click.Context) -> NoReturn:
    print_error(error, ctx)
    ctx.exit(exit_code_of(error))
