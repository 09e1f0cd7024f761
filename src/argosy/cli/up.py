"""`argosy up`: the whole product on this machine, in one process or as a small fleet."""

from pathlib import Path

import click

from argosy.cli.commands import Command
from argosy.cli.completion import complete_path
from argosy.cli.settings import config_option, load

NODES_MAX = 64


@click.command(cls=Command)
@click.argument("addresses", nargs=-1, metavar="[PATH|URL]…", shell_complete=complete_path)
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), help="Search nodes as processes of their own, on a Valkey.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of the front door; 0 takes a free one.")
@config_option
def up(addresses: tuple[str, ...], nodes: int | None, port: int | None, config: Path | None) -> None:
    """Index repositories and serve them, all in one process.

    Web pages and APIs, no server needed. What is named is added to the catalog, which is remembered in this user's
    data directory; what was added before is served, too. Folders and working copies are indexed as they are. Stops on
    Ctrl-C or SIGTERM.
    """
    from argosy.app.up import run_up
    from argosy.cli.addressing import typed

    run_up(load(config), [typed(text) for text in addresses], nodes=nodes, port=port)
