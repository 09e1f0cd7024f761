"""What holds for all tests."""

import signal

from hypothesis import settings


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
