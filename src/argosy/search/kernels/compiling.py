"""How kernels are compiled: ahead of time by signature, cached on disk, without the GIL.

A kernel states its argument types, so that it is compiled (or loaded from the cache) when its module is imported and
never while a query waits; calling it with another type is an error, not a compilation. Arrays of an index are read-only
(`frozen`), scratch arrays are not, and the signature says which. A kernel's own helpers stand in its own file: the
cache notices an edited file, not an edited callee.

Index with `np.uintp` and cast bytes with `np.uint8`: signed indices make numba emit wrap-around checks, and the scan
drops from 4 GB/s to 0.2.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])

BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
SHORTS = numba.types.Array(numba.uint16, 1, "C", readonly=True)
WORDS = numba.types.Array(numba.uint32, 1, "C", readonly=True)
LONGS = numba.types.Array(numba.uint64, 1, "C", readonly=True)
INTS = numba.types.Array(numba.int32, 1, "C", readonly=True)


def kernel(signature: Any) -> Callable[[_F], _F]:
    """A compiled function with exactly this signature."""
    compiled: Callable[[_F], _F] = numba.njit(
        signature, nogil=True, cache=True, boundscheck=False, error_model="numpy"
    )
    return compiled


def helper(function: _F) -> _F:
    """A function that only kernels of the same file call; it is compiled into them."""
    compiled: Any = numba.njit(nogil=True, boundscheck=False, error_model="numpy")(function)
    return cast(_F, compiled)
