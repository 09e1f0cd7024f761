"""The engine is loaded when it is needed: it brings a compiler along, and the first time it compiles its kernels."""

from importlib import import_module
from typing import Any

from argosy.cli.search_watching import Stage

_ENGINE = ("argosy.search.index.build", "argosy.search.service")


def load(stage: Stage) -> None:
    """Loads the engine and compiles the kernels that their cache does not have; the stage is told of that, which takes
    long. The others are loaded when they are called."""
    from numba.core import event

    from argosy.search.kernels.compiling import compile_missing

    class Listener(event.Listener):
        def on_start(self, _: Any) -> None:
            stage.is_compiling = True

        def on_end(self, _: Any) -> None:
            pass

    # It is announced only where the cache has nothing.
    with event.install_listener("numba:compile", Listener()):
        for name in _ENGINE:
            import_module(name)
        compile_missing()
    stage.is_compiling = False
