"""Which CPU the kernels are compiled for.

Not for the model of this machine: code in a container image or in a shared folder would be of no use on another model.
x86-64 has levels, which LLVM, GCC and the distributions agree on; level 3 (AVX2; Intel since 2013, AMD since 2015) is
as fast here as code for the very model, AVX-512 included (decision 0040 has the figures). A CPU that lacks any of it is
compiled for as it is, so that no machine runs instructions it does not have. NUMBA_CPU_NAME overrides.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numba
from llvmlite import binding as llvm


@dataclass(frozen=True)
class Target:
    name: str  # as LLVM calls the CPU
    needs: tuple[str, ...]  # features a CPU must have to run the code


# By architecture, as LLVM's triples spell it. The vector instructions of the scans are in every 64-bit ARM.
PORTABLE = {
    "x86_64": Target(
        "x86-64-v3",
        ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "sse4.2", "ssse3"),
    ),
    "aarch64": Target("generic", ()),
}


def choose(architecture: str, features: Mapping[str, bool]) -> Target | None:
    """The portable target if such a CPU can run it; None if it has to be compiled for as it is."""
    target = PORTABLE.get(architecture)
    return target if target and all(features.get(name) for name in target.needs) else None


def use_portable() -> None:
    """To be called before anything is compiled, because numba reads it once."""
    if numba.config.CPU_NAME is not None:
        return
    architecture = llvm.get_process_triple().partition("-")[0]
    if target := choose(architecture, llvm.get_host_cpu_features()):
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = target.name, ""
