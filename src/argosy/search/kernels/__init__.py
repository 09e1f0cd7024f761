"""The compiled loops: everything that touches text byte by byte. They run without the interpreter lock.

A kernel is compiled once for each machine, which takes up to seconds, and loaded from a cache after that. `make setup`
and the container image compile them beforehand. A node that starts without them compiles ESSENTIAL, says that it is
ready, and has the others compiled in the background; a query that needs one of those first waits for that one.
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.search.kernels.worker import Background

# What building an index and a plain search call, those that take longest to compile first, so that several processes
# are done at about the same time.
ESSENTIAL = (
    "tell_chunks", "choose_in_all", "_blank", "scan_in_all", "_outline", "score_in_all", "_nest", "score_matches",
    "_squeeze", "_blank_arguments", "_blank_bodies", "mark_traits", "cut_blocks", "places_in_documents", "collect_keys",
    "best_of", "_place", "distinct_keys", "_keys_of", "_columns", "fill_postings",
)  # fmt: skip


def import_all() -> list[str]:
    """Imports, and so declares, every kernel; returns the names of the modules here."""
    names = sorted(module.name for module in iter_modules(__path__))
    for name in names:
        import_module(f"{__name__}.{name}")
    import_module("argosy.search.symbols.extract")
    return names


def warm() -> list[str]:
    """Loads every kernel, and compiles in this process what is not cached."""
    from argosy.search.kernels import compiling

    names = import_all()
    compiling.load(compiling.not_loaded())
    return names


def prepare(progress: Callable[[int, int], None] | None = None) -> "Background | None":
    """Loads what is cached, compiling ESSENTIAL first; the compilation of the rest, to be stopped by the caller."""
    from argosy.search.kernels import compiling

    import_all()
    compile_essential(progress)
    compiling.load_cached()
    compiling.load(compiling.missing(ESSENTIAL))        # in memory, where nothing can be written
    from argosy.search.kernels.worker import Background

    return Background() if any(each._cache.folder for each in compiling.missing()) else None


def compile_essential(progress: Callable[[int, int], None] | None = None) -> None:
    """Has the kernels of ESSENTIAL that no cache has compiled by other processes, if there is anywhere to write."""
    from argosy.search.kernels import compiling
    from argosy.search.kernels.worker import Compilation, Failed

    if not any(each._cache.folder for each in compiling.missing(ESSENTIAL)):
        return
    with Compilation(everything=False) as compilation:
        try:
            compilation.wait(progress)
        except Failed as error:
            from argosy.base import logs

            logs.get("search.kernels").warning("kernels are compiled by this process instead", reason=str(error))
