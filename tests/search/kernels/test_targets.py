"""Kernels are compiled for a level of CPUs, not for this model; a CPU below it is compiled for as it is."""

import os
import subprocess
import sys

import pytest

from argosy.search.kernels.compiler import PORTABLE, select_target
from argosy.search.kernels.spans import documents_of

LEVEL_3 = dict.fromkeys(PORTABLE["x86_64"].needs, True)
PROGRAM_S_MAX = 120.0


def test_a_cpu_of_level_3_and_one_beyond_run_the_same_code() -> None:
    assert select_target("x86_64", LEVEL_3) is PORTABLE["x86_64"]
    assert select_target("x86_64", {**LEVEL_3, "avx512f": True, "avx512bw": True}) is PORTABLE["x86_64"]


@pytest.mark.parametrize("feature", PORTABLE["x86_64"].needs)
def test_a_cpu_that_lacks_a_feature_is_compiled_for_as_it_is(feature: str) -> None:
    assert select_target("x86_64", {**LEVEL_3, feature: False}) is None
    assert select_target("x86_64", {name: True for name in LEVEL_3 if name != feature}) is None


def test_arm_has_a_target_and_unknown_architectures_none() -> None:
    target = select_target("aarch64", {})
    assert target is not None
    assert target.name == "generic"
    assert select_target("riscv64", {}) is None


def test_cached_kernels_are_found_by_the_target_and_not_by_this_cpu() -> None:
    _, name, features = documents_of.targetctx.codegen().magic_tuple()  # type: ignore[attr-defined]
    assert (name, features) in {(target.name, "") for target in PORTABLE.values()}


def test_code_for_another_cpu_is_not_loaded() -> None:
    program = """
import llvmlite.binding as llvm
from llvmlite.binding.targets import FeatureMap
llvm.get_host_cpu_features = lambda: FeatureMap({"sse2": True})         # an old one
from argosy.search.kernels import compiler
from argosy.search.kernels.spans import documents_of
assert not compiler.is_cached(documents_of)
assert documents_of.targetctx.codegen().magic_tuple()[1] == llvm.get_host_cpu_name()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=dict(os.environ), capture_output=True, text=True, timeout=PROGRAM_S_MAX
    )
    assert (done.returncode, done.stderr) == (0, "")
