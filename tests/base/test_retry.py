"""Trying again: bounded, spread out, and only where it can help."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.clock import seeded_random
from argosy.base.errors import Conflict, Fenced, Invalid, Unavailable
from argosy.base.retry import Backoff, retry


class Attempts:
    """Fails with each of `errors` in turn, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_a_success_is_returned_without_waiting(clock) -> None:
    attempts = Attempts()
    assert await retry(attempts, Backoff(), clock=clock, random=seeded_random(1)) == "done"
    assert (attempts.count, clock.slept) == (1, [])


async def test_unavailable_is_tried_again_until_it_works(clock) -> None:
    attempts = Attempts(Unavailable("a"), Unavailable("b"))
    assert await retry(attempts, Backoff(), clock=clock, random=seeded_random(1)) == "done"
    assert attempts.count == 3
    assert len(clock.slept) == 2


async def test_the_last_failure_rises_once_the_attempts_are_spent(clock) -> None:
    attempts = Attempts(*[Unavailable(str(n)) for n in range(9)])
    with pytest.raises(Unavailable, match="2"):
        await retry(attempts, Backoff(attempts_max=3), clock=clock, random=seeded_random(1))
    assert attempts.count == 3
    assert len(clock.slept) == 2


async def test_one_attempt_means_no_retry(clock) -> None:
    attempts = Attempts(Unavailable("a"))
    with pytest.raises(Unavailable):
        await retry(attempts, Backoff(attempts_max=1), clock=clock, random=seeded_random(1))
    assert (attempts.count, clock.slept) == (1, [])


@pytest.mark.parametrize("error", [Fenced("replaced"), Conflict("late"), Invalid("wrong"), ValueError("bug")])
async def test_errors_retrying_cannot_fix_are_raised_at_once(clock, error: Exception) -> None:
    attempts = Attempts(error)
    with pytest.raises(type(error)):
        await retry(attempts, Backoff(), clock=clock, random=seeded_random(1))
    assert (attempts.count, clock.slept) == (1, [])


def test_the_ceiling_doubles_until_it_is_reached() -> None:
    backoff = Backoff(first_s=0.1, ceiling_s=1.0)
    assert [backoff.ceiling(n) for n in range(1, 6)] == [0.1, 0.2, 0.4, 0.8, 1.0]


def test_a_long_outage_does_not_overflow() -> None:
    assert Backoff(ceiling_s=5.0).ceiling(1_000_000) == 5.0


@given(failures=st.integers(1, 100), seed=st.integers())
def test_a_wait_is_in_the_upper_half_of_the_ceiling(failures: int, seed: int) -> None:
    backoff = Backoff()
    ceiling = backoff.ceiling(failures)
    assert ceiling / 2 <= backoff.delay(failures, seeded_random(seed)) <= ceiling


@pytest.mark.parametrize(
    "wrong", [{"first_s": 0}, {"first_s": 9, "ceiling_s": 5}, {"factor": 0.5}, {"attempts_max": 0}]
)
def test_an_invalid_backoff_is_rejected(wrong: dict) -> None:
    with pytest.raises(Invalid):
        Backoff(**wrong)
