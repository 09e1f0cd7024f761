"""`argosy up`: search and its web pages on this host, in one process or as a small fleet."""

import time
from pathlib import Path

import click

from argosy.cli.commands import Command
from argosy.cli.completion import complete_path
from argosy.cli.settings import config_option, load

NODES_MAX = 64


@click.command(cls=Command)
@click.argument("addresses", nargs=-1, metavar="[PATH|URL]…", shell_complete=complete_path)
@click.option(
    "--nodes",
    type=click.IntRange(1, NODES_MAX),
    help="Start this many search nodes as child processes, with a Valkey server.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 selects a free port.")
@click.option("--name", metavar="NAME", help="Name of the repository, if one address is given.")
@click.option("--data", metavar="DIR", help="Directory of the state; by default derived from the addresses.")
@click.option(
    "--resume", is_flag=True, help="Also serve repositories that were added with `argosy repo add` in earlier runs."
)
@click.option("-v", "--verbose", is_flag=True, help="Show the log in the terminal instead of progress bars.")
@config_option
def up(
    addresses: tuple[str, ...],
    nodes: int | None,
    port: int | None,
    name: str | None,
    data: str | None,
    resume: bool,
    verbose: bool,
    config: Path | None,
) -> None:
    """Index repositories and serve searches in one process.

    Serves web pages and APIs for the given repositories only, or without arguments for the catalog that `argosy repo
    add` edits. Directories and working copies are indexed as they are. Several instances can run side by side, each
    with its own state and port. Stops on Ctrl-C or SIGTERM.
    """
    started_at = time.monotonic()
    from argosy.app.up import UpOptions, run_up
    from argosy.cli.repo_address import parse_sources

    sources = parse_sources(addresses)
    options = UpOptions(nodes=nodes, port=port, data=data, name=name, resume=resume, is_verbose=verbose)
    run_up(load(config), sources, options, started_at=started_at)
