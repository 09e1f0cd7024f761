"""Loads the search engine on first use: it imports a compiler, and compiles its kernels on the first run."""

from importlib import import_module
from typing import Any

from argosy.cli.search_progress import Stage

_ENGINE = ("argosy.search.index.build", "argosy.search.index_set")


def load(stage: Stage) -> None:
    """Loads the engine and compiles the essential kernels that are not cached, with progress in `stage`.

    Other kernels are loaded when they are called; `stage` also shows if one of them has to be compiled."""
    from numba.core import event

    from argosy.search.precompiler import compile_essential

    class Listener(event.Listener):
        depth = 0  # helpers are compiled inside kernels

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
    # numba sends this event only if the cache has no compiled kernel.
    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]
