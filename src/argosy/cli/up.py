"""`argosy up`: the whole product on this machine, in one process or as a small fleet."""

import time
from pathlib import Path

import click

from argosy.cli.commands import Command
from argosy.cli.completion import complete_path
from argosy.cli.settings import config_option, load

NODES_MAX = 64


@click.command(cls=Command)
@click.argument("addresses", nargs=-1, metavar="[PATH|URL]…", shell_complete=complete_path)
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), help="Start search nodes as child processes, on a Valkey.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")
@click.option("--name", metavar="NAME", help="Name of the repository, if one is given.")
@click.option("--data", metavar="DIR", help="Directory for the state, by default one that follows from the addresses.")
@click.option("--resume", is_flag=True, help="Also serve what was added to these repositories while they were served.")
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
    """Index repositories and serve them, all in one process.

    Serves web pages and APIs; no server is needed. Serves the given repositories and no others; without any, the
    catalog that `argosy repo add` edits. Folders and working copies are indexed as they are. Any number of these run
    side by side, each with its own state and port. Stops on Ctrl-C or SIGTERM.
    """
    started_at = time.monotonic()
    from argosy.app.up import UpOptions, run_up
    from argosy.cli.repo_address import parse_sources

    sources = parse_sources(addresses)
    options = UpOptions(nodes=nodes, port=port, data=data, name=name, resume=resume, is_verbose=verbose)
    run_up(load(config), sources, options, started_at=started_at)
