"""The top-level command `argosy` and the table of its commands."""

from collections.abc import Sequence

import click

from argosy import __version__
from argosy.cli.commands import LazyGroup

# Name: the object that defines the command, and its line in `argosy --help`, which is shown without importing it.
COMMANDS = {
    "up": ("argosy.cli.serve:up", "Index repositories and serve searches in one process."),
    "serve": ("argosy.cli.serve:serve", "Run one process of a fleet."),
    "repo": ("argosy.cli.repo:repo", "Manage the catalog of repositories."),
    "search": ("argosy.cli.search:search", "Search directories and repositories without a server."),
    "find": ("argosy.cli.find:find", "Find who has a file, CID or multihash."),
    "config": ("argosy.cli.config:config", "Show and check the settings."),
    "node": ("argosy.cli.fleet:node", "List and drain the nodes of the fleet."),
    "lease": ("argosy.cli.fleet:lease", "List leases."),
    "auction": ("argosy.cli.fleet:auction", "List auctions, and set the number of bids that closes them early."),
    "scale": ("argosy.cli.fleet:scale", "Show the desired number of nodes."),
    "registry": ("argosy.cli.registry:registry", "Check, export, import and migrate the registry."),
    "job": ("argosy.cli.job:job", "Manage jobs."),
    "shard": ("argosy.cli.shard:shard", "List and split the shards of the job broker."),
    "worker": ("argosy.cli.worker:worker", "Run a worker for jobs."),
    "ipni": ("argosy.cli.ipni:ipni", "Manage the content index."),
    "throttle": ("argosy.cli.throttle:throttle", "Inspect and evaluate the throttle."),
    "sim": ("argosy.cli.sim:sim", "Simulate fleets, throttles and job brokers, with faults."),
    "bench": ("argosy.cli.bench:bench", "Run benchmarks, with peers in the same run."),
    "completion": ("argosy.cli.completion:completion", "Print the completion script for a shell."),
    "help": ("argosy.cli.help:help", "Show the help of a command."),
    "version": ("argosy.cli.help:version", "Show the version."),
}


# 110 columns instead of click's 80: option tables wrap much less on today's terminals.
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings=_CONTEXT)
@click.version_option(__version__, "-V", "--version", prog_name="argosy", message="%(prog)s %(version)s")
def cli() -> None:
    """A self-hosted code-search fleet with a content index and a job broker."""


def command_tree(command: click.Command = cli, path: Sequence[str] = ("argosy",)) -> list[tuple[str, click.Command]]:
    """Every command with its full name, a group before its commands; for the reference page and the tests."""
    result = [(" ".join(path), command)]
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            result += command_tree(child, (*path, name))
    return result
