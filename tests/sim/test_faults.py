"""Fault schedules are data, and their own record."""

import re

from argosy.base.clock import seeded_random
from argosy.sim import plan
from argosy.sim.link import Direction
from argosy.sim.plan import Crash, Drain, Fault, Join, draw_schedule

NODES = ("n1", "n2", "n3")


def draw(seed: int, count: int = 10) -> tuple[Fault, ...]:
    return draw_schedule(seeded_random(seed), NODES, ("x1",), faults=count, horizon_s=40.0, ttl_s=4.0)


def test_a_seed_always_gives_the_same_schedule_and_seeds_differ() -> None:
    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_a_printed_schedule_can_be_read_back() -> None:
    names = {name: getattr(plan, name) for name in dir(plan)} | {"Direction": Direction}
    for fault in draw(3, 50):
        text = re.sub(r"<(Direction\.\w+): '\w+'>", r"\1", repr(fault))
        assert eval(text, names) == fault


def test_every_fault_is_over_at_the_horizon() -> None:
    for seed in range(50):
        for fault in draw(seed):
            match fault:
                case Crash(restart_after_s=span_s) | Drain(restart_after_s=span_s):
                    assert span_s is not None
                case _:
                    span_s = getattr(fault, "for_s", 0.0)
            assert fault.at + span_s <= 40.0


def test_all_kinds_of_faults_are_drawn_in_order_of_time() -> None:
    schedule = draw(4, 200)
    assert {type(fault).__name__ for fault in schedule} == {
        "ClockSkew",
        "Crash",
        "Drain",
        "Join",
        "Lag",
        "Outage",
        "Partition",
        "Pause",
        "SlowLink",
    }
    assert [fault.at for fault in schedule] == sorted(fault.at for fault in schedule)
    assert sum(isinstance(fault, Join) for fault in schedule) == 1
