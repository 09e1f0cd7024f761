"""`argosy` itself: the list of commands, and what becomes of an error.

Exit codes: 0 done, 1 it failed, 2 the request was wrong. An error is one line on stderr, or with `--json` one object.
"""

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click
from click.exceptions import NoSuchCommand

from argosy import __version__
from argosy.base.errors import ArgosyError, Invalid
from argosy.base.redact import redact
from argosy.cli.output import wants_json

# name: where it is defined, and its line in `argosy --help`, which is shown without loading it.
COMMANDS = {
    "up": ("argosy.cli.up:up", "Index repositories and serve them, all in one process."),
    "serve": ("argosy.cli.serve:serve", "Run one process of a fleet until it is told to stop."),
    "repo": ("argosy.cli.repo:repo", "What should be searchable."),
    "search": ("argosy.cli.search:search", "Search folders and repositories, from memory."),
    "find": ("argosy.cli.find:find", "Who holds exactly this file, CID or hash."),
    "config": ("argosy.cli.config:config", "Show and check the settings."),
    "node": ("argosy.cli.fleet:node", "The nodes of the fleet."),
    "lease": ("argosy.cli.fleet:lease", "Who holds what."),
    "auction": ("argosy.cli.fleet:auction", "Running auctions, and the threshold that closes them early."),
    "scale": ("argosy.cli.fleet:scale", "Show how many nodes the fleet needs, and why."),
    "registry": ("argosy.cli.registry:registry", "What is remembered: check it, move it, measure it."),
    "job": ("argosy.cli.job:job", "Durable jobs: put them, look at them, steer them."),
    "shard": ("argosy.cli.shard:shard", "The shards of the job broker."),
    "worker": ("argosy.cli.worker:worker", "Do jobs."),
    "ipni": ("argosy.cli.ipni:ipni", "The content index: who holds exactly this content."),
    "throttle": ("argosy.cli.throttle:throttle", "Fair admission when the resource runs short."),
    "sim": ("argosy.cli.sim:sim", "Simulate a fleet, with or without faults."),
    "bench": ("argosy.cli.bench:bench", "Measure, beside peers in the same run."),
    "completion": ("argosy.cli.completion:completion", "Print the completion script for a shell."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and loaded when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:      # click knows no lazy commands, so it could not say what was meant
            raise NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ArgosyError as error:
            fail(ctx, error)
        except click.ClickException as error:
            if wants_json(ctx):
                fail(ctx, Invalid(error.format_message()))
            raise


def fail(ctx: click.Context, error: ArgosyError) -> NoReturn:
    """Says what went wrong and ends the command. Messages may hold a store's address, so they are redacted."""
    message = redact(str(error))
    if wants_json(ctx):
        told = {"kind": type(error).__name__, "status": error.status, "message": message}
        click.echo(json.dumps({"error": told}), err=True)
    else:
        click.echo(f"error: {message}", err=True)
    ctx.exit(2 if isinstance(error, Invalid) else 1)


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


@click.group(cls=LazyGroup, context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="argosy", message="%(prog)s %(version)s")
def cli() -> None:
    """A self-hosted search fleet: who holds what, until when, and where does this request go?"""


def command_tree(command: click.Command = cli, path: Sequence[str] = ("argosy",)) -> list[tuple[str, click.Command]]:
    """Every command with its full name, a group before what is in it: for the reference page and the tests."""
    found = [(" ".join(path), command)]
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            found += command_tree(child, (*path, name))
    return found
