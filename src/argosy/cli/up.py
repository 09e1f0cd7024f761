"""`argosy up`: a node with everything embedded."""

from pathlib import Path

import click

from argosy.cli.settings import config_option, load


@click.command()
@config_option
def up(config: Path | None) -> None:
    """Start a node with everything embedded.

    Stops on Ctrl-C or SIGTERM after letting go of what it holds.
    """
    from argosy import app

    app.run_up(load(config))
