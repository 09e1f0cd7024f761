"""The engine is loaded when it is needed: it brings a compiler along, and the first time it compiles its kernels."""

from importlib import import_module
from typing import Any

from argosy.cli.search_progress import Stage

_ENGINE = ("argosy.search.index.build", "argosy.search.index_set")


def load(stage: Stage) -> None:
    """Loads the engine, and has what it needs first compiled if no cache has it: that takes long, so the stage shows
    how far it is. Other kernels are loaded when they are called; the stage also shows if one has to be compiled."""
    from numba.core import event

    from argosy.search.kernels import compile_essential

    class Listener(event.Listener):
        depth = 0  # helpers are compiled within kernels

        def on_start(self, _: Any) -> None:
            self.depth += 1
            stage.is_compiling = True

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            stage.is_compiling = self.depth > 0

    for name in _ENGINE:
        import_module(name)

    def show(done: int, total: int) -> None:
        stage.compiled = done, total
        stage.is_compiling = done < total

    compile_essential(show)
    # Announced only where the cache has nothing.
    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]
