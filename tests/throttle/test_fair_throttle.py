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


def blame(made: FairThrottle, client: ClientId, failures: int) -> None:
    for _ in range(failures):
        made.report(client, FAILURE)


# -- decisions --------------------------------------------------------------------------------------------------------


def test_no_client_is_throttled_while_nothing_fails() -> None:
    made = throttle(number=0.0)
    for number in range(500):
        assert made.register(f"client-{number}") is ADMITTED
        made.report(f"client-{number}", SUCCESS)
    assert made.stats().blamed == 0


def test_a_request_without_blame_reads_no_clock_and_draws_no_random_number() -> None:
    clock, dice = HandClock(), Dice(0.0)
    made = FairThrottle(clock=clock, random=dice)  # type: ignore[arg-type]
    readings = clock.readings
    made.register("a")
    made.report("a", SUCCESS)
    assert (clock.readings, dice.throws) == (readings, 0)


@pytest.mark.parametrize(("failures", "probability"), [(1, 0.04), (5, 0.2), (24, 0.96), (25, 1.0), (100, 1.0)])
def test_failures_add_up_to_a_probability(failures: int, probability: float) -> None:
    made = throttle()
    blame(made, "a", failures)
    decision = made.register("a")
    assert decision.probability == pytest.approx(probability)
    assert decision.throttled == (probability > 0.5)


def test_the_dice_decide_and_the_ends_are_exact() -> None:
    assert not throttled_at(0.0, failures=0)
    assert throttled_at(0.1999, failures=5)
    assert not throttled_at(0.2001, failures=5)
    assert throttled_at(math.nextafter(1.0, 0.0), failures=25)


def throttled_at(number: float, failures: int) -> bool:
    made = throttle(number=number)
    blame(made, "a", failures)
    return made.register("a").throttled


def test_a_success_makes_up_for_a_thousandth_of_a_failure() -> None:
    made = throttle()
    blame(made, "a", 1)
    made.report("a", SUCCESS)
    assert made.explain("a").probability == pytest.approx(0.04 - 0.00004)
    for _ in range(999):
        made.report("a", SUCCESS)
    assert made.explain("a").probability == pytest.approx(0.0, abs=1e-12)


def test_time_forgives() -> None:
    clock = HandClock()
    made = throttle(clock=clock)
    blame(made, "a", 25)
    clock.wall_s += 100
    assert made.explain("a").probability == pytest.approx(math.exp(-1))
    assert made.explain("a").probability == pytest.approx(math.exp(-1))  # reading has changed nothing


def test_one_bucket_without_blame_clears_a_client() -> None:
    made = throttle(Config(levels=2, buckets=2), number=0.0)
    guilty, bystander = colliding(made)
    blame(made, guilty, 25)
    assert made.register(guilty).throttled
    assert not made.register(bystander).throttled


def colliding(made: FairThrottle) -> tuple[str, str]:
    """Two clients that share one of their two buckets and not the other."""
    first = [stats.bucket for stats in made.explain("c0").buckets]
    for number in range(1, 100):
        other = [stats.bucket for stats in made.explain(f"c{number}").buckets]
        if other[0] == first[0] and other[1] != first[1]:
            return "c0", f"c{number}"
    raise AssertionError("no two clients collide")


def test_the_mean_blames_where_the_smallest_clears() -> None:
    made = throttle(Config(levels=2, buckets=2, final=mean), number=0.0)
    guilty, bystander = colliding(made)
    blame(made, guilty, 25)
    assert made.register(bystander).probability == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("answer", "probability"), [(0.25, 0.25), (7.0, 1.0), (-1.0, 0.0), (math.nan, 0.0), (math.inf, 1.0)]
)
def test_a_final_probability_of_ones_own_is_held_to_the_bounds(answer: float, probability: float) -> None:
    seen: list[Sequence[float]] = []

    def final(probabilities: Sequence[float]) -> float:
        seen.append(probabilities)
        return answer

    made = throttle(Config(final=final))
    assert made.register("a").probability == probability
    assert seen == [[0.0, 0.0, 0.0]]


# -- shares -----------------------------------------------------------------------------------------------------------


def test_a_dear_request_is_as_hard_to_get_through_as_many_cheap_ones() -> None:
    made = throttle()
    blame(made, "a", 5)
    assert made.register("a", cost=3).probability == pytest.approx(1 - 0.8**3)
    assert made.register("a", cost=0.5).probability == pytest.approx(1 - 0.8**0.5)


def test_a_dear_failure_weighs_more() -> None:
    made = throttle()
    made.report("a", FAILURE, cost=10)
    assert made.explain("a").probability == pytest.approx(0.4)
    made.report("a", SUCCESS, cost=100)
    assert made.explain("a").probability == pytest.approx(0.4 - 0.004)


def test_a_client_of_weight_two_is_blamed_half_as_fast() -> None:
    clock = HandClock()
    made = FairThrottle(
        clock=clock,
        random=Dice(0.5),
        weight_of=lambda client: 2.0 if client == "paying" else 1.0,  # type: ignore[arg-type]
    )
    blame(made, "paying", 10)
    blame(made, "other", 10)
    assert made.explain("paying").probability == pytest.approx(0.2)
    assert made.explain("other").probability == pytest.approx(0.4)
    assert made.register("paying").probability == pytest.approx(1 - 0.8**0.5)


@pytest.mark.parametrize("cost", [0.0, -1.0, math.nan, COST_MAX + 1])
def test_a_cost_is_a_positive_number(cost: float) -> None:
    made = throttle()
    with pytest.raises(Invalid, match="cost"):
        made.register("a", cost=cost)
    with pytest.raises(Invalid, match="cost"):
        made.report("a", SUCCESS, cost=cost)


def test_an_outcome_is_one_of_two() -> None:
    with pytest.raises(Invalid, match=r"Outcome\.SUCCESS"):
        throttle().report("a", True)  # type: ignore[arg-type]


def test_a_blocked_client_still_gets_a_part_through() -> None:
    made = throttle(Config(admitted_min=0.1), number=0.95)
    blame(made, "a", 100)
    decision = made.register("a")
    assert decision.probability == pytest.approx(0.9)
    assert not decision.throttled


def test_shadow_mode_admits_all_and_reports_would_be_rejections() -> None:
    made = throttle(Config(is_shadow=True))
    blame(made, "a", 25)
    decision = made.register("a")
    assert (decision.throttled, decision.shadowed, decision.probability) == (False, True, 1.0)
    assert (made.stats().shadowed, made.stats().throttled) == (1, 0)


# -- windows ----------------------------------------------------------------------------------------------------------


def test_the_next_window_has_learnt_what_this_one_has() -> None:
    clock = HandClock()
    made = throttle(Config(decay_per_s=0.0), clock=clock)
    blame(made, "a", 5)
    clock.wall_s += 300
    assert made.explain("a").probability == pytest.approx(0.2)
    assert made.explain("a").window_seed == int((START_S + 300) * 1000)


def test_two_windows_later_nothing_is_remembered() -> None:
    clock = HandClock()
    made = throttle(Config(decay_per_s=0.0), clock=clock, number=0.0)
    blame(made, "a", 25)
    clock.wall_s += 600
    assert not made.register("a").throttled


def test_a_collision_ends_with_the_window() -> None:
    clock = HandClock()
    made = throttle(Config(levels=1, buckets=3), clock=clock, number=0.0)
    blame(made, "guilty", 25)
    victims = [f"c{number}" for number in range(60) if made.register(f"c{number}").throttled]
    clock.wall_s += 300
    assert victims
    assert not all(made.register(victim).throttled for victim in victims)


def test_an_outcome_after_the_rotation_goes_to_the_new_windows() -> None:
    clock = HandClock()
    made = throttle(clock=clock)
    blame(made, "a", 1)
    clock.wall_s += 300
    blame(made, "a", 1)
    assert {update.seed for update in shared(made, "a")} == set(made.seeds)


def shared(made: FairThrottle, client: str) -> list[object]:
    made.share()
    blame(made, client, 1)
    return list(made.collect())


def test_a_clock_set_back_deletes_nothing() -> None:
    clock = HandClock()
    made = throttle(clock=clock)
    clock.wall_s += 60
    blame(made, "a", 5)
    clock.wall_s -= 30
    assert made.explain("a").probability == pytest.approx(0.2)
    made.report("a", FAILURE)
    assert made.explain("a").probability == pytest.approx(0.24)


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_an_explanation_names_every_bucket() -> None:
    made = throttle(Config(is_explaining=True))
    blame(made, "a", 5)
    explained = made.register("a").explanation
    assert explained is not None
    assert explained == made.explain("a")
    assert [stats.level for stats in explained.buckets] == [0, 1, 2]
    assert [stats.probability for stats in explained.buckets] == pytest.approx([0.2] * 3)
    assert made.register("innocent").explanation is not None


def test_a_decision_has_an_explanation_only_on_request() -> None:
    made = throttle()
    blame(made, "a", 5)
    assert made.register("a").explanation is None


def test_the_worst_come_first() -> None:
    made = throttle()
    for failures, client in enumerate(("a", "b", "c"), start=1):
        blame(made, client, failures)
    assert [client for client, _ in made.noisiest(2)] == ["c", "b"]
    assert [stats.probability for stats in made.hottest(4)] == pytest.approx([0.12, 0.12, 0.12, 0.08])
    assert made.hottest(0) == []


def test_stats_count() -> None:
    made = throttle()
    blame(made, "a", 20)
    made.register("a")
    made.register("a")
    stats = made.stats()
    assert (stats.throttled, stats.failures, stats.buckets, stats.blamed, stats.clients) == (2, 20, 3, 3, 1)
    assert stats.hottest == pytest.approx(0.8)
    assert stats.rotates_in_s == 300
    assert (stats.window_seed, stats.next_seed) == made.seeds


def test_a_throttled_client_gets_a_retry_time() -> None:
    made = throttle(Config(decay_per_s=0.1))
    blame(made, "a", 20)
    assert made.retry_after_s(made.register("a")) == pytest.approx(math.log(1.6) / 0.1)


@pytest.mark.parametrize(("cost", "weight"), [(5.0, 1.0), (0.5, 1.0), (1.0, 2.0), (6.0, 2.0)])
def test_after_that_wait_the_same_request_has_even_chances(cost: float, weight: float) -> None:
    clock = HandClock()
    made = throttle(Config(decay_per_s=0.05), clock=clock, weight_of=lambda _: weight)
    blame(made, "a", int(20 * weight))
    decision = made.register("a", cost)
    assert decision.throttled
    clock.wall_s += made.retry_after_s(decision)
    assert made.register("a", cost).probability == pytest.approx(0.5, abs=1e-3)


def test_decisions_are_counted_with_and_without_sharing() -> None:
    metrics = Metrics()
    made = throttle(metrics=metrics)
    blame(made, "a", 20)
    made.register("a")
    assert metrics.value(fair_throttle.FAILURES_REPORTED) == 20
    assert metrics.value(fair_throttle.REQUESTS_THROTTLED) == 1


def test_a_throttle_measured_later_reports_its_whole_count_to_one_meter() -> None:
    early, late = Metrics(), Metrics()
    made = throttle(Config(is_shadow=True))
    blame(made, "a", 20)
    made.register("a")
    made.measure(early)
    made.measure(late)
    made.register("a")
    assert (early.value(fair_throttle.FAILURES_REPORTED), early.value(fair_throttle.REQUESTS_SHADOWED)) == (20, 2)
    assert (late.value(fair_throttle.FAILURES_REPORTED), late.value(fair_throttle.REQUESTS_SHADOWED)) == (0, 0)


# -- sharing ----------------------------------------------------------------------------------------------------------


def test_changes_are_collected_once() -> None:
    made = throttle()
    made.share()
    blame(made, "a", 2)
    updates = made.collect()
    places = {(stats.level, stats.bucket) for stats in made.explain("a").buckets}
    (main,) = [update for update in updates if update.seed == made.seeds[0]]
    assert {(delta.row_id, delta.col_id) for delta in main.deltas} == places
    assert [delta.delta_prob for delta in main.deltas] == pytest.approx([0.08] * 3)
    assert {delta.last_update_time_ms for delta in main.deltas} == {int(START_S * 1000)}
    assert len(updates) == 2
    assert made.collect() == []


def test_no_changes_are_recorded_before_sharing_starts() -> None:
    made = throttle()
    blame(made, "a", 2)
    made.share()
    assert made.collect() == []


def test_healthy_traffic_has_no_changes_to_share() -> None:
    made = throttle()
    made.share()
    for number in range(100):
        made.register(f"c{number}")
        made.report(f"c{number}", SUCCESS)
    assert made.collect() == []


def test_many_changes_are_collected_in_full() -> None:
    made = throttle()
    made.share()
    for number in range(300):
        blame(made, f"c{number}", 1)
    collected = sum(len(update.deltas) for update in made.collect())
    assert collected == sum(len(made.contents(RowId(seed, row), above=0)) for seed in made.seeds for row in range(3))


def fetched(made: FairThrottle, prob: float, *, ms_later: int = 0, pending: float = 0.0) -> list[RespBucket]:
    places = [(stats.level, stats.bucket) for stats in made.explain("a").buckets]
    at_ms = int(START_S * 1000) + ms_later
    return [RespBucket(made.seeds[0], [OverwriteBucket(row, col, prob, at_ms, pending) for row, col in places])]


def test_the_state_of_other_instances_is_merged() -> None:
    made = throttle()
    made.share()
    assert made.absorb(fetched(made, 0.6)) == 3
    assert made.explain("a").probability == pytest.approx(0.6)
    assert made.collect() == []  # fetched state is not shared again


def test_our_own_changes_on_their_way_are_put_on_top() -> None:
    made = throttle()
    made.share()
    blame(made, "a", 5)
    made.absorb(fetched(made, 0.3))
    assert made.explain("a").probability == pytest.approx(0.5)
    made.absorb(fetched(made, 0.3, pending=0.1))
    assert made.explain("a").probability == pytest.approx(0.6)


def test_our_own_changes_age_with_what_is_fetched() -> None:
    made = throttle()
    made.share()
    blame(made, "a", 5)
    made.absorb(fetched(made, 0.3, ms_later=10_000))
    aged = 0.2 * math.exp(-0.1)
    assert [stats.probability for stats in made.explain("a").buckets] == pytest.approx([0.3 + aged] * 3)
    (main,) = [update for update in made.collect() if update.seed == made.seeds[0]]
    assert [delta.delta_prob for delta in main.deltas] == pytest.approx([aged] * 3)
    assert {delta.last_update_time_ms for delta in main.deltas} == {int(START_S * 1000) + 10_000}


def test_fetched_state_decays_with_ours() -> None:
    made = throttle()
    made.share()
    blame(made, "a", 5)
    made.absorb(fetched(made, 0.3, ms_later=-10_000, pending=0.1))
    assert made.explain("a").probability == pytest.approx(0.4 * math.exp(-0.1) + 0.2)


def test_rounding_differences_cause_no_change() -> None:
    made = throttle()
    made.share()
    blame(made, "a", 5)
    made.collect()
    before = made.explain("a")
    assert made.absorb(fetched(made, 0.2 + 1e-12)) == 0
    assert made.explain("a") == before


@given(prob=st.floats(allow_nan=True), pending=st.floats(-2, 2), ms_later=st.integers(-(10**7), 10**7))
def test_any_fetched_state_leaves_valid_probabilities(prob: float, pending: float, ms_later: int) -> None:
    made = throttle()
    made.share()
    blame(made, "a", 5)
    made.absorb(fetched(made, prob, ms_later=ms_later, pending=pending))
    assert 0 <= made.explain("a").probability <= 1  # THR-1


def test_positions_and_windows_that_are_not_ours_are_skipped() -> None:
    made = throttle()
    made.share()
    strange = [OverwriteBucket(99, 0, 1.0, 0), OverwriteBucket(0, 5000, 1.0, 0), OverwriteBucket(-1, -1, 1.0, 0)]
    assert made.absorb([RespBucket(made.seeds[0], strange), RespBucket(12345, [OverwriteBucket(0, 0, 1.0, 0)])]) == 0


def test_a_store_that_lost_its_rows_gets_our_state() -> None:
    made = throttle()
    blame(made, "a", 5)
    blame(made, "b", 1)
    seed = made.seeds[0]
    told = [bucket for row in range(3) for bucket in made.contents(RowId(seed, row), above=0.05)]
    assert {(bucket.row_id, bucket.col_id) for bucket in told} == {
        (stats.level, stats.bucket) for stats in made.explain("a").buckets
    }
    assert [bucket.prob for bucket in told] == pytest.approx([0.2] * 3)
    assert made.contents(RowId(1, 0), above=0.0) == []


def test_an_instance_standing_for_many_takes_larger_steps() -> None:
    made = throttle()
    made.adjust(gain=4)
    blame(made, "a", 5)
    assert made.explain("a").probability == pytest.approx(0.8)
    assert made.stats().gain == 4
    with pytest.raises(Invalid, match="gain"):
        made.adjust(gain=0)


def test_the_clock_can_be_corrected() -> None:
    made = throttle()
    made.adjust(offset_ms=-300_000)
    assert made.now_ms() == int(START_S * 1000) - 300_000
    made.adjust(offset_ms=450_000)
    made.rotate()
    assert made.seeds[0] == int(START_S * 1000) + 300_000


# -- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "end"), [(FAILURE, 1.0), (SUCCESS, 0.0)])
def test_many_threads_end_exactly_at_the_limit(outcome: Outcome, end: float) -> None:
    made = throttle(Config(failure_step=0.01, success_step=0.009))
    blame(made, "a", 50)
    together(lambda: [made.report("a", outcome) for _ in range(200)])
    assert made.explain("a").probability == end


def test_no_change_is_lost_or_reported_twice_between_threads() -> None:
    made = FairThrottle(Config(failure_step=0.0001, success_step=0.00001, decay_per_s=0.0), random=seeded_random(1))
    made.share()
    told: list[BucketDelta] = []
    stop = threading.Event()

    def collect() -> None:
        while not stop.is_set():
            told.extend(delta for update in made.collect() for delta in update.deltas)

    collector = threading.Thread(target=collect)
    collector.start()
    together(lambda: [(made.register("a"), made.report("a", FAILURE)) for _ in range(200)])
    stop.set()
    collector.join()
    told += [delta for update in made.collect() for delta in update.deltas]
    assert sum(delta.delta_prob for delta in told) == pytest.approx(6 * 8 * 200 * 0.0001)


def together(work: object, threads: int = 8) -> None:
    running = [threading.Thread(target=work) for _ in range(threads)]  # type: ignore[arg-type]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
