"""Kernels are compiled by other processes: the essential ones before a node is ready, the others while it serves."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from argosy.gateway.ui.pages import EXAMPLES
from argosy.search.precompiler import ESSENTIAL, MODULE, Compilation, ProgressDisplay, import_all, warm
from tests.journeys.fleet import eventually

PROGRAM_S_MAX = 240.0


def run(program: str, *arguments: str, **changes: str) -> str:
    command = [sys.executable, "-c", dedent(program), *arguments]
    environ = {**os.environ, **changes}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PROGRAM_S_MAX)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_essential_kernels_are_those_that_a_first_index_and_the_example_searches_call(tmp_path: Path) -> None:
    """A missing one would be compiled during a request; a superfluous one delays every start."""
    warm()
    (tmp_path / "a.c").write_text("/* needle */\nint main(void) { return needle(1); }\n")
    (tmp_path / "a.py").write_text("class NeedleError:\n    def main(self):\n        return needle\n")
    (tmp_path / "README").write_text("needle\n")
    (tmp_path / "large.txt").write_text("needle and thread\n" * 20_000)  # its trigrams are counted
    (tmp_path / "a.ts").write_text("export class A { find(needle: string): string { return needle } }\n")
    used = run(
        """
        import sys
        from argosy.search import precompiler
        from argosy.search.backends.factory import open_source
        from argosy.search.index.build import build
        from argosy.search.kernels import compiler
        from argosy.search.model import Form, Options
        from argosy.search.query import parse
        from argosy.search.index_set import IndexSet
        from argosy.search.skip_policy import Policy

        precompiler.import_all()
        all_names = {compiler.name_of(each) for each in compiler.not_loaded()}
        index_set = IndexSet([build(open_source(sys.argv[1]), Policy())])
        for query in sys.argv[2:]:
            for form in (Form.CHUNKS, Form.LINES):
                assert index_set.search_now(parse(query).query, Options(form=form)).files, query
        print(*sorted(all_names - {compiler.name_of(each) for each in compiler.not_loaded()}))
        """,
        str(tmp_path),
        "needle",
        "needle or e",
        *EXAMPLES,
    )
    assert set(used.split()) == set(ESSENTIAL)


def test_no_two_kernels_have_one_name() -> None:
    """The cache distinguishes kernels by name."""
    names = run("""
        from argosy.search import precompiler
        from argosy.search.kernels import compiler
        precompiler.import_all()
        print(*(compiler.name_of(each) for each in compiler.not_loaded()))
    """).split()
    assert len(set(names)) == len(names) > len(ESSENTIAL)
    assert set(ESSENTIAL) < set(names)
    import_all()


def test_workers_do_nothing_where_all_is_cached() -> None:
    warm()
    progress: list[tuple[int, int]] = []
    with Compilation(everything=True, jobs=2) as compilation:
        compilation.wait(lambda done, total: progress.append((done, total)))
    assert progress == []


SHARED = """
    import sys
    from argosy.search import precompiler
    from argosy.search.kernels import compiler, selection
    names = ("blocks_within", "mark_documents", "mark_first_documents")
    loaded = []
    load = compiler.load
    compiler.load = lambda kernels: (loaded.extend(map(compiler.name_of, kernels)), load(kernels))
    done = []
    precompiler.compile_missing([k for k in compiler.not_loaded() if compiler.name_of(k) in names], done.append)
    assert sorted(done) == sorted(names), done
    print(*loaded)
"""


def test_processes_that_compile_at_once_share_the_work(tmp_path: Path) -> None:
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    hide = "import argosy.search.kernels.cache as c; c.InTreeCacheLocator = c.UserWideCacheLocator\n"
    command = [sys.executable, "-c", hide + dedent(SHARED)]
    both = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=PROGRAM_S_MAX)[0].split() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    compiled = [name for output in outputs for name in output]
    assert sorted(compiled) == ["blocks_within", "mark_documents", "mark_first_documents"]


def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})
from argosy.search.precompiler import Compilation
compilation = Compilation(everything=True, jobs=2, background=True)
print(*(worker.pid for worker in compilation._workers), flush=True)
sys.stdin.read()
"""
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    eventually(lambda: not any(map(is_running, workers)), within_s=PROGRAM_S_MAX, what="the workers have ended")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_stopped_compilation_leaves_no_process() -> None:
    compilation = Compilation(everything=True, jobs=2)
    compilation.stop()
    assert all(worker.poll() is not None for worker in compilation._workers)
    with compilation:
        compilation.wait()  # and no failure is reported


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown(is_terminal: bool) -> None:
    written: list[str] = []
    display = ProgressDisplay(is_terminal, written.append)
    for done in (*range(41), 40):
        display.show(done, 40)
    text = "".join(written)
    assert "40/40" in text
    if is_terminal:
        assert text.count("\n") == 1
        assert text.count("\r") == 41
    else:
        shown = [line.rpartition(" ")[2] for line in text.splitlines()]
        assert shown == ["0/40", "10/40", "20/40", "30/40", "40/40"]


@pytest.mark.parametrize("columns", [200, 80, 60, 30])
def test_the_bar_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that wraps is not overwritten by the next one, so every step would leave a line behind."""
    monkeypatch.setenv("COLUMNS", str(columns))
    written: list[str] = []
    display = ProgressDisplay(True, written.append)
    for done in range(44):
        display.show(done, 43, seconds=3 * done)
    lines = "".join(written).strip().split("\r")
    assert len(lines) == 44
    assert max(map(len, lines)) < columns
    assert ("[" in lines[0]) == (columns >= 80)


def test_what_was_compiled_in_the_background_is_loaded() -> None:
    warm()
    assert not run("""
        from argosy.search import precompiler
        from argosy.search.kernels import compiler
        from argosy.search.precompiler import Background

        precompiler.import_all()
        assert compiler.not_loaded()
        Background()._thread.join()
        assert not compiler.not_loaded()
    """)


def test_a_worker_is_a_command() -> None:
    done = subprocess.run([sys.executable, "-m", MODULE], capture_output=True, text=True, timeout=PROGRAM_S_MAX)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_while_a_worker_starts_prints_no_traceback() -> None:
    """The group of a terminal gets the signal, with workers that have not come as far as to ignore it."""
    program = """
import os, signal
from argosy.search.precompiler import Compilation
signal.signal(signal.SIGINT, lambda *_: None)
with Compilation(everything=False, jobs=2) as compilation:
    os.killpg(0, signal.SIGINT)
    compilation.wait()
print("done")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PROGRAM_S_MAX, start_new_session=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
