"""The number of random inputs: `pytest tests/search/oracle --oracle-rounds 100` runs a hundred times as many.

One round has the same inputs every time. More rounds have new ones in every run, and hypothesis prints how to
reproduce a failure.
"""

import pytest

from tests.search.oracle import rounds


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oracle-rounds", type=int, default=1, help="how many times as many inputs as usual")


def pytest_configure(config: pytest.Config) -> None:
    # The option is unknown when a run of everything meets this folder last.
    rounds.multiplier = config.getoption("--oracle-rounds", 1)
