"""The settings of a command (`--config FILE`, then the environment), and `argosy config`, which shows them."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base import settings
from argosy.base.settings import CONFIG_VARIABLE
from argosy.cli.commands import Group
from argosy.cli.output import json_option, print_json, print_table

if TYPE_CHECKING:
    from argosy.base.settings import Loaded


C = TypeVar("C", bound=Callable[..., Any])


def config_option(command: C) -> C:
    """Adds `--config FILE`."""
    kind = click.Path(dir_okay=False, path_type=Path)
    return click.option(
        "--config",
        type=kind,
        envvar=CONFIG_VARIABLE,
        help="Settings file (TOML); see `argosy config show` for the default. ARGOSY_… variables override it.",
    )(command)


def load(config: Path | None) -> "Loaded":
    """All settings; prints a warning for each unknown ARGOSY_ variable.

    Raises one Invalid that lists all errors.
    """
    from argosy.app import load_settings

    loaded = load_settings(config)
    # Warnings, not errors: other programs write the environment too (decision 0039).
    for warning in loaded.ignored.values():
        click.echo(f"warning: {warning}", err=True)
    return loaded


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
