"""Shared by all tests."""

import gc
import logging
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from argosy.base import logs

# These run first. Workers take from the end of one another's queues, so a test that runs first is run by one worker:
# the mutants are tested once, and the journeys, which mostly wait, overlap with tests that compute. The longest
# journeys go first, so that none of them is left alone at the end.
FIRST = (
    "tests/throttle/mutants/",
    "tests/journeys/test_search_fleet",
    "tests/journeys/test_content_index",
    "tests/journeys/test_jobs_survive",
    "tests/newcomer/",
    "tests/journeys/",
    "tests/docs/test_pages",
)


def pytest_configure() -> None:
    """A suite started in the background ignores SIGINT, and every process it starts would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _disable_deadlines()


def _disable_deadlines() -> None:
    """No deadline for examples: properties are about correctness, and a busy machine may be slow."""
    if settings.get_current_profile_name() == "default":
        settings.register_profile("patient", deadline=None)
        settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collection creates twelve thousand objects and frees none, so garbage collection would only cost time."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        if is_on:
            gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, place in enumerate(FIRST) if item.nodeid.startswith(place)), len(FIRST))


@pytest.fixture(autouse=True)
def restore_logging() -> Generator[None]:
    """Restores the configuration of logging after a test that runs a command in this process."""
    root, ours = logging.getLogger(), logging.getLogger("argosy")
    levels = root.level, ours.level
    yield
    for handler in [each for each in root.handlers if isinstance(each, logs._Handler)]:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
