"""The settings of a command: `--config FILE`, then the environment."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from argosy.base.settings import CONFIG_VARIABLE

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
    for warning in loaded.ignored.values():
        click.echo(f"warning: {warning}", err=True)
    return loaded
