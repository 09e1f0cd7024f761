"""`argosy` itself: the list of its commands."""

from collections.abc import Sequence

import click

from argosy import __version__
from argosy.cli.commands import LazyGroup

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
    "help": ("argosy.cli.help:help", "Show the help of a command."),
    "version": ("argosy.cli.help:version", "Show the version."),
}


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings=_CONTEXT)
@click.version_option(__version__, "-V", "--version", prog_name="argosy", message="%(prog)s %(version)s")
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
