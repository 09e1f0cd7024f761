"""`argosy up`: the whole product on this machine, in one process or as a small fleet."""

import time
from pathlib import Path

import click

from argosy.cli.settings import config_option, load

NODES_MAX = 64


@click.command()
@click.argument("addresses", nargs=-1, metavar="[PATH|URL]…")
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), help="Search nodes as processes of their own, on a Valkey.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the front door; 0 takes a free one.")
@click.option("-v", "--verbose", is_flag=True, help="Show the log in the terminal instead of progress bars.")
@config_option
def up(
    addresses: tuple[str, ...], nodes: int | None, port: int | None, verbose: bool, config: Path | None
) -> None:
    """Index repositories and serve them, all in one process.

    Web pages and APIs, no server needed. What is named is added to the catalog, which is remembered in this user's
    data directory; what was added before is served, too. Folders and working copies are indexed as they are. Stops on
    Ctrl-C or SIGTERM.
    """
    started_at = time.monotonic()
    from argosy.app.up import run_up
    from argosy.cli.addressing import typed

    named = [typed(text) for text in addresses]
    run_up(load(config), named, nodes=nodes, port=port, is_verbose=verbose, started_at=started_at)
