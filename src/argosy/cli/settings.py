"""How a command comes by its settings: `--config FILE`, then the environment."""

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
        help="Settings file (TOML); by default the one that `argosy config show` names. ARGOSY_… outranks it.",
    )(command)


def load(config: Path | None) -> "Loaded":
    """All settings, with a warning on stderr for each ARGOSY_ variable that is none of them.

    Raises one Invalid that lists everything wrong with them.
    """
    from argosy.app import load_settings

    loaded = load_settings(config)
    for warning in loaded.ignored.values():
        click.echo(f"warning: {warning}", err=True)
    return loaded
