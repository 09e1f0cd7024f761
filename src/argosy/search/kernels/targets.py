"""The CPU that kernels are compiled for.

Code for the exact model of this host would be useless on another model, in a container image or a shared directory.
x86-64 has levels on which LLVM, GCC and the distributions agree; level 3 (AVX2; Intel since 2013, AMD since 2015) is as
fast as code for the exact model, AVX-512 included (figures in decision 0040). For a CPU below that level, kernels are
compiled for the host itself, so that no host runs instructions it lacks. NUMBA_CPU_NAME overrides the choice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numba
from llvmlite import binding as llvm


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
    if target := select_target(architecture, llvm.get_host_cpu_features()):
        numba.config.CPU_NAME, numba.config.CPU_FEATURES = target.name, ""
