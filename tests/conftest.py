"""What holds for all tests."""

import gc
import logging
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from argosy.base import logs

# Their turn comes first. Workers take from the end of one another's lists, so what begins first is begun by one worker:
# the mutants are hunted once, and journeys, which wait more than they compute, have others computing beside them.
# Of these the longest go ahead, lest one of them is all that is left in the end.
FIRST = (
    "tests/throttle/mutants/",
    "tests/journeys/test_search_fleet",
    "tests/journeys/test_content_index",
    "tests/journeys/test_jobs_survive",
    "tests/newcomer/",
    "tests/journeys/",
)


def pytest_configure() -> None:
    """A suite started in the background ignores SIGINT, and every process it starts would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _be_patient()


def _be_patient() -> None:
    """Examples may take as long as a busy machine makes them: a property is about what holds, not how fast."""
    if settings.get_current_profile_name() == "default":
        settings.register_profile("patient", deadline=None)
        settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Twelve thousand tests are made and none is thrown away: looking for garbage among them only takes time."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        if is_on:
            gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, place in enumerate(FIRST) if item.nodeid.startswith(place)), len(FIRST))


@pytest.fixture(autouse=True)
def logging_as_before() -> Generator[None]:
    """A command that a test runs in this process configures logging, which must not speak into another's output."""
    root, ours = logging.getLogger(), logging.getLogger("argosy")
    levels = root.level, ours.level
    yield
    for handler in [each for each in root.handlers if isinstance(each, logs._Handler)]:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
