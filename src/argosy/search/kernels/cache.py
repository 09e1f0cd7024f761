"""Where compiled kernels are kept on disk.

numba uses one folder, and only if it can write there; otherwise it fails when a kernel is declared. An image is
compiled by root and runs with a read-only file system, so here a folder need not be writable to be read: a kernel is
loaded from whichever folder has it, and written to the first that can be written. Where none can, what is not cached
is compiled in memory, with a warning. Cached code is unpickled, so only folders of this user or of whoever installed
the package are used, never one that others can write to.
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

IN_MEMORY = "search kernels compiled in memory only: no cache folder is writable, set NUMBA_CACHE_DIR to one"
UNREADABLE = (OSError, EOFError, pickle.UnpicklingError)


class Locator(InTreeCacheLocator):
    """The folders for the kernels of one source file: the first is NUMBA_CACHE_DIR if it is set, then the
    `__pycache__` beside the file, then the user's cache."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        kinds = [InTreeCacheLocator, UserWideCacheLocator]
        if numba.config.CACHE_DIR:
            kinds.insert(0, UserProvidedCacheLocator)
        found = (_folder(kind, function, file) for kind in kinds)
        self.folders: tuple[str, ...] = tuple(folder for folder in found if folder is not None)
        self.writable = next(filter(_is_writable, self.folders), None)

    def ensure_cache_path(self) -> None:
        """Whether a folder can be written is no condition for a cache."""


def _folder(kind: Any, function: Any, file: str) -> str | None:
    """None where numba cannot name a folder: it encodes the path of the source file as UTF-8, which fails for one that
    the locale's encoding could not decode."""
    try:
        folder: str = kind(function, file).get_cache_path()
    except UnicodeEncodeError:
        return None
    return folder


@cache
def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (Locator,)


class _Files:
    """The same pair of files, an index and the code, in several folders."""

    def __init__(self, locator: Locator, base: str, stamp: object) -> None:
        self._files = {folder: IndexDataCacheFile(folder, base, stamp) for folder in locator.folders}
        self._written = self._files.get(locator.writable)

    def has(self, key: object) -> bool:
        return any(key in index for index in self._read(lambda file: file._load_index()))

    def load(self, key: object) -> Any:
        return next((found for found in self._read(lambda file: file.load(key)) if found is not None), None)

    def save(self, key: object, data: object) -> None:
        """What cannot be written is compiled again by the next process; it is not worth failing for."""
        if self._written is None:
            return
        try:
            self._written.save(key, data)
        except OSError as error:
            _warn("compiled kernels could not be cached", folder=self._written._cache_path, error=str(error))

    def _read(self, look: Callable[[Any], Any]) -> Iterator[Any]:
        for folder, file in self._files.items():
            try:
                yield look(file)
            except UNREADABLE as error:
                log.debug("cached kernel not readable", folder=folder, error=str(error))


class KernelCache(FunctionCache):
    """The cache of one kernel; `stamp` changes whenever a file that it depends on does."""

    _impl_class = _Implementation

    def __init__(self, function: Any, stamp: object) -> None:
        super().__init__(function)
        # numba would take another one if NUMBA_CACHE_LOCATOR_CLASSES is set.
        self._impl._locator = self._locator = Locator(function, inspect.getfile(function))
        stamps = self._locator.get_source_stamp(), stamp
        self._cache_file = _Files(self._locator, self._impl.filename_base, stamps)

    @property
    def folder(self) -> str | None:
        """Where what is compiled is written, if anywhere."""
        return self._locator.writable

    def save_overload(self, signature: Any, data: Any) -> None:
        if self.folder is None:
            _warn(IN_MEMORY)
        super().save_overload(signature, data)

    def has(self, signature: Any, codegen: Any) -> bool:
        return self._cache_file.has(self._index_key(signature, codegen))


@cache
def _warn(event: str, **fields: str) -> None:
    """Once for each folder: there are dozens of kernels."""
    log.warning(event, **fields)
