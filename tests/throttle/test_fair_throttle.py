"""`FairThrottle`: decisions, outcomes, shares, and the guarantee that nothing waits."""

import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.clock import seeded_random
from argosy.base.errors import Invalid
from argosy.base.metrics import Metrics
from argosy.throttle import Config, FairThrottle, Outcome, fair_throttle, mean
from argosy.throttle.model import ADMITTED, COST_MAX, ClientId
from argosy.throttle.ports import BucketDelta, OverwriteBucket, RespBucket, RowId

SUCCESS, FAILURE = Outcome.SUCCESS, Outcome.FAILURE
START_S = 1_700_000_100.0


class HandClock:
    """A clock set by hand, which counts how often it is read."""

    def __init__(self) -> None:
        self.wall_s = START_S
        self.readings = 0

    def now(self) -> float:
        return self.wall_s

    def wall(self) -> float:
        self.readings += 1
        return self.wall_s

    async def sleep(self, seconds: float) -> None:
        self.wall_s += seconds


class Dice:
    """A random source that always returns the same number, and counts the draws."""

    def __init__(self, number: float) -> None:
        self.number = number
        self.throws = 0

    def random(self) -> float:
        self.throws += 1
        return self.number

    def uniform(self, a: float, b: float) -> float:
        return a

    def randrange(self, start: int, stop: int) -> int:
        return start

    def choice(self, seq: Sequence[object]) -> object:
        return seq[0]


def throttle(
    config: Config | None = None, *, number: float = 0.5, clock: HandClock | None = None, **others: Any
) -> FairThrottle:
    return FairThrottle(config, clock=clock or HandClock(), random=Dice(number), **others)  # type: ignore[arg-type]


def blame(instance: FairThrottle, client: ClientId, failures: int) -> None:
    for _ in range(failures):
        instance.report(client, FAILURE)


# -- decisions --------------------------------------------------------------------------------------------------------


def test_no_client_is_throttled_while_nothing_fails() -> None:
    instance = throttle(number=0.0)
    for number in range(500):
        assert instance.register(f"client-{number}") is ADMITTED
        instance.report(f"client-{number}", SUCCESS)
    assert instance.stats().blamed == 0


def test_a_request_without_blame_reads_no_clock_and_draws_no_random_number() -> None:
    clock, dice = HandClock(), Dice(0.0)
    instance = FairThrottle(clock=clock, random=dice)  # type: ignore[arg-type]
    readings = clock.readings
    instance.register("a")
    instance.report("a", SUCCESS)
    assert (clock.readings, dice.throws) == (readings, 0)


@pytest.mark.parametrize(("failures", "probability"), [(1, 0.04), (5, 0.2), (24, 0.96), (25, 1.0), (100, 1.0)])
def test_failures_add_up_to_a_probability(failures: int, probability: float) -> None:
    instance = throttle()
    blame(instance, "a", failures)
    decision = instance.register("a")
    assert decision.probability == pytest.approx(probability)
    assert decision.throttled == (probability > 0.5)


def test_the_dice_decide_and_the_ends_are_exact() -> None:
    assert not throttled_at(0.0, failures=0)
    assert throttled_at(0.1999, failures=5)
    assert not throttled_at(0.2001, failures=5)
    assert throttled_at(math.nextafter(1.0, 0.0), failures=25)


def throttled_at(number: float, failures: int) -> bool:
    instance = throttle(number=number)
    blame(instance, "a", failures)
    return instance.register("a").throttled


def test_a_success_makes_up_for_a_thousandth_of_a_failure() -> None:
    instance = throttle()
    blame(instance, "a", 1)
    instance.report("a", SUCCESS)
    assert instance.explain("a").probability == pytest.approx(0.04 - 0.00004)
    for _ in range(999):
        instance.report("a", SUCCESS)
    assert instance.explain("a").probability == pytest.approx(0.0, abs=1e-12)


def test_time_forgives() -> None:
    clock = HandClock()
    instance = throttle(clock=clock)
    blame(instance, "a", 25)
    clock.wall_s += 100
    assert instance.explain("a").probability == pytest.approx(math.exp(-1))
    assert instance.explain("a").probability == pytest.approx(math.exp(-1))  # reading has changed nothing


def test_one_bucket_without_blame_clears_a_client() -> None:
    instance = throttle(Config(levels=2, buckets=2), number=0.0)
    guilty, bystander = colliding(instance)
    blame(instance, guilty, 25)
    assert instance.register(guilty).throttled
    assert not instance.register(bystander).throttled


def colliding(instance: FairThrottle) -> tuple[str, str]:
    """Two clients that share one of their two buckets and not the other."""
    first = [stats.bucket for stats in instance.explain("c0").buckets]
    for number in range(1, 100):
        other = [stats.bucket for stats in instance.explain(f"c{number}").buckets]
        if other[0] == first[0] and other[1] != first[1]:
            return "c0", f"c{number}"
    raise AssertionError("no two clients collide")


def test_the_mean_blames_where_the_smallest_clears() -> None:
    instance = throttle(Config(levels=2, buckets=2, final=mean), number=0.0)
    guilty, bystander = colliding(instance)
    blame(instance, guilty, 25)
    assert instance.register(bystander).probability == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("answer", "probability"), [(0.25, 0.25), (7.0, 1.0), (-1.0, 0.0), (math.nan, 0.0), (math.inf, 1.0)]
)
def test_a_final_probability_of_ones_own_is_held_to_the_bounds(answer: float, probability: float) -> None:
    seen: list[Sequence[float]] = []

    def final(probabilities: Sequence[float]) -> float:
        seen.append(probabilities)
        return answer

    instance = throttle(Config(final=final))
    assert instance.register("a").probability == probability
    assert seen == [[0.0, 0.0, 0.0]]


# -- shares -----------------------------------------------------------------------------------------------------------


def test_a_dear_request_is_as_hard_to_get_through_as_many_cheap_ones() -> None:
    instance = throttle()
    blame(instance, "a", 5)
    assert instance.register("a", cost=3).probability == pytest.approx(1 - 0.8**3)
    assert instance.register("a", cost=0.5).probability == pytest.approx(1 - 0.8**0.5)


def test_a_dear_failure_weighs_more() -> None:
    instance = throttle()
    instance.report("a", FAILURE, cost=10)
    assert instance.explain("a").probability == pytest.approx(0.4)
    instance.report("a", SUCCESS, cost=100)
    assert instance.explain("a").probability == pytest.approx(0.4 - 0.004)


def test_a_client_of_weight_two_is_blamed_half_as_fast() -> None:
    clock = HandClock()
    instance = FairThrottle(
        clock=clock,
        random=Dice(0.5),
        weight_of=lambda client: 2.0 if client == "paying" else 1.0,  # type: ignore[arg-type]
    )
    blame(instance, "paying", 10)
    blame(instance, "other", 10)
    assert instance.explain("paying").probability == pytest.approx(0.2)
    assert instance.explain("other").probability == pytest.approx(0.4)
    assert instance.register("paying").probability == pytest.approx(1 - 0.8**0.5)


@pytest.mark.parametrize("cost", [0.0, -1.0, math.nan, COST_MAX + 1])
def test_a_cost_is_a_positive_number(cost: float) -> None:
    instance = throttle()
    with pytest.raises(Invalid, match="cost"):
        instance.register("a", cost=cost)
    with pytest.raises(Invalid, match="cost"):
        instance.report("a", SUCCESS, cost=cost)


def test_an_outcome_is_one_of_two() -> None:
    with pytest.raises(Invalid, match=r"Outcome\.SUCCESS"):
        throttle().report("a", True)  # type: ignore[arg-type]


def test_a_blocked_client_still_gets_a_part_through() -> None:
    instance = throttle(Config(admitted_min=0.1), number=0.95)
    blame(instance, "a", 100)
    decision = instance.register("a")
    assert decision.probability == pytest.approx(0.9)
    assert not decision.throttled


def test_shadow_mode_admits_all_and_reports_would_be_rejections() -> None:
    instance = throttle(Config(is_shadow=True))
    blame(instance, "a", 25)
    decision = instance.register("a")
    assert (decision.throttled, decision.shadowed, decision.probability) == (False, True, 1.0)
    assert (instance.stats().shadowed, instance.stats().throttled) == (1, 0)


# -- windows ----------------------------------------------------------------------------------------------------------


def test_the_next_window_has_learnt_what_this_one_has() -> None:
    clock = HandClock()
    instance = throttle(Config(decay_per_s=0.0), clock=clock)
    blame(instance, "a", 5)
    clock.wall_s += 300
    assert instance.explain("a").probability == pytest.approx(0.2)
    assert instance.explain("a").window_seed == int((START_S + 300) * 1000)


def test_two_windows_later_nothing_is_remembered() -> None:
    clock = HandClock()
    instance = throttle(Config(decay_per_s=0.0), clock=clock, number=0.0)
    blame(instance, "a", 25)
    clock.wall_s += 600
    assert not instance.register("a").throttled


def test_a_collision_ends_with_the_window() -> None:
    clock = HandClock()
    instance = throttle(Config(levels=1, buckets=3), clock=clock, number=0.0)
    blame(instance, "guilty", 25)
    victims = [f"c{number}" for number in range(60) if instance.register(f"c{number}").throttled]
    clock.wall_s += 300
    assert victims
    assert not all(instance.register(victim).throttled for victim in victims)


def test_an_outcome_after_the_rotation_goes_to_the_new_windows() -> None:
    clock = HandClock()
    instance = throttle(clock=clock)
    blame(instance, "a", 1)
    clock.wall_s += 300
    blame(instance, "a", 1)
    assert {update.seed for update in shared(instance, "a")} == set(instance.seeds)


def shared(instance: FairThrottle, client: str) -> list[object]:
    instance.share()
    blame(instance, client, 1)
    return list(instance.collect())


def test_a_clock_set_back_deletes_nothing() -> None:
    clock = HandClock()
    instance = throttle(clock=clock)
    clock.wall_s += 60
    blame(instance, "a", 5)
    clock.wall_s -= 30
    assert instance.explain("a").probability == pytest.approx(0.2)
    instance.report("a", FAILURE)
    assert instance.explain("a").probability == pytest.approx(0.24)


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_an_explanation_names_every_bucket() -> None:
    instance = throttle(Config(is_explaining=True))
    blame(instance, "a", 5)
    explained = instance.register("a").explanation
    assert explained is not None
    assert explained == instance.explain("a")
    assert [stats.level for stats in explained.buckets] == [0, 1, 2]
    assert [stats.probability for stats in explained.buckets] == pytest.approx([0.2] * 3)
    assert instance.register("innocent").explanation is not None


def test_a_decision_has_an_explanation_only_on_request() -> None:
    instance = throttle()
    blame(instance, "a", 5)
    assert instance.register("a").explanation is None


def test_the_worst_come_first() -> None:
    instance = throttle()
    for failures, client in enumerate(("a", "b", "c"), start=1):
        blame(instance, client, failures)
    assert [client for client, _ in instance.noisiest(2)] == ["c", "b"]
    assert [stats.probability for stats in instance.hottest(4)] == pytest.approx([0.12, 0.12, 0.12, 0.08])
    assert instance.hottest(0) == []


def test_stats_count() -> None:
    instance = throttle()
    blame(instance, "a", 20)
    instance.register("a")
    instance.register("a")
    stats = instance.stats()
    assert (stats.throttled, stats.failures, stats.buckets, stats.blamed, stats.clients) == (2, 20, 3, 3, 1)
    assert stats.hottest == pytest.approx(0.8)
    assert stats.rotates_in_s == 300
    assert (stats.window_seed, stats.next_seed) == instance.seeds


def test_a_throttled_client_gets_a_retry_time() -> None:
    instance = throttle(Config(decay_per_s=0.1))
    blame(instance, "a", 20)
    assert instance.retry_after_s(instance.register("a")) == pytest.approx(math.log(1.6) / 0.1)


@pytest.mark.parametrize(("cost", "weight"), [(5.0, 1.0), (0.5, 1.0), (1.0, 2.0), (6.0, 2.0)])
def test_after_that_wait_the_same_request_has_even_chances(cost: float, weight: float) -> None:
    clock = HandClock()
    instance = throttle(Config(decay_per_s=0.05), clock=clock, weight_of=lambda _: weight)
    blame(instance, "a", int(20 * weight))
    decision = instance.register("a", cost)
    assert decision.throttled
    clock.wall_s += instance.retry_after_s(decision)
    assert instance.register("a", cost).probability == pytest.approx(0.5, abs=1e-3)


def test_decisions_are_counted_with_and_without_sharing() -> None:
    metrics = Metrics()
    instance = throttle(metrics=metrics)
    blame(instance, "a", 20)
    instance.register("a")
    assert metrics.value(fair_throttle.FAILURES_REPORTED) == 20
    assert metrics.value(fair_throttle.REQUESTS_THROTTLED) == 1


def test_a_throttle_measured_later_reports_its_whole_count_to_one_meter() -> None:
    early, late = Metrics(), Metrics()
    instance = throttle(Config(is_shadow=True))
    blame(instance, "a", 20)
    instance.register("a")
    instance.measure(early)
    instance.measure(late)
    instance.register("a")
    assert (early.value(fair_throttle.FAILURES_REPORTED), early.value(fair_throttle.REQUESTS_SHADOWED)) == (20, 2)
    assert (late.value(fair_throttle.FAILURES_REPORTED), late.value(fair_throttle.REQUESTS_SHADOWED)) == (0, 0)


# -- sharing ----------------------------------------------------------------------------------------------------------


def test_changes_are_collected_once() -> None:
    instance = throttle()
    instance.share()
    blame(instance, "a", 2)
    updates = instance.collect()
    places = {(stats.level, stats.bucket) for stats in instance.explain("a").buckets}
    (main,) = [update for update in updates if update.seed == instance.seeds[0]]
    assert {(delta.row_id, delta.col_id) for delta in main.deltas} == places
    assert [delta.delta_prob for delta in main.deltas] == pytest.approx([0.08] * 3)
    assert {delta.last_update_time_ms for delta in main.deltas} == {int(START_S * 1000)}
    assert len(updates) == 2
    assert instance.collect() == []


def test_no_changes_are_recorded_before_sharing_starts() -> None:
    instance = throttle()
    blame(instance, "a", 2)
    instance.share()
    assert instance.collect() == []


def test_healthy_traffic_has_no_changes_to_share() -> None:
    instance = throttle()
    instance.share()
    for number in range(100):
        instance.register(f"c{number}")
        instance.report(f"c{number}", SUCCESS)
    assert instance.collect() == []


def test_many_changes_are_collected_in_full() -> None:
    instance = throttle()
    instance.share()
    for number in range(300):
        blame(instance, f"c{number}", 1)
    collected = sum(len(update.deltas) for update in instance.collect())
    assert collected == sum(
        len(instance.contents(RowId(seed, row), above=0)) for seed in instance.seeds for row in range(3)
    )


def fetched(instance: FairThrottle, prob: float, *, ms_later: int = 0, pending: float = 0.0) -> list[RespBucket]:
    places = [(stats.level, stats.bucket) for stats in instance.explain("a").buckets]
    at_ms = int(START_S * 1000) + ms_later
    return [RespBucket(instance.seeds[0], [OverwriteBucket(row, col, prob, at_ms, pending) for row, col in places])]


def test_the_state_of_other_instances_is_merged() -> None:
    instance = throttle()
    instance.share()
    assert instance.absorb(fetched(instance, 0.6)) == 3
    assert instance.explain("a").probability == pytest.approx(0.6)
    assert instance.collect() == []  # fetched state is not shared again


def test_our_own_changes_on_their_way_are_put_on_top() -> None:
    instance = throttle()
    instance.share()
    blame(instance, "a", 5)
    instance.absorb(fetched(instance, 0.3))
    assert instance.explain("a").probability == pytest.approx(0.5)
    instance.absorb(fetched(instance, 0.3, pending=0.1))
    assert instance.explain("a").probability == pytest.approx(0.6)


def test_our_own_changes_age_with_what_is_fetched() -> None:
    instance = throttle()
    instance.share()
    blame(instance, "a", 5)
    instance.absorb(fetched(instance, 0.3, ms_later=10_000))
    aged = 0.2 * math.exp(-0.1)
    assert [stats.probability for stats in instance.explain("a").buckets] == pytest.approx([0.3 + aged] * 3)
    (main,) = [update for update in instance.collect() if update.seed == instance.seeds[0]]
    assert [delta.delta_prob for delta in main.deltas] == pytest.approx([aged] * 3)
    assert {delta.last_update_time_ms for delta in main.deltas} == {int(START_S * 1000) + 10_000}


def test_fetched_state_decays_with_ours() -> None:
    instance = throttle()
    instance.share()
    blame(instance, "a", 5)
    instance.absorb(fetched(instance, 0.3, ms_later=-10_000, pending=0.1))
    assert instance.explain("a").probability == pytest.approx(0.4 * math.exp(-0.1) + 0.2)


def test_rounding_differences_cause_no_change() -> None:
    instance = throttle()
    instance.share()
    blame(instance, "a", 5)
    instance.collect()
    before = instance.explain("a")
    assert instance.absorb(fetched(instance, 0.2 + 1e-12)) == 0
    assert instance.explain("a") == before


@given(prob=st.floats(allow_nan=True), pending=st.floats(-2, 2), ms_later=st.integers(-(10**7), 10**7))
def test_any_fetched_state_leaves_valid_probabilities(prob: float, pending: float, ms_later: int) -> None:
    instance = throttle()
    instance.share()
    blame(instance, "a", 5)
    instance.absorb(fetched(instance, prob, ms_later=ms_later, pending=pending))
    assert 0 <= instance.explain("a").probability <= 1  # THR-1


def test_positions_and_windows_that_are_not_ours_are_skipped() -> None:
    instance = throttle()
    instance.share()
    strange = [OverwriteBucket(99, 0, 1.0, 0), OverwriteBucket(0, 5000, 1.0, 0), OverwriteBucket(-1, -1, 1.0, 0)]
    assert (
        instance.absorb([RespBucket(instance.seeds[0], strange), RespBucket(12345, [OverwriteBucket(0, 0, 1.0, 0)])])
        == 0
    )


def test_a_store_that_lost_its_rows_gets_our_state() -> None:
    instance = throttle()
    blame(instance, "a", 5)
    blame(instance, "b", 1)
    seed = instance.seeds[0]
    changes = [bucket for row in range(3) for bucket in instance.contents(RowId(seed, row), above=0.05)]
    assert {(bucket.row_id, bucket.col_id) for bucket in changes} == {
        (stats.level, stats.bucket) for stats in instance.explain("a").buckets
    }
    assert [bucket.prob for bucket in changes] == pytest.approx([0.2] * 3)
    assert instance.contents(RowId(1, 0), above=0.0) == []


def test_an_instance_standing_for_many_takes_larger_steps() -> None:
    instance = throttle()
    instance.adjust(gain=4)
    blame(instance, "a", 5)
    assert instance.explain("a").probability == pytest.approx(0.8)
    assert instance.stats().gain == 4
    with pytest.raises(Invalid, match="gain"):
        instance.adjust(gain=0)


def test_the_clock_can_be_corrected() -> None:
    instance = throttle()
    instance.adjust(offset_ms=-300_000)
    assert instance.now_ms() == int(START_S * 1000) - 300_000
    instance.adjust(offset_ms=450_000)
    instance.rotate()
    assert instance.seeds[0] == int(START_S * 1000) + 300_000


# -- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "end"), [(FAILURE, 1.0), (SUCCESS, 0.0)])
def test_many_threads_end_exactly_at_the_limit(outcome: Outcome, end: float) -> None:
    instance = throttle(Config(failure_step=0.01, success_step=0.009))
    blame(instance, "a", 50)
    together(lambda: [instance.report("a", outcome) for _ in range(200)])
    assert instance.explain("a").probability == end


def test_no_change_is_lost_or_reported_twice_between_threads() -> None:
    instance = FairThrottle(Config(failure_step=0.0001, success_step=0.00001, decay_per_s=0.0), random=seeded_random(1))
    instance.share()
    changes: list[BucketDelta] = []
    stop = threading.Event()

    def collect() -> None:
        while not stop.is_set():
            changes.extend(delta for update in instance.collect() for delta in update.deltas)

    collector = threading.Thread(target=collect)
    collector.start()
    together(lambda: [(instance.register("a"), instance.report("a", FAILURE)) for _ in range(200)])
    stop.set()
    collector.join()
    changes += [delta for update in instance.collect() for delta in update.deltas]
    assert sum(delta.delta_prob for delta in changes) == pytest.approx(6 * 8 * 200 * 0.0001)


def together(work: object, threads: int = 8) -> None:
    running = [threading.Thread(target=work) for _ in range(threads)]  # type: ignore[arg-type]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
