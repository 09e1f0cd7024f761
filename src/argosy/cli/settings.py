"""How a command comes by its settings: `--config FILE`, then the environment."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from argosy.base.settings import Loaded

C = TypeVar("C", bound=Callable[..., Any])

CONFIG_VARIABLE = "ARGOSY_CONFIG"


def config_option(command: C) -> C:
    """Adds `--config FILE`."""
    kind = click.Path(dir_okay=False, path_type=Path)
    return click.option(
        "--config", type=kind, envvar=CONFIG_VARIABLE, help="TOML file of settings; ARGOSY_… variables outrank it."
    )(command)


def load(config: Path | None) -> "Loaded":
    """All settings of the house; raises one Invalid that lists everything wrong with them."""
    from argosy.app import SECTIONS
    from argosy.base import settings

    environ = {name: value for name, value in os.environ.items() if name != CONFIG_VARIABLE}
    return settings.load(SECTIONS, path=config, environ=environ)
