"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    """A suite started in the background ignores SIGINT, and every process it starts would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
