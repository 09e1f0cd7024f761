"""The on-disk cache of compiled kernels.

numba uses one cache directory and fails at declaration if it is not writable. A container image is compiled by root and
runs on a read-only file system, so this cache reads from any directory that has a kernel and writes to the first one
that is writable. If none is, kernels that are not cached are compiled in memory, with a warning. Cached code is
unpickled, so only directories owned by this user or by the installer of the package are used, never one that others
can write to.
"""

import inspect
import os
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)

from argosy.base import logs

log = logs.get("search.kernels")

IN_MEMORY = "search kernels compiled in memory only: no cache directory is writable; set NUMBA_CACHE_DIR"
# A process can read while another writes, or find what an interrupted one left, so truncated files are expected.
UNREADABLE = (OSError, EOFError, pickle.UnpicklingError)


class Locator(InTreeCacheLocator):
    """The cache directories of one source file, in order: NUMBA_CACHE_DIR if set, the `__pycache__` beside the file,
    the user's cache."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        # Beside the source comes first: `make setup` and the image write there, and it ends with the environment it
        # belongs to.
        kinds = [InTreeCacheLocator, UserWideCacheLocator]
        if numba.config.CACHE_DIR:
            # The variable is an explicit request, so it wins.
            kinds.insert(0, UserProvidedCacheLocator)
        found = (_folder(kind, function, file) for kind in kinds)
        self.folders: tuple[str, ...] = tuple(folder for folder in found if folder is not None)
        self.writable = next(filter(_is_writable, self.folders), None)

    def ensure_cache_path(self) -> None:
        """Does nothing: a read-only cache directory is valid."""


def _folder(kind: Any, function: Any, file: str) -> str | None:
    """None if numba cannot name a directory: it encodes the source path as UTF-8, which fails if the path contains
    bytes that the locale's encoding could not decode."""
    try:
        folder: str = kind(function, file).get_cache_path()
    except UnicodeEncodeError:
        return None
    return folder


# Cached, because each of the dozens of kernels asks for the same few directories.
@cache
def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    # A directory that exists passes `makedirs` even if nothing can be written to it.
    return os.access(folder, os.W_OK | os.X_OK)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (Locator,)


class _Files:
    """One pair of cache files (index and code) in several directories."""

    def __init__(self, locator: Locator, base: str, stamp: object) -> None:
        self._files = {folder: IndexDataCacheFile(folder, base, stamp) for folder in locator.folders}
        self._written = self._files.get(locator.writable)

    def has(self, key: object) -> bool:
        return any(key in index for index in self._read(lambda file: file._load_index()))

    def load(self, key: object) -> Any:
        return next((found for found in self._read(lambda file: file.load(key)) if found is not None), None)

    def save(self, key: object, data: object) -> None:
        """Ignores write errors: the next process compiles the kernel again."""
        if self._written is None:
            return
        try:
            self._written.save(key, data)
        except OSError as error:
            _warn("compiled kernels could not be cached", folder=self._written._cache_path, error=str(error))

    def _read(self, read: Callable[[Any], Any]) -> Iterator[Any]:
        for folder, file in self._files.items():
            try:
                yield read(file)
            # An unreadable cache counts as empty: the kernel is compiled, and no query fails for it.
            except UNREADABLE as error:
                log.debug("cached kernel not readable", folder=folder, error=str(error))


class KernelCache(FunctionCache):
    """The cache of one kernel; `stamp` changes with the files that it depends on."""

    _impl_class = _Implementation

    def __init__(self, function: Any, stamp: object) -> None:
        super().__init__(function)
        # Set here because numba would choose another one if NUMBA_CACHE_LOCATOR_CLASSES is set, for all of the process.
        self._impl._locator = self._locator = Locator(function, inspect.getfile(function))
        # numba compares stamps on every read and ignores what was compiled from other sources.
        stamps = self._locator.get_source_stamp(), stamp
        self._cache_file = _Files(self._locator, self._impl.filename_base, stamps)

    @property
    def folder(self) -> str | None:
        """The directory that compiled code is written to, if any."""
        return self._locator.writable

    def save_overload(self, signature: Any, data: Any) -> None:
        if self.folder is None:
            _warn(IN_MEMORY)
        super().save_overload(signature, data)

    def has(self, signature: Any, codegen: Any) -> bool:
        return self._cache_file.has(self._index_key(signature, codegen))


@cache
def _warn(event: str, **fields: str) -> None:
    """Logs once per directory, not once for each of the dozens of kernels."""
    log.warning(event, **fields)
