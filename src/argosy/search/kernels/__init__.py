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

# What building an index and the searches that the pages give as examples call: words, symbols, regular expressions,
# names and `or`, answered in chunks or lines. Those that take longest to compile come first, so that several processes
# are done at about the same time.
ESSENTIAL = (
    "tell_chunks", "_blank", "choose_in_all", "_outline", "scan_in_all", "tell_lines", "intersect", "score_in_all",
    "places_in_documents", "rows_with_all", "scan", "_blank_bodies", "_nest", "mark_traits", "score_matches",
    "lines_around", "collect_keys", "_squeeze", "_blank_arguments", "cut_blocks", "best_of", "_place", "distinct_keys",
    "gather", "score_names", "entries_of", "best_points", "_keys_of", "ranges_of", "documents_of", "unite", "_columns",
    "fill_postings", "blocks_within", "mark_documents", "mark_first_documents", "without_overlaps",
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
    compiling.load(compiling.missing(ESSENTIAL))  # in memory, where nothing can be written
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
