"""How kernels are compiled: once, by signature, cached on disk, without the GIL.

A kernel states its argument types: calling it with others is an error, not a compilation. Its code is loaded from the
cache at its first call, which takes a few milliseconds, so that a program loads what it calls and no more; `warm`
compiles all there are beforehand, so that no query waits for the compiler. Arrays of an index are read-only (`frozen`),
scratch arrays are not, and the signature says which. A kernel's own helpers stand in its own file: the cache notices an
edited file, not an edited callee. What several files share stands in `SHARED`, and whatever is edited there is noticed.

Index with `np.uintp` and cast bytes with `np.uint8`: signed indices make numba emit wrap-around checks, and a scan has
a twentieth of its speed.
"""

import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

_F = TypeVar("_F", bound=Callable[..., Any])

BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
SHORTS = numba.types.Array(numba.uint16, 1, "C", readonly=True)
WORDS = numba.types.Array(numba.uint32, 1, "C", readonly=True)
LONGS = numba.types.Array(numba.uint64, 1, "C", readonly=True)
INTS = numba.types.Array(numba.int32, 1, "C", readonly=True)
TABLE = numba.types.Array(numba.int64, 2, "C", readonly=True)          # a row per segment

SHARED = ("machine.py", "spelling.py")

_signatures: dict[Any, Any] = {}        # of the kernels that are not loaded yet


def kernel(signature: Any) -> Callable[[_F], _F]:
    """A compiled function with exactly this signature."""
    compiled: Callable[[_F], Any] = numba.njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")

    def made(function: _F) -> _F:
        dispatcher = compiled(function)
        if dispatcher is function:      # numba is switched off
            return function
        _signatures[dispatcher] = signature
        file = dispatcher._cache._cache_file
        file._source_stamp = file._source_stamp, _shared_stamp()
        # Asked for what to call, where nothing is compiled yet for the arguments of a call.
        dispatcher._compile_for_args = partial(_loaded, dispatcher)
        return cast(_F, dispatcher)

    return made


@cache
def _shared_stamp() -> str:
    """Another one whenever a shared file is; numba does the same with a kernel's own file."""
    return hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in SHARED)).hexdigest()


def helper(function: _F) -> _F:
    """A function that only kernels of the same file call, or of any if it is in a shared one; it is compiled into
    them."""
    compiled: Any = numba.njit(nogil=True, boundscheck=False, error_model="numpy")(function)
    return cast(_F, compiled)


def load_all(share: int = 0, of: int = 1) -> None:
    """Loads the kernels of all modules that are imported, or a share; what the cache does not have is compiled."""
    for dispatcher in list(_signatures)[share::of]:
        _load(dispatcher)


def compile_missing() -> None:
    """Compiles what the cache does not have, and loads nothing else."""
    for dispatcher, signature in list(_signatures.items()):
        cache = dispatcher._cache
        if cache._index_key(signature, dispatcher.targetctx.codegen()) not in cache._cache_file._load_index():
            _load(dispatcher)


def _loaded(dispatcher: Any, *_: Any) -> Any:
    _load(dispatcher)
    return dispatcher                   # which compiles no more, and refuses arguments of other types


def _load(dispatcher: Any) -> None:
    """Whoever comes second waits for the first and finds it done."""
    with global_compiler_lock:
        if dispatcher not in _signatures:
            return
        signature, context = _signatures[dispatcher], dispatcher.targetctx
        # As numba does it, but for `context.refresh()`: that imports everything that can be compiled, which takes
        # longer than to load all the kernels, and what is compiled already needs only the runtime.
        rtsys.initialize(context)
        found = dispatcher._cache._load_overload(signature, context)
        if found is None:
            dispatcher.compile(signature)
        else:
            dispatcher.add_overload(found)
        dispatcher.disable_compile()
        del _signatures[dispatcher]
