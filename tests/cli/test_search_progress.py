"""Work in its own thread: its result and errors are returned to the caller, and Ctrl-C does not wait."""

import signal
import sys
import threading
from io import StringIO

import pytest
from numba.core import event

from argosy.base.errors import Invalid
from argosy.cli.search import load_engine
from argosy.cli.search_progress import COMPILING, QUIET_S, TICK_S, ProgressView, SearchProgress, run_with_progress


def test_the_result_of_the_work_is_returned() -> None:
    seen = run_with_progress(lambda stage: (stage.task, threading.current_thread() is threading.main_thread()))
    assert seen == ("", False)


@pytest.mark.parametrize("error", [Invalid("fix it"), TimeoutError("its own"), MemoryError()])
def test_an_exception_of_the_work_is_raised(error: Exception) -> None:
    def fail(stage: SearchProgress) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run_with_progress(fail)
    assert raised.value is error


def test_an_interrupt_does_not_wait_for_the_work() -> None:
    stages, may_end, has_ended = [], threading.Event(), threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def stubborn(stage: SearchProgress) -> None:
        stages.append(stage)
        signal.raise_signal(signal.SIGINT)
        may_end.wait()
        has_ended.set()

    with pytest.raises(KeyboardInterrupt):
        run_with_progress(stubborn)
    assert signal.getsignal(signal.SIGINT) is before
    assert not has_ended.is_set()
    may_end.set()
    assert has_ended.wait(10)
    assert stages[0].cancelled.is_set()


def test_a_build_is_stopped_through_its_progress_callback() -> None:
    stage = SearchProgress()
    stage.on_progress(1, 2)
    assert stage.bytes == (1, 2)
    stage.cancelled.set()
    with pytest.raises(KeyboardInterrupt):
        stage.on_progress(2, 2)


def test_a_new_task_resets_the_progress_of_the_last() -> None:
    stage = SearchProgress("one", (5, 9))
    stage.begin("two")
    assert (stage.task, stage.bytes) == ("two", (0, 0))


def test_a_kernel_compiled_during_a_search_is_shown() -> None:
    """They all are by now, so numba is made to announce it once more."""
    stage = SearchProgress()
    load_engine(stage)
    assert not stage.is_compiling
    with event.trigger_event("numba:compile"):
        with event.trigger_event("numba:compile"):
            pass
        assert stage.is_compiling, "a helper is compiled within a kernel"
    assert not stage.is_compiling


def test_kernels_compiled_at_the_first_run_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    stage = SearchProgress("loading", is_compiling=True, compiled=(12, 40))
    with ProgressView(stage) as view:
        for _ in range(int(QUIET_S / TICK_S) + 1):
            view.draw()
    assert "compiling search kernels, first run only: 12/40" in screen.getvalue()


def test_a_long_wait_for_the_compiler_is_explained_once_even_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = SearchProgress("loading")
    with ProgressView(stage) as view:
        view.draw()
        assert capsys.readouterr().err == ""
        stage.is_compiling = True
        view.draw()
        view.draw()
        stage.is_compiling = False
        view.draw()
    assert capsys.readouterr().err == f"{COMPILING}\n"


class Screen(StringIO):
    """A terminal that records its output."""

    def isatty(self) -> bool:
        return True


def test_a_bar_shows_the_progress_from_its_first_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    stage = SearchProgress("indexing", (1_000_000, 10_000_000))
    with ProgressView(stage) as view:
        for _ in range(int(QUIET_S / TICK_S) + 1):
            view.draw()
    shown = screen.getvalue()
    assert "1.0/10.0 MB" in shown
    assert "bytes" not in shown  # the total is unknown


def test_a_warm_engine_is_loaded_silently(capsys: pytest.CaptureFixture[str]) -> None:
    load_engine(SearchProgress())
    stage = SearchProgress()
    with ProgressView(stage) as view:
        load_engine(stage)
        view.draw()
    assert not stage.is_compiling
    assert capsys.readouterr().err == ""
