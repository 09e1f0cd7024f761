"""Kernels on a read-only file system: cached ones are loaded, the others are compiled in memory."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.servers.read_only import environment, install, run, seal, unseal

PROGRAM_S_MAX = 240.0

ONE_KERNEL = dedent("""
    import logging, sys
    import numpy as np
    from numba.core import event
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    from argosy.search.arrays import (freeze)
    from argosy.search.kernels import compiler
    from argosy.search.kernels.spans import documents_of
    numbers = freeze(np.array([0, 5, 9], np.uint32))
    with event.install_recorder("numba:compile") as recorder:
        assert documents_of(numbers, numbers[:2]).tolist() == [0, 1]
    print("compiled" if recorder.buffer else "loaded", documents_of._cache.folder)
""")


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "home").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.py").write_text("def needle():\n    return 1\n")
    yield tmp_path
    unseal(tmp_path)


def test_a_search_runs_with_source_cache_and_home_read_only(layout: Path) -> None:
    python = install(layout / "prefix", with_kernels=True)
    seal(layout)
    environ = environment(layout / "home", NUMBA_CACHE_DIR=str(layout / "cache"))
    search = [str(python), "-m", "argosy.cli", "search", "needle", str(layout / "text")]
    done = run(search, environ, within_s=PROGRAM_S_MAX)
    assert (done.returncode, done.stderr) == (0, "")
    assert "needle" in done.stdout
    done = run([str(python), "-c", ONE_KERNEL], environ, within_s=PROGRAM_S_MAX)
    assert (done.stdout, done.stderr) == ("loaded None\n", "")


def test_what_is_neither_cached_nor_can_be_is_compiled_in_memory_with_a_warning(layout: Path) -> None:
    python = install(layout / "prefix", with_kernels=False)
    seal(layout)
    done = run([str(python), "-c", ONE_KERNEL], environment(layout / "home"), within_s=PROGRAM_S_MAX)
    assert done.stderr == ""
    warning, collector = done.stdout.splitlines()
    assert "no cache directory is writable; set NUMBA_CACHE_DIR" in warning
    assert collector == "compiled None"


def test_what_an_installation_lacks_is_written_to_the_users_cache(layout: Path) -> None:
    python = install(layout / "prefix", with_kernels=False)
    seal(layout / "prefix")
    for collector in ("compiled", "loaded"):
        done = run([str(python), "-c", ONE_KERNEL], environment(layout / "home"), within_s=PROGRAM_S_MAX)
        assert done.stderr == ""
        assert done.stdout.startswith(f"{collector} {layout}/home/")


def test_a_damaged_cache_is_no_error(layout: Path) -> None:
    python = install(layout / "prefix", with_kernels=True)
    for path in (layout / "prefix").rglob("spans.documents_of-*.nb?"):
        path.write_bytes(b"")
    seal(layout)
    done = run([str(python), "-c", ONE_KERNEL], environment(layout / "home"), within_s=PROGRAM_S_MAX)
    assert done.stderr == ""
    assert done.stdout.endswith("compiled None\n")
