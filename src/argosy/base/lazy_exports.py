"""Exports of a package that are imported on first use, so that importing the package loads nothing else.

    __getattr__, __dir__ = lazy_exports(__name__, {"argosy.search.index.build": ("build",)})

The package lists the same names in `__all__` and, for type checkers, imports them under TYPE_CHECKING.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, names_by_module: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the package."""
    # Eager exports would make importing a client load a whole server with its storage engine.
    module_of = {name: module for module, names in names_by_module.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        # Stored in the package, so that the next access is a plain attribute and does not come here again.
        vars(sys.modules[package])[name] = value
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, list_names
