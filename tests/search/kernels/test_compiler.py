"""Kernels are loaded at their first call, once each, without the modules that only a compiler needs."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from argosy.search.arrays import freeze
from argosy.search.kernels.compiler import load_cached
from argosy.search.kernels.crc64 import TABLES, crc64
from argosy.search.kernels.spans import documents_of
from argosy.search.precompiler import warm
from tests.servers.read_only import SOURCE

PROGRAM_S_MAX = 120.0  # a hang is an error, a slow machine is none


def complaint_of(program: str) -> str:
    """The output of a new interpreter where no kernel is loaded and all are compiled."""
    warm()
    command = [sys.executable, "-c", dedent(program)]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=PROGRAM_S_MAX)
    return done.stderr or ("" if done.returncode == 0 else f"it ended with {done.returncode}")


def test_a_kernel_that_is_not_called_is_not_loaded() -> None:
    assert not complaint_of("""
        import sys
        import numpy as np
        from argosy.search.arrays import (freeze)
        from argosy.search.kernels.spans import documents_of, without_overlaps

        numbers = freeze(np.array([0, 5, 9], np.uint32))
        assert not documents_of.overloads
        assert documents_of(numbers, numbers[:2]).tolist() == [0, 1]
        assert len(documents_of.overloads) == 1
        assert not without_overlaps.overloads
        assert "numba.np.npyimpl" not in sys.modules, "all that can be compiled was loaded"
    """)


def test_threads_that_call_a_kernel_first_load_it_once() -> None:
    assert not complaint_of("""
        import threading
        from concurrent.futures import ThreadPoolExecutor
        import numpy as np
        from argosy.search.arrays import (freeze)
        from argosy.search.kernels.spans import documents_of

        numbers, together = freeze(np.array([0, 5, 9], np.uint32)), threading.Barrier(8)

        def ask(_):
            together.wait()
            return documents_of(numbers, numbers[:2]).tolist()

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(8))) == [[0, 1]] * 8
        assert len(documents_of.overloads) == 1
    """)


def test_with_a_full_cache_no_kernel_is_missing_and_the_check_loads_none() -> None:
    assert not complaint_of("""
        from argosy.search import precompiler
        from argosy.search.kernels import compiler
        from argosy.search.kernels.scan import scan

        precompiler.import_all()
        assert not compiler.missing()
        assert not scan.overloads
    """)


def test_other_types_are_rejected() -> None:
    words = freeze(np.array([0, 5], np.uint32))
    with pytest.raises(TypeError, match="No matching definition"):
        documents_of(words.astype(np.int64), words)
    assert documents_of(words, words[:1]).tolist() == [0]


def test_a_loaded_kernel_stays_loaded() -> None:
    data = freeze(np.frombuffer(b"123456789", np.uint8))
    checksum = crc64(data, 0, 9, TABLES)
    warm()
    load_cached()
    assert crc64(data, 0, 9, TABLES) == checksum


def test_what_is_cached_is_not_used_when_a_shared_file_has_been_edited() -> None:
    assert not complaint_of("""
        import argosy.search.kernels.compiler as compiler

        from argosy.search.kernels.encode_lines import encode_lines
        assert compiler.is_cached(encode_lines)
        compiler._shared_stamp = lambda: "edited"
        from argosy.search.kernels.encode_chunks import encode_chunks
        assert not compiler.is_cached(encode_chunks)
    """)


def test_kernels_load_where_the_locale_cannot_decode_the_path(tmp_path: Path) -> None:
    """numba encodes the path as UTF-8, and the bytes of one that the locale cannot decode have no such encoding."""
    (tmp_path / "Büro").symlink_to(SOURCE.parent, target_is_directory=True)
    environ = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "Büro"),
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
    }
    program = "import argosy; from argosy.search.kernels import trigrams; print(ascii(trigrams.__file__))"
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "udcc3" in done.stdout
