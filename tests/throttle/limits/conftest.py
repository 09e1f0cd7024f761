"""The clock that every test of the limits moves by hand, and one real Valkey per test process."""

from collections.abc import Iterator

import pytest

from tests.servers.valkey import Valkey
from tests.throttle.limits.stage import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="session")
def limits_valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server
