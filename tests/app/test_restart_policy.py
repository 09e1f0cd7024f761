"""A node that dies is restarted with back-off; one that keeps dying at once stays down."""

from random import Random

from argosy.app.local_fleet import DEATHS_MAX, QUICK_DEATH_S, RESTART, RestartPolicy


def test_quick_deaths_are_restarted_ever_later_and_a_bounded_number_of_times() -> None:
    policy, random = RestartPolicy(), Random(1)
    delays = [policy.delay(0.1, random) for _ in range(DEATHS_MAX)]
    assert delays[-1] is None
    waits = [each for each in delays if each is not None]
    assert len(waits) == DEATHS_MAX - 1
    for number, wait in enumerate(waits, start=1):
        assert RESTART.ceiling(number) / 2 <= wait <= RESTART.ceiling(number)


def test_a_node_that_has_worked_is_restarted_soon_however_often() -> None:
    policy, random = RestartPolicy(), Random(1)
    for _ in range(3 * DEATHS_MAX):
        delay = policy.delay(QUICK_DEATH_S, random)
        assert delay is not None
        assert delay <= RESTART.first_s
