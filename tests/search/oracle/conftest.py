"""How long the oracle is asked: `pytest tests/search/oracle --oracle-rounds 100` is a hundred times the questions.

One round is the same questions every time. More rounds are new ones in every run, and hypothesis prints what it takes
to see a failure again.
"""

import pytest

from tests.search.oracle import rounds


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--oracle-rounds", type=int, default=1, help="how many times as many questions as usual to ask")


def pytest_configure(config: pytest.Config) -> None:
    # The option is unknown when a run of everything meets this folder last.
    rounds.multiplier = config.getoption("--oracle-rounds", 1)
