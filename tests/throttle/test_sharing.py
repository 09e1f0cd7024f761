"""Instances that share their state, in virtual time: convergence, delay, skew, partitions, outages and lost data."""

from dataclasses import replace
from math import exp
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.throttle import Config, FairThrottle, Outcome
from argosy.throttle.exchange import ExchangeReplied
from argosy.throttle.settings import ThrottleSettings
from tests.throttle.world import WAY_S, World, buckets, difference

SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE
EQUAL = 1e-9  # what remains is the order of additions
SETTLED_S = 3.0  # a flush, a poll and some way


class Act(NamedTuple):
    """A request of one client to one instance, and its outcome if it is admitted."""

    after_s: float
    instance: int
    client: str
    outcome: Outcome
    cost: float = 1.0


def acts(instances: int, size: int = 60) -> st.SearchStrategy[list[Act]]:
    return st.lists(
        st.builds(
            Act,
            after_s=st.sampled_from([0.0, 0.001, 0.1, 0.7, 3.0]),
            instance=st.integers(0, instances - 1),
            client=st.sampled_from(["a", "b", "c", "d"]),
            outcome=st.sampled_from([FAILURE, FAILURE, SUCCESS]),
            cost=st.sampled_from([1.0, 5.0]),
        ),
        max_size=size,
    )


def play(world: World, throttles: list[FairThrottle], script: list[Act]) -> list[tuple[bool, float]]:
    """Plays a script, and returns the decisions."""
    decisions = []
    for act in script:
        world.advance(world.now + act.after_s)
        throttle = throttles[act.instance]
        decision = throttle.register(act.client, act.cost)
        decisions.append((decision.throttled, decision.probability))
        if not decision.throttled:
            throttle.report(act.client, act.outcome, act.cost)
    return decisions


def blame(throttle: FairThrottle, client: str, failures: int) -> None:
    for _ in range(failures):
        throttle.report(client, FAILURE)


def probability(throttle: FairThrottle, client: str) -> float:
    return throttle.explain(client).probability


# -- one instance -----------------------------------------------------------------------------------------------------


@given(script=acts(1), delay_s=st.sampled_from([0.0, 0.01, 0.4, 1.5, 20.0]), flush_s=st.sampled_from([0.05, 0.25, 2.0]))
@settings(max_examples=60, deadline=None)
def test_with_rebase_one_instance_decides_as_if_it_shared_nothing(
    script: list[Act], delay_s: float, flush_s: float
) -> None:
    """Bit for bit, however late its writes land and its answers come."""
    pace = ThrottleSettings(flush_s=flush_s, poll_s=max(1.0, flush_s))
    world, lonely = World(delay_s=delay_s, settings=pace), World()
    shared, alone = world.add().throttle, lonely.unshared_throttle()
    assert play(world, [shared], script) == play(lonely, [alone], script)
    assert buckets(shared) == buckets(alone)
    world.advance(world.now + 60)
    assert buckets(shared) == buckets(alone)


def test_with_overwrite_a_late_write_is_undone_for_a_while() -> None:
    """The race that the document describes, which is why overwriting is not the default."""
    dips = {name: lowest(name) for name in ("overwrite", "rebase")}
    assert dips["rebase"] == pytest.approx(0.8 * exp(-0.04), abs=0.01)  # time alone has forgiven
    assert dips["overwrite"] == pytest.approx(0.4, abs=0.02)


def lowest(squash: str) -> float:
    """The least probability that a client has after its second batch of failures, while answers are slow."""
    world = World(delay_s=0.5, settings=ThrottleSettings(flush_s=0.1, poll_s=0.1, squash=squash))
    throttle = world.add().throttle
    blame(throttle, "a", 10)
    world.advance(0.3)  # the first batch is in flight
    blame(throttle, "a", 10)
    found = []
    while world.now < 4:
        world.advance(world.now + 0.05)
        found.append(probability(throttle, "a"))
    return min(found)


# -- many instances ---------------------------------------------------------------------------------------------------


@given(script=acts(3), delay_s=st.sampled_from([0.0, 0.05, 0.6]))
@settings(max_examples=40, deadline=None)
def test_instances_converge_once_writes_stop(script: list[Act], delay_s: float) -> None:
    world = World(delay_s=delay_s, settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    throttles = [world.add().throttle for _ in range(3)]
    play(world, throttles, script)
    world.advance(world.now + SETTLED_S + 6 * delay_s)
    assert max(difference(throttles[0], other) for other in throttles[1:]) <= EQUAL  # THR-1
    assert set(buckets(throttles[0])) == set(buckets(throttles[2]))


@pytest.mark.parametrize("squash", ["rebase", "overwrite", "skip"])
def test_a_noisy_client_is_known_everywhere_within_a_flush_and_a_poll(squash: str) -> None:
    world = World(settings=ThrottleSettings(flush_s=0.25, poll_s=1.0, squash=squash))
    first, *others = [world.add().throttle for _ in range(8)]
    world.advance(2.0)
    blame(first, "noisy", 20)
    world.advance(world.now + 0.25 * 1.1 + 1.0 * 1.1 + 0.1)
    assert [probability(other, "noisy") for other in others] == pytest.approx([0.8] * 7, abs=0.02)
    assert [other.register("quiet").throttled for other in others] == [False] * 7


def test_changes_of_all_add_up_and_are_counted_once() -> None:
    world = World(Config(decay_per_s=0.0))
    throttles = [world.add().throttle for _ in range(5)]
    for throttle in throttles:
        blame(throttle, "a", 2)
    world.advance(SETTLED_S)
    assert [probability(throttle, "a") for throttle in throttles] == pytest.approx([0.4] * 5)
    world.advance(100)
    assert [probability(throttle, "a") for throttle in throttles] == pytest.approx([0.4] * 5)


@given(script=acts(3, size=40), skews=st.tuples(*[st.sampled_from([0.0, -30.0, -3.0, 5.0, 29.0])] * 3))
@settings(max_examples=40, deadline=None)
def test_skewed_clocks_are_corrected_and_delete_nothing(script: list[Act], skews: tuple[float, ...]) -> None:
    world = World(settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    instances = [world.add(skew_s=skew) for skew in skews]
    world.advance(SETTLED_S)
    throttles = [instance.throttle for instance in instances]
    play(world, throttles, script)
    world.advance(world.now + SETTLED_S)
    assert len({throttle.seeds for throttle in throttles}) == 1
    assert max(difference(throttles[0], other) for other in throttles[1:]) <= EQUAL


@given(
    script=acts(2, size=40),
    faults=st.lists(st.sampled_from(["away", "back", "deaf", "forget", "cut", "reconnect", "skew"]), max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_under_random_faults_probabilities_stay_valid_and_instances_converge_afterwards(
    script: list[Act], faults: list[str]
) -> None:
    world = World(settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    instances = [world.add() for _ in range(2)]
    throttles = [instance.throttle for instance in instances]
    for number in range(max(len(faults), 1)):
        inflict(world, faults[number] if faults else "back")
        share = len(script) // max(len(faults), 1) + 1
        play(world, throttles, script[number * share : (number + 1) * share])
        for throttle in throttles:
            assert all(0 <= prob <= 1 for prob, _ in buckets(throttle).values())  # THR-1
    world.is_store_down = world.loses_replies = instances[0].is_cut_off = False
    instances[0].clock.skew_s = 0.0
    world.advance(world.now + 20)
    assert difference(*throttles) <= 0.01 + EQUAL  # what is below that is not restored
    assert not any(instance.storage.status(world.now).is_unreachable for instance in instances)


def inflict(world: World, fault: str) -> None:
    first = world.instances[0]
    match fault:
        case "away" | "back":
            world.is_store_down = fault == "away"
            world.loses_replies = False
        case "deaf":
            world.loses_replies = True
        case "forget":
            world.store.forget()
        case "cut" | "reconnect":
            first.is_cut_off = fault == "cut"
        case "skew":
            first.clock.skew_s = 4.0


def test_a_lost_answer_does_not_count_a_batch_twice() -> None:
    world = World(Config(decay_per_s=0.0), settings=ThrottleSettings(flush_s=0.25, poll_s=0.5, attempts_max=10))
    one, two = world.add(), world.add()
    world.advance(1.0)
    world.loses_replies = True
    blame(one.throttle, "a", 5)
    world.advance(1.6)
    world.loses_replies = False
    world.advance(10)
    assert one.storage.counters.duplicates > 0
    assert [probability(each.throttle, "a") for each in (one, two)] == pytest.approx([0.2, 0.2])


# -- the store is unavailable -----------------------------------------------------------------------------------------


def test_while_the_store_is_unavailable_each_instance_stands_for_all() -> None:
    world = World(settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    throttles = [world.add().throttle for _ in range(4)]
    for throttle in throttles:
        blame(throttle, "known", 1)
    world.advance(3.0)
    assert {throttle.stats().gain for throttle in throttles} == {1.0}
    world.is_store_down = True
    for throttle in throttles:
        blame(throttle, "known", 1)
    world.advance(10.0)
    assert {throttle.stats().gain for throttle in throttles} == {4}
    blame(throttles[0], "new", 1)
    assert probability(throttles[0], "new") == pytest.approx(0.16)
    world.is_store_down = False
    world.advance(20.0)
    assert {throttle.stats().gain for throttle in throttles} == {1.0}


def test_state_learnt_during_an_outage_is_not_added_up_afterwards() -> None:
    """Each stood for all, so the sum would blame twice; both then have the greater of the two."""
    world = World(Config(decay_per_s=0.0), settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    one, two = world.add(), world.add()
    world.is_store_down = True
    world.advance(10.0)
    blame(one.throttle, "a", 10)
    blame(two.throttle, "a", 6)
    world.advance(60.0)
    assert one.storage.status(world.now).queue == 0
    assert one.storage.counters.dropped > 0
    world.is_store_down = False
    world.advance(80.0)
    assert [probability(each.throttle, "a") for each in (one, two)] == pytest.approx([0.4, 0.4])


def test_an_instance_can_start_without_the_store_and_join_later() -> None:
    world = World(Config(decay_per_s=0.0), settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    world.is_store_down = True
    one, two = world.add(), world.add()
    world.advance(30)
    blame(one.throttle, "a", 10)
    assert one.throttle.register("b").throttled is False
    world.is_store_down = False
    world.advance(40)
    blame(one.throttle, "a", 10)
    world.advance(45)
    assert probability(two.throttle, "a") == pytest.approx(0.8)


def test_a_new_instance_pulls_the_shared_state_first() -> None:
    world = World()
    old = world.add().throttle
    blame(old, "noisy", 20)
    world.advance(5.0)
    new = world.add()
    world.advance(world.now + 2 * WAY_S)  # one exchange, there and back
    assert isinstance(world.replies[new.name][0], ExchangeReplied)
    assert probability(new.throttle, "noisy") == pytest.approx(probability(old, "noisy"))


# -- the store loses data ---------------------------------------------------------------------------------------------


def test_a_store_that_lost_its_data_is_restored_and_no_client_is_pardoned() -> None:
    world = World(settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    throttles = [world.add().throttle for _ in range(3)]
    for throttle in throttles:
        blame(throttle, "noisy", 7)
    world.advance(5.0)
    world.store.forget()
    least = 1.0
    while world.now < 15.0:
        world.advance(world.now + 0.1)
        least = min(least, *(probability(throttle, "noisy") for throttle in throttles))
        blame(throttles[0], "other", 1)  # so that the rows are created again at once
    assert least == pytest.approx(0.84 * exp(-0.01 * world.now), abs=0.01)  # time alone has forgiven
    assert world.instances[0].storage.counters.losses > 0
    newcomer = world.add().throttle
    world.advance(20.0)
    assert probability(newcomer, "noisy") == pytest.approx(probability(throttles[0], "noisy"), abs=EQUAL)


def test_without_that_a_reply_would_lower_everybodys_view() -> None:
    world = World()
    throttle = world.add().throttle
    blame(throttle, "noisy", 20)
    world.advance(5.0)
    seed = throttle.seeds[0]
    world.store.forget()
    blame(throttle, "noisy", 1)
    instance = world.instances[0]
    world.advance(world.now + 1.2)
    assert instance.storage.counters.losses == 6
    assert probability(throttle, "noisy") > 0.7
    assert seed == throttle.seeds[0]


# -- rotation ---------------------------------------------------------------------------------------------------------


def test_the_shared_next_window_is_warm_on_every_instance() -> None:
    world = World(Config(decay_per_s=0.0, window_s=60), settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    one, two = world.add().throttle, world.add().throttle
    blame(one, "noisy", 20)
    world.advance(59.0)
    assert probability(two, "noisy") == pytest.approx(0.8)
    world.advance(61.0)
    assert two.seeds == one.seeds
    assert probability(two, "noisy") == pytest.approx(0.8)
    world.advance(125.0)
    assert probability(two, "noisy") == 0.0


def test_rows_expire_three_windows_after_their_first_write() -> None:
    world = World(Config(window_s=10), settings=ThrottleSettings(flush_s=0.25, poll_s=0.5))
    throttle = world.add().throttle
    seed = throttle.seeds[0]
    blame(throttle, "a", 5)
    world.advance(5.0)
    blame(throttle, "a", 5)
    cell = (seed, 0)
    world.advance(29.0)
    assert world.store.states(cell)  # type: ignore[arg-type]
    world.advance(31.5)
    assert not world.store.states(cell)  # type: ignore[arg-type]


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_a_full_queue_costs_changes_and_nothing_else() -> None:
    world = World()
    small = replace(world.settings, queue_max=3)
    one = world.add(settings=small)
    for number in range(50):
        blame(one.throttle, f"c{number}", 1)
    world.advance(5.0)
    assert one.member.refused > 0
    assert one.throttle.register("c1").probability == pytest.approx(0.04, abs=0.003)
