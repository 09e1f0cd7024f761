"""The exchange machine: orders out, answers in, with a store that fails, loses data or is slow."""

import math

import pytest

from argosy.base.clock import seeded_random
from argosy.throttle.exchange import OFFSET_STEP_MS, PROBE, SEEDS_MAX, ExchangeFailed, ExchangeReplied, StoreExchange
from argosy.throttle.model import Config
from argosy.throttle.ports import (
    BucketDelta,
    BucketState,
    OverwriteBucket,
    QueueFull,
    RespBucket,
    RowId,
    RowState,
    RowVersion,
    RowWrite,
    SyncBatch,
    SyncReply,
    Update,
)
from argosy.throttle.settings import ThrottleSettings

SEED = 300_000
CELL = RowId(SEED, 0)
FIRST = RowVersion(1, 1)
SETTINGS = ThrottleSettings(flush_s=0.25, poll_s=1.0, attempts_max=3, queue_max=10)


class Stage:
    """An exchange, and a clock that advances to its next deadline."""

    def __init__(self, settings: ThrottleSettings = SETTINGS, config: Config | None = None) -> None:
        self.exchange = StoreExchange(config or Config(levels=1), settings, seeded_random(1), instance="me")
        self.now = 100.0

    def order(self) -> SyncBatch:
        """The next order, when its time has come."""
        for _ in range(100):
            deadline = self.exchange.deadline()
            assert deadline is not None, "an order is under way"
            self.now = max(self.now, deadline)
            if orders := self.exchange.handle(None, self.now):
                return orders[0]
        raise AssertionError("nothing is ordered")

    def push(self, delta: float = 0.04, *, col: int = 1, at_ms: int = 1000, seed: int = SEED) -> None:
        self.exchange.update([Update(seed, [BucketDelta(0, col, delta, at_ms)])])

    def reply(
        self, order: SyncBatch, mark: RowVersion = FIRST, states: dict[int, BucketState] | None = None, **more: object
    ) -> None:
        """Answers an order; every row it names has the version, and every pull returns `states`."""
        written = {col: BucketState(0.5, 1000) for push in order.pushes for col, _, _ in push.deltas}
        answer = SyncReply(
            tuple(RowWrite(restore.cell, mark, False, {}) for restore in order.restores),
            tuple(RowWrite(push.cell, mark, False, written) for push in order.pushes),
            tuple(RowState(pull.cell, mark, states) for pull in order.pulls),
            **more,  # type: ignore[arg-type]
        )
        assert self.exchange.handle(ExchangeReplied(answer), self.now) == []

    def fail(self) -> None:
        assert self.exchange.handle(ExchangeFailed(), self.now) == []

    def give_up(self) -> None:
        """The store becomes unavailable."""
        self.push()
        self.order()
        while not self.exchange.status(self.now).is_unreachable:
            self.fail()
            if not self.exchange.status(self.now).is_unreachable:
                self.order()


# -- orders -----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_without_changes() -> None:
    stage = Stage()
    assert stage.exchange.handle(None, 100.0) == []
    deadline = stage.exchange.deadline()
    assert deadline is not None
    assert 0.225 <= deadline - 100.0 <= 0.275


def test_changes_of_many_updates_go_out_as_one_batch_per_row() -> None:
    stage = Stage()
    stage.push(0.04, col=1)
    stage.push(0.04, col=2)
    stage.push(0.04, col=1)
    (push,) = stage.order().pushes
    assert push.cell == CELL
    assert push.deltas == ((1, 0.08, 1000), (2, 0.04, 1000))


def test_batches_are_numbered_on_and_on() -> None:
    stage = Stage()
    numbers = []
    for _ in range(3):
        stage.push()
        order = stage.order()
        numbers += [push.number for push in order.pushes]
        stage.reply(order)
    assert numbers == [1, 2, 3]


def test_one_order_is_under_way_at_a_time() -> None:
    stage = Stage()
    stage.push()
    order = stage.order()
    stage.push()
    assert stage.exchange.handle(None, stage.now + 1000) == []
    assert stage.exchange.deadline() is None
    stage.reply(order)
    assert stage.order().pushes[0].number == 2


def test_flushes_keep_their_minimum_interval() -> None:
    stage = Stage()
    stage.push()
    stage.reply(stage.order())
    answered_at = stage.now
    stage.push()
    stage.order()
    assert 0.225 <= stage.now - answered_at <= 0.275


def test_a_requested_window_is_pulled_row_by_row_after_the_pushes() -> None:
    stage = Stage(config=Config(levels=3))
    stage.exchange.request(SEED)
    stage.push()
    order = stage.order()
    assert [pull.cell for pull in order.pulls] == [RowId(SEED, row) for row in range(3)]
    assert {pull.seen for pull in order.pulls} == {RowVersion()}
    assert len(order.pushes) == 1


def test_requests_are_bounded_and_the_newest_windows_stay() -> None:
    stage = Stage()
    for number in range(10):
        stage.exchange.request(number * SEED)
    assert [pull.cell.seed for pull in stage.order().pulls] == [number * SEED for number in range(10 - SEEDS_MAX, 10)]


def test_a_full_queue_is_an_error_and_drains_again() -> None:
    stage = Stage()
    for col in range(10):
        stage.push(col=col)
    with pytest.raises(QueueFull):
        stage.push(col=10)
    assert stage.exchange.status(0).queue == 10
    stage.reply(stage.order())
    stage.push(col=10)
    assert stage.exchange.status(0).queue == 1


# -- answers ----------------------------------------------------------------------------------------------------------


def test_changes_left_over_by_a_push_come_through_the_channel() -> None:
    stage = Stage()
    stage.push(col=3)
    stage.reply(stage.order())
    assert stage.exchange.take() == [RespBucket(SEED, [OverwriteBucket(0, 3, 0.5, 1000)])]
    assert stage.exchange.take() == []


def test_a_slow_reader_finds_the_latest_state_of_each_bucket() -> None:
    stage = Stage()
    for version, states in enumerate(
        ({1: BucketState(0.1, 1), 2: BucketState(0.2, 1)}, {1: BucketState(0.3, 2)}), start=1
    ):
        stage.exchange.request(SEED)
        stage.reply(stage.order(), RowVersion(1, version), states)
    (response,) = stage.exchange.take()
    assert {bucket.col_id: bucket.prob for bucket in response.updates} == {1: 0.3, 2: 0.2}


def test_changes_the_answer_cannot_contain_are_returned_with_it() -> None:
    stage = Stage()
    stage.push(0.04, at_ms=1000)
    stage.exchange.request(SEED)
    order = stage.order()
    stage.push(0.02, at_ms=61_000)  # after the order was sent
    stage.reply(order, states={1: BucketState(0.5, 1000)})
    (response,) = stage.exchange.take()
    (bucket,) = response.updates
    assert bucket.last_update_time_ms == 61_000
    assert bucket.prob == pytest.approx(0.5 * math.exp(-0.6))
    assert bucket.pending == pytest.approx(0.02)


def test_changes_in_flight_again_are_returned_too() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), states={1: BucketState(0.5, 1000)})
    stage.push(0.04)
    stage.order()  # under way
    stage.push(0.02)  # and waiting
    (response,) = stage.exchange.take()
    assert response.updates[0].pending == pytest.approx(0.06)


def test_undelivered_windows_are_dropped_oldest_first() -> None:
    stage = Stage()
    for number in range(SEEDS_MAX + 2):
        stage.push(seed=number * SEED)
        stage.reply(stage.order())
    assert [response.seed for response in stage.exchange.take()] == [n * SEED for n in range(2, SEEDS_MAX + 2)]


def test_a_duplicate_is_counted() -> None:
    stage = Stage()
    stage.push()
    order = stage.order()
    answer = SyncReply((), (RowWrite(CELL, RowVersion(1, 1), True, {1: BucketState(0.1, 1)}),), ())
    stage.exchange.handle(ExchangeReplied(answer), stage.now)
    assert stage.exchange.counters.duplicates == 1
    assert order.pushes


# -- versions and rereads ---------------------------------------------------------------------------------------------


def next_version(stage: Stage) -> RowVersion:
    """The version that the next pull names."""
    stage.exchange.request(SEED)
    order = stage.order()
    stage.reply(order, RowVersion(1, 99), {})
    return order.pulls[0].seen


def test_a_row_already_read_is_requested_by_its_version() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 5), {})
    assert next_version(stage) == RowVersion(1, 5)


def test_our_own_next_write_leaves_nothing_unread() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 5), {})
    stage.push()
    stage.reply(stage.order(), RowVersion(1, 6))
    assert next_version(stage) == RowVersion(1, 6)


def test_a_write_after_others_leaves_theirs_unread() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 5), {})
    stage.push()
    stage.reply(stage.order(), RowVersion(1, 8))
    assert next_version(stage) == RowVersion(1, 5)


def test_a_write_to_a_row_never_read_leaves_it_unread() -> None:
    stage = Stage()
    stage.push()
    stage.reply(stage.order(), RowVersion(1, 1))
    assert next_version(stage) == RowVersion()


def test_the_state_of_old_windows_is_dropped() -> None:
    stage = Stage()
    for number in range(20):
        stage.exchange.request(number * SEED)
        stage.reply(stage.order(), RowVersion(1, 1), {})
    stage.exchange.request(0)
    assert stage.order().pulls[0].seen == RowVersion()


# -- failure ----------------------------------------------------------------------------------------------------------


def test_a_failed_order_is_sent_again_the_same_with_growing_waits() -> None:
    stage = Stage(ThrottleSettings(attempts_max=4))
    stage.push()
    first = stage.order()
    waits = []
    for _ in range(3):
        failed_at = stage.now
        stage.fail()
        assert stage.order() is first
        waits.append(stage.now - failed_at)
    assert 0.025 <= waits[0] <= 0.05 <= waits[1] <= 0.1 <= waits[2] <= 0.2


def test_after_the_last_attempt_the_batch_is_dropped_and_the_store_is_unavailable() -> None:
    stage = Stage()
    stage.push()
    for _ in range(3):
        assert not stage.exchange.status(stage.now).is_unreachable
        stage.order()
        stage.fail()
    assert stage.exchange.status(stage.now).is_unreachable
    assert stage.exchange.status(stage.now).queue == 0
    assert (stage.exchange.counters.errors, stage.exchange.counters.dropped) == (3, 1)


def test_changes_made_meanwhile_are_dropped_with_it() -> None:
    stage = Stage()
    stage.push(col=1)
    stage.order()
    stage.push(col=2)
    stage.fail()
    for _ in range(2):
        stage.order()
        stage.fail()
    assert stage.exchange.counters.dropped == 2


def test_while_the_store_is_unavailable_no_changes_are_queued() -> None:
    stage = Stage()
    stage.give_up()
    for col in range(100):
        stage.push(col=col)
    assert stage.exchange.status(stage.now).queue == 0
    assert stage.exchange.counters.dropped == 101
    assert stage.order() == SyncBatch()  # a read only


def test_polls_back_off_up_to_a_bound() -> None:
    stage = Stage()
    stage.give_up()
    waits = []
    for _ in range(8):
        sent_at = stage.now
        stage.order()
        waits.append(stage.now - sent_at)
        stage.fail()
    assert 0.5 <= waits[0] <= 1.0
    assert all(PROBE.ceiling_s / 2 <= wait <= PROBE.ceiling_s for wait in waits[3:])


def test_when_the_store_is_back_everything_is_read_again() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 5), {})
    stage.give_up()
    stage.exchange.request(SEED)
    order = stage.order()
    assert order.pulls[0].seen == RowVersion()
    stage.reply(order, RowVersion(1, 5), {1: BucketState(0.7, 1)})
    assert not stage.exchange.status(stage.now).is_unreachable
    stage.push()
    assert stage.order().pushes


def test_after_an_outage_every_row_is_restored_first() -> None:
    """Changes made meanwhile are not in it, and an answer without them would undo them."""
    stage = Stage()
    stage.give_up()
    stage.reply(stage.order())  # the store is back, but nothing has been read yet
    stage.push()
    stage.reply(stage.order())
    assert stage.exchange.take() == []
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 2), {1: BucketState(0.1, 1)})
    assert stage.exchange.lost_rows() == [CELL]
    assert stage.exchange.take() == []
    stage.exchange.restore(CELL, [OverwriteBucket(0, 1, 0.8, 1)])
    stage.reply(stage.order(), RowVersion(1, 3))
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 3), {1: BucketState(0.8, 1)})
    assert stage.exchange.take()[0].updates[0].prob == 0.8
    assert stage.exchange.counters.losses == 0


def test_one_success_between_failures_resets_the_count() -> None:
    stage = Stage()
    for _ in range(5):
        stage.push()
        stage.order()
        stage.fail()
        stage.reply(stage.order())
    assert not stage.exchange.status(stage.now).is_unreachable
    assert stage.exchange.counters.errors == 5


# -- loss -------------------------------------------------------------------------------------------------------------


def lose(stage: Stage, mark: RowVersion) -> None:
    """The store had version 5 of the row, and now answers with this mark."""
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 5), {1: BucketState(0.8, 1)})
    stage.exchange.take()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), mark, {1: BucketState(0.04, 1)})


@pytest.mark.parametrize("mark", [RowVersion(), RowVersion(1, 4), RowVersion(2, 5), RowVersion(2, 900)])
def test_a_row_with_an_unexpected_version_is_lost_and_its_answer_withheld(mark: RowVersion) -> None:
    stage = Stage()
    lose(stage, mark)
    assert stage.exchange.lost_rows() == [CELL]
    assert stage.exchange.take() == []
    assert stage.exchange.counters.losses == 1


@pytest.mark.parametrize("mark", [RowVersion(1, 5), RowVersion(1, 6), RowVersion(1, 900)])
def test_a_row_that_has_only_grown_is_not(mark: RowVersion) -> None:
    stage = Stage()
    lose(stage, mark)
    assert stage.exchange.lost_rows() == []
    assert stage.exchange.take()


def test_a_loss_is_noticed_by_a_push_too() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 5), {})
    stage.push()
    stage.reply(stage.order(), RowVersion(2, 1))
    assert stage.exchange.lost_rows() == [CELL]
    assert stage.exchange.take() == []


def test_a_lost_row_is_restored_before_it_is_used_again() -> None:
    stage = Stage()
    lose(stage, RowVersion(2, 1))
    stage.exchange.restore(CELL, [OverwriteBucket(0, 1, 0.8, 1)])
    assert stage.exchange.lost_rows() == []
    stage.exchange.request(SEED)
    order = stage.order()
    assert [(restore.cell, restore.states) for restore in order.restores] == [(CELL, ((1, 0.8, 1),))]
    stage.reply(order, RowVersion(2, 2), {1: BucketState(0.8, 1)})
    stage.exchange.request(SEED)
    order = stage.order()
    assert order.pulls[0].seen == RowVersion()  # what others restored is to be read
    stage.reply(order, RowVersion(2, 3), {1: BucketState(0.9, 1)})
    assert stage.exchange.take()[0].updates[0].prob == 0.9


def test_with_nothing_to_restore_the_row_is_used_unchanged() -> None:
    stage = Stage()
    lose(stage, RowVersion(2, 1))
    stage.exchange.restore(CELL, [])
    stage.exchange.request(SEED)
    order = stage.order()
    assert order.restores == ()
    stage.reply(order, RowVersion(2, 2), {1: BucketState(0.1, 1)})
    assert stage.exchange.take()


def test_a_restore_that_could_not_be_sent_is_repeated() -> None:
    stage = Stage()
    lose(stage, RowVersion(2, 1))
    stage.exchange.restore(CELL, [OverwriteBucket(0, 1, 0.8, 1)])
    for _ in range(3):
        stage.order()
        stage.fail()
    assert stage.exchange.lost_rows() == [CELL]


def test_a_loss_during_an_outage_is_noticed_after_it() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(1, 5), {})
    stage.give_up()
    stage.exchange.request(SEED)
    stage.reply(stage.order(), RowVersion(), None)
    assert stage.exchange.lost_rows() == [CELL]


# -- peers and clocks -------------------------------------------------------------------------------------------------


def test_writers_of_a_row_are_peers() -> None:
    stage = Stage()
    stage.exchange.request(SEED)
    stage.order()
    rows = (RowState(CELL, RowVersion(1, 1), {}, {"a": 1, "b": 2, "me": 3}),)
    stage.exchange.handle(ExchangeReplied(SyncReply((), (), rows)), stage.now)
    assert stage.exchange.status(stage.now).peers == 3


@pytest.mark.parametrize(
    ("server_ms", "round_trip_s", "offset_ms"),
    [
        (10_000.0, 0.001, 0),
        (10_000.0 + OFFSET_STEP_MS, 0.001, 0),
        (15_000.4, 0.001, 5000),
        (5_000.0, 0.001, -5000),
        (10_400.0, 1.0, 0),  # less than half the round trip
        (10_600.0, 1.0, 600),
        (None, 0.001, 0),
    ],
)
def test_the_stores_clock_is_everybodys(server_ms: float | None, round_trip_s: float, offset_ms: int) -> None:
    stage = Stage()
    stage.push()
    stage.reply(stage.order(), server_ms=server_ms, round_trip_s=round_trip_s, at_ms=10_000.0)
    assert stage.exchange.status(stage.now).offset_ms == offset_ms


def test_a_small_drift_does_not_make_the_clock_jump() -> None:
    stage = Stage()
    offsets = []
    for server_ms in (15_000.0, 15_030.0, 14_970.0, 15_100.0, 10_010.0):
        stage.push()
        stage.reply(stage.order(), server_ms=server_ms, at_ms=10_000.0)
        offsets.append(stage.exchange.status(stage.now).offset_ms)
    assert offsets == [5000, 5000, 5000, 5100, 0]


def test_it_is_known_whether_the_store_has_ever_answered() -> None:
    stage = Stage()
    stage.push()
    stage.reply(stage.order())
    assert not stage.exchange.status(stage.now).has_pulled
    stage.exchange.request(SEED)
    stage.reply(stage.order())
    assert stage.exchange.status(stage.now).has_pulled


def test_in_a_hurry_what_waits_is_due_at_once() -> None:
    stage = Stage()
    stage.push()
    stage.reply(stage.order())
    stage.push()
    stage.exchange.flush_now()
    assert stage.exchange.handle(None, stage.now)
