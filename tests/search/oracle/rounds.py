"""The number of random inputs of a property: some hundreds of fixed ones, or many new ones (see conftest)."""

from collections.abc import Callable
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

multiplier = 1


def given_random(examples: int) -> Callable[[Callable[[Random], None]], Callable[[], None]]:
    """Runs the test with so many random generators from hypothesis. `reduction` shrinks a failure."""
    is_usual = multiplier == 1
    bounds = settings(
        max_examples=examples * multiplier,
        deadline=None,
        phases=[Phase.generate],
        derandomize=is_usual,
        database=None,
        print_blob=not is_usual,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    return lambda test: bounds(given(st.randoms(use_true_random=False))(test))
