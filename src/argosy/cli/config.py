"""`argosy config`: the effective settings and the source of each value."""

from dataclasses import asdict
from pathlib import Path

import click

from argosy.base import settings
from argosy.cli.commands import Group
from argosy.cli.output import json_option, print_json, print_table
from argosy.cli.settings import config_option, load


@click.group(cls=Group)
def config() -> None:
    """Show and check the settings."""


@config.command()
@config_option
@json_option
def show(config: Path | None, as_json: bool) -> None:
    """Show every setting with its source: default, file or environment.

    Without --config or ARGOSY_CONFIG, only the first existing file of these is read: ./argosy.toml,
    $XDG_CONFIG_HOME/argosy/config.toml (by default in ~/.config), /etc/argosy/config.toml.
    """
    loaded = load(config)
    rows = settings.show(loaded)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        click.echo(f"settings file: {loaded.path or 'none'}")
        cells = [(f"{row.section}.{row.name}", row.value, row.source) for row in rows]
        print_table(("setting", "value", "source"), cells, empty="no settings found")


@config.command()
@config_option
@json_option
def check(config: Path | None, as_json: bool) -> None:
    """Check the settings and report all errors."""
    loaded = load(config)
    if as_json:
        print_json({"ok": True, "settings": len(settings.show(loaded)), "ignored": list(loaded.ignored)})
        return
    click.echo(f"{len(settings.show(loaded))} settings are valid")
