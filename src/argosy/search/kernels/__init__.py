"""Compiled loops: everything that reads text byte by byte. They run without the global interpreter lock.

numba compiles a kernel once per kind of CPU, which takes up to several seconds, and loads it from a cache afterwards.
`make setup` and the container image compile the kernels in advance. A node that starts without a cache compiles
ESSENTIAL, reports ready, and compiles the rest in the background; a query that needs one of those waits for it.

Reading order: `compiler` (how kernels are declared, compiled and cached), `classes` (trigram keys), `blocks` and
`postings` (indexing), `candidates` and `scan` (searching), `spans` (scoring), `encode_chunks` (results).
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argosy.search.kernels.worker import Background

# The kernels that index building and the searches shown in the docs call: words, symbols, regular expressions, names
# and `or`, with results as chunks or lines. tests/search/kernels measures the set. The slowest to compile come first,
# so that several compiler processes finish at about the same time.
ESSENTIAL = (
    "encode_chunks", "_blank", "select_in_parts", "_outline", "scan_parts", "encode_lines", "intersect", "score_parts",
    "places_in_documents", "parts_with_all", "scan", "_blank_bodies", "_nest", "mark_traits", "score_matches",
    "lines_around", "collect_keys", "_squeeze", "_blank_arguments", "cut_blocks", "best_of", "_place", "distinct_keys",
    "gather", "score_names", "entries_of", "best_points", "_keys_of", "ranges_of", "documents_of", "unite", "_columns",
    "fill_postings", "blocks_within", "mark_documents", "mark_first_documents", "without_overlaps",
)  # fmt: skip


def import_all() -> list[str]:
    """Imports every module that declares kernels; returns the names of those in this package."""
    names = sorted(module.name for module in iter_modules(__path__))
    for name in names:
        import_module(f"{__name__}.{name}")
    import_module("argosy.search.symbols.extract")
    return names


def warm() -> list[str]:
    """Loads every kernel; compiles those that are not cached in this process."""
    from argosy.search.kernels import compiler

    names = import_all()
    compiler.load(compiler.not_loaded())
    return names


def prepare(progress: Callable[[int, int], None] | None = None) -> "Background | None":
    """Compiles ESSENTIAL, loads everything cached, and starts compiling the rest in the background.

    Returns the background compilation, which the caller must stop, or None if nothing is left to compile.
    """
    from argosy.search.kernels import compiler

    import_all()
    compile_essential(progress)
    compiler.load_cached()
    compiler.load(compiler.missing(ESSENTIAL))  # in memory only, if no cache directory is writable
    from argosy.search.kernels.worker import Background

    return Background() if any(each._cache.folder for each in compiler.missing()) else None


def compile_essential(progress: Callable[[int, int], None] | None = None) -> None:
    """Compiles the missing kernels of ESSENTIAL in worker processes, if a cache directory is writable."""
    from argosy.search.kernels import compiler
    from argosy.search.kernels.worker import Compilation, CompilationFailed

    if not any(each._cache.folder for each in compiler.missing(ESSENTIAL)):
        return
    with Compilation(everything=False) as compilation:
        try:
            compilation.wait(progress)
        except CompilationFailed as error:
            from argosy.base import logs

            logs.get("search.kernels").warning("kernel workers failed, compiling in this process", reason=str(error))
