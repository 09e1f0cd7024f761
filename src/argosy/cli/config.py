"""`argosy config`: what a node would run with, and where each value comes from."""

from dataclasses import asdict
from pathlib import Path

import click

from argosy.base import settings
from argosy.cli.output import json_option, print_json, print_table
from argosy.cli.settings import config_option, load


@click.group()
def config() -> None:
    """Show and check the settings."""


@config.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Every setting as it is now, and its source: the default, the file, or the environment."""
    rows = settings.show(load(config))
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        cells = [(f"{row.section}.{row.name}", row.value, row.source) for row in rows]
        print_table(("setting", "value", "source"), cells, empty="nothing can be set")


@config.command()
@config_option
@json_option
def check(config: Path | None, as_json: bool) -> None:
    """Say everything that is wrong with the settings, or that nothing is."""
    loaded = load(config)
    if as_json:
        print_json({"ok": True, "settings": len(settings.show(loaded)), "ignored": list(loaded.ignored)})
        return
    click.echo(f"{len(settings.show(loaded))} settings are in order")
