"""Declares kernels: functions compiled once for one signature, cached on disk (`cache.py`), without the GIL.

A kernel declares its argument types; a call with other types is an error, not a compilation. A kernel is loaded from
the cache at its first call, which takes a few milliseconds, so a program loads only what it calls. A kernel that is not
cached is compiled at its first call, which takes up to several seconds; `search/precompiler.py` compiles in advance.
Index arrays are read-only (`arrays.freeze`), scratch arrays are writable, and the signature says which is which. A
kernel's helpers are in its own file, because the cache notices an edited file but not an edited callee; helpers shared
by several files are in the files of `SHARED`, which the cache stamp covers.

Kernels are compiled for a level of CPUs, not for this host: code for its exact model would be useless on another model,
in a container image or a shared directory. x86-64 has levels on which LLVM, GCC and the distributions agree; level 3
(AVX2; Intel since 2013, AMD since 2015) is as fast as code for the exact model, AVX-512 included (figures in decision
0040). For a CPU below that level, kernels are compiled for the host itself, so that no host runs instructions it lacks.
NUMBA_CPU_NAME overrides the choice.

Index with `np.uintp` and cast bytes with `np.uint8`: with signed indices numba emits wrap-around checks that make a
scan twenty times slower.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding as llvm
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

from argosy.search.kernels.cache import KernelCache

_F = TypeVar("_F", bound=Callable[..., Any])

BYTES = numba.types.Array(numba.uint8, 1, "C", readonly=True)
SHORTS = numba.types.Array(numba.uint16, 1, "C", readonly=True)
WORDS = numba.types.Array(numba.uint32, 1, "C", readonly=True)
LONGS = numba.types.Array(numba.uint64, 1, "C", readonly=True)
INTS = numba.types.Array(numba.int32, 1, "C", readonly=True)
TABLE = numba.types.Array(numba.int64, 2, "C", readonly=True)  # a row per segment

SHARED = ("simd.py", "msgpack_writer.py")


@dataclass(frozen=True)
class CpuTarget:
    name: str  # as LLVM calls the CPU
    needs: tuple[str, ...]  # CPU features that the code requires


# By architecture, as in LLVM's triples. Every 64-bit ARM has the vector instructions that scans use.
PORTABLE = {
    "x86_64": CpuTarget(
        "x86-64-v3",
        ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse4.2", "ssse3"),
    ),
    "aarch64": CpuTarget("generic", ()),
}


def select_target(architecture: str, features: Mapping[str, bool]) -> CpuTarget | None:
    """The portable target if the CPU supports it; None to compile for the host CPU."""
    target = PORTABLE.get(architecture)
    return target if target and all(features.get(name) for name in target.needs) else None


def use_portable() -> None:
    """Sets the target. Must run before anything is compiled, because numba reads it once."""
    if numba.config.CPU_NAME is not None:
        return
    architecture = llvm.get_process_triple().partition("-")[0]
    # Without a target the config stays unset, and numba compiles for the host.
    if target := select_target(architecture, llvm.get_host_cpu_features()):
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = target.name, ""


# Before the first kernel is declared, because numba reads its target CPU then.
use_portable()

# Of kernels that are not loaded yet. This module and `cache.py` use private names of numba (`_cache`,
# `_compile_for_args`, `_load_overload`), because its public API compiles at import or at any call; a new version of
# numba must be tested against them, and pyproject.toml bounds its version.
_signatures: dict[Any, Any] = {}


def kernel(signature: Any) -> Callable[[_F], _F]:
    """Declares a compiled function with exactly this signature."""
    # No GIL, so that threads search in parallel; no bounds checks, which would cost a branch per byte; the numpy error
    # model, because numba would otherwise test every division for zero.
    compiled: Callable[[_F], Any] = numba.njit(nogil=True, boundscheck=False, error_model="numpy")

    def declare(function: _F) -> _F:
        dispatcher = compiled(function)
        if dispatcher is function:  # numba is switched off
            return function
        _signatures[dispatcher] = signature
        dispatcher._cache = KernelCache(function, _shared_stamp())
        # numba calls this when no compiled code matches the arguments of a call.
        dispatcher._compile_for_args = partial(_load_at_call, dispatcher)
        return cast(_F, dispatcher)

    return declare


@cache
def _shared_stamp() -> str:
    """Changes with the shared files; numba stamps a kernel's own file itself."""
    return hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in SHARED)).hexdigest()


def helper(function: _F) -> _F:
    """Declares a function that is compiled into the kernels that call it: those of its file, or any if it is shared."""
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
    """The kernels (or those with these names, in this order) that no cache directory has."""
    found = [each for each in not_loaded() if (names is None or name_of(each) in names) and not is_cached(each)]
    if names is not None:
        order = {name: place for place, name in enumerate(names)}
        found.sort(key=lambda each: order[name_of(each)])
    return found


def load(dispatchers: Collection[Any]) -> None:
    """Loads kernels; compiles those that are not cached. Concurrent calls wait for one another."""
    for dispatcher in dispatchers:
        _load(dispatcher)


def load_cached() -> None:
    """Loads the cached kernels; compiles nothing."""
    load([each for each in not_loaded() if is_cached(each)])


def _load_at_call(dispatcher: Any, *_: Any) -> Any:
    _load(dispatcher)
    return dispatcher  # now fixed to its signature: it rejects other argument types


def _load(dispatcher: Any) -> None:
    # The lock of numba itself: another thread may compile through numba's own entry points. It is reentrant, so a
    # kernel can be loaded while its caller is compiled.
    with global_compiler_lock:
        # Another thread has loaded it while this one waited.
        if dispatcher not in _signatures:
            return
        signature, context = _signatures[dispatcher], dispatcher.targetctx
        # As in numba, without `context.refresh()`: it imports everything that can be compiled, which takes longer than
        # loading all kernels, and compiled code needs only the runtime.
        rtsys.initialize(context)
        found = dispatcher._cache._load_overload(signature, context)
        if found is None:
            dispatcher.compile(signature)
        else:
            dispatcher.add_overload(found)
        # From here on other argument types are an error instead of a second compilation during a search.
        dispatcher.disable_compile()
        # Last, so that a failed compilation is tried again at the next call.
        del _signatures[dispatcher]
