"""How kernels are compiled: once, by signature, cached on disk (`cache.py`), without the GIL.

A kernel states its argument types: calling it with others is an error, not a compilation. Its code is loaded from the
cache at its first call, which takes a few milliseconds, so that a program loads what it calls and no more. A kernel
that is not cached is compiled at its first call, which takes up to seconds; `worker.py` compiles beforehand. Arrays of
an index are read-only (`frozen`), scratch arrays are not, and the signature says which. A kernel's own helpers stand in
its own file: the cache notices an edited file, not an edited callee. What several files share stands in `SHARED`, and
an edit there is noticed too.

Index with `np.uintp` and cast bytes with `np.uint8`: signed indices make numba emit wrap-around checks, and a scan has
a twentieth of its speed.
"""

import hashlib
from collections.abc import Callable, Collection
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

from argosy.search.kernels import targets
from argosy.search.kernels.cache import KernelCache

_F = TypeVar("_F", bound=Callable[..., Any])

BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
SHORTS = numba.types.Array(numba.uint16, 1, "C", readonly=True)
WORDS = numba.types.Array(numba.uint32, 1, "C", readonly=True)
LONGS = numba.types.Array(numba.uint64, 1, "C", readonly=True)
INTS = numba.types.Array(numba.int32, 1, "C", readonly=True)
TABLE = numba.types.Array(numba.int64, 2, "C", readonly=True)  # a row per segment

SHARED = ("machine.py", "spelling.py")

# Before the first kernel is declared: numba asks for its target then.
targets.use_portable()

_signatures: dict[Any, Any] = {}  # of the kernels that are not loaded yet


def kernel(signature: Any) -> Callable[[_F], _F]:
    """A compiled function with exactly this signature."""
    compiled: Callable[[_F], Any] = numba.njit(nogil=True, boundscheck=False, error_model="numpy")

    def declare(function: _F) -> _F:
        dispatcher = compiled(function)
        if dispatcher is function:  # numba is switched off
            return function
        _signatures[dispatcher] = signature
        dispatcher._cache = KernelCache(function, _shared_stamp())
        # Called by numba where nothing is compiled yet for the arguments of a call.
        dispatcher._compile_for_args = partial(_load_at_call, dispatcher)
        return cast(_F, dispatcher)

    return declare


@cache
def _shared_stamp() -> str:
    """Another one whenever a shared file is; numba does the same with a kernel's own file."""
    return hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in SHARED)).hexdigest()


def helper(function: _F) -> _F:
    """A function that only kernels of the same file call, or of any if it is in a shared one; it is compiled into
    them."""
    compiled: Any = numba.njit(nogil=True, boundscheck=False, error_model="numpy")(function)
    return cast(_F, compiled)


def name_of(dispatcher: Any) -> str:
    return str(dispatcher.py_func.__name__)


def not_loaded() -> list[Any]:
    """The kernels of all imported modules that this process has not loaded."""
    return list(_signatures)


def is_cached(dispatcher: Any) -> bool:
    signature = _signatures.get(dispatcher)
    return signature is None or dispatcher._cache.has(signature, dispatcher.targetctx.codegen())


def missing(names: Collection[str] | None = None) -> list[Any]:
    """The kernels, or those of them with these names, that no cache has; those named first come first."""
    found = [each for each in not_loaded() if (names is None or name_of(each) in names) and not is_cached(each)]
    if names is not None:
        order = {name: place for place, name in enumerate(names)}
        found.sort(key=lambda each: order[name_of(each)])
    return found


def load(dispatchers: Collection[Any]) -> None:
    """Loads kernels, and compiles what is not cached. A second thread waits for the first and finds it done."""
    for dispatcher in dispatchers:
        _load(dispatcher)


def load_cached() -> None:
    """Loads what is cached, and compiles nothing."""
    load([each for each in not_loaded() if is_cached(each)])


def _load_at_call(dispatcher: Any, *_: Any) -> Any:
    _load(dispatcher)
    return dispatcher  # which compiles no more, and refuses arguments of other types


def _load(dispatcher: Any) -> None:
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
