"""The contract of the throttle's row stores, in memory and on a real server, and the equality of the two."""

import math
import threading
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Conflict
from argosy.throttle import BucketDelta, Config, FairThrottle, Outcome, QueueFull, RowStore, StorageService, Update
from argosy.throttle.exchange import ExchangeReplied, StoreExchange
from argosy.throttle.ports import BucketState, RowId, RowPull, RowPush, RowRestore, RowVersion, SyncBatch
from argosy.throttle.rows import SKEW_MS_MAX
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.sync import ThreadSafeStorage, ThrottleSync
from tests.contracts.throttle_stage import (
    OpenRows,
    memory_opener,
    open_throttle_rows,  # noqa: F401
    pull,
    push,
    restore,
    throttle_valkey,  # noqa: F401
    valkey_opener,
)
from tests.servers.valkey import Valkey

CLOCK = SystemClock()
CELL = RowId(1_700_000_100_000, 0)
PATIENCE_S = 20.0


def now_ms() -> int:
    return int(CLOCK.wall() * 1000)


@pytest.fixture
def open_row_store(open_throttle_rows: OpenRows) -> OpenRows:  # noqa: F811
    return open_throttle_rows


@pytest.fixture
def rows(open_row_store: OpenRows) -> RowStore:
    return open_row_store()


# -- pushing ----------------------------------------------------------------------------------------------------------


def test_a_first_push_creates_the_row(rows: RowStore) -> None:
    at = now_ms()
    written = push(rows, CELL, 1, (5, 0.04, at), (999, 0.5, at))
    assert written.states == {5: BucketState(0.04, at), 999: BucketState(0.5, at)}
    assert (written.mark.version, written.is_duplicate) == (1, False)
    assert abs(written.mark.born_us / 1000 - at) < 60_000


def test_pushes_add_up_with_decay(rows: RowStore) -> None:
    at = now_ms()
    push(rows, CELL, 1, (5, 0.5, at - 10_000))
    written = push(rows, CELL, 2, (5, 0.04, at))
    assert written.states[5].prob == pytest.approx(0.5 * math.exp(-0.1) + 0.04, abs=1e-15)
    assert written.states[5].at_ms == at
    assert written.mark.version == 2


def test_a_late_push_is_discounted_and_keeps_the_newest_time(rows: RowStore) -> None:
    at = now_ms()
    push(rows, CELL, 1, (5, 0.5, at))
    written = push(rows, CELL, 2, (5, 0.04, at - 10_000))
    assert written.states[5] == BucketState(pytest.approx(0.5 + 0.04 * math.exp(-0.1), abs=1e-15), at)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("delta", "prob"), [(1.5, 1.0), (-0.5, 0.0), (math.nan, 0.0), (math.inf, 1.0), (1e-300, 1e-300)]
)
def test_the_sum_is_clamped_to_a_probability(rows: RowStore, delta: float, prob: float) -> None:
    assert push(rows, CELL, 1, (5, delta, now_ms())).states[5].prob == prob


def test_values_are_stored_without_rounding(rows: RowStore) -> None:
    exact = 0.1 + 0.2
    push(rows, CELL, 1, (5, exact, now_ms()))
    states = pull(rows, CELL).states
    assert states is not None
    assert states[5].prob == exact


def test_a_time_too_far_ahead_is_clamped(rows: RowStore) -> None:
    at_ms = push(rows, CELL, 1, (5, 0.5, now_ms() + 3_600_000)).states[5].at_ms
    assert now_ms() - 60_000 < at_ms <= now_ms() + SKEW_MS_MAX


def test_a_batch_sent_twice_counts_once(rows: RowStore) -> None:
    at = now_ms()
    first = push(rows, CELL, 7, (5, 0.04, at))
    again = push(rows, CELL, 7, (5, 0.04, at))
    assert again.is_duplicate
    assert (again.states, again.mark) == (first.states, first.mark)
    assert push(rows, CELL, 6, (5, 0.04, at)).is_duplicate
    assert not push(rows, CELL, 8, (5, 0.04, at)).is_duplicate


def test_batch_numbers_are_per_instance(open_row_store: OpenRows) -> None:
    at = now_ms()
    push(open_row_store("one"), CELL, 7, (5, 0.04, at))
    written = push(open_row_store("two"), CELL, 1, (5, 0.04, at))
    assert not written.is_duplicate
    assert written.states[5].prob == pytest.approx(0.08)


def test_several_batches_of_one_row_fit_one_sync(rows: RowStore) -> None:
    at = now_ms()
    pushes = tuple(RowPush(CELL, number, ((5, 0.1, at),)) for number in (1, 2, 3))
    reply = rows.exchange(SyncBatch(pushes=pushes))
    assert [written.mark.version for written in reply.pushed] == [1, 2, 3]
    assert reply.pushed[-1].states[5].prob == pytest.approx(0.3)


# -- pulling ----------------------------------------------------------------------------------------------------------


def test_a_missing_row_has_no_version_and_no_states(rows: RowStore) -> None:
    row = pull(rows, CELL)
    assert (row.mark, row.states, row.writers) == (RowVersion(), None, {})
    assert pull(rows, CELL, RowVersion(1, 5)).mark == RowVersion()


def test_a_pull_returns_the_pushes_of_all_instances(open_row_store: OpenRows) -> None:
    at = now_ms()
    push(open_row_store("one"), CELL, 3, (5, 0.04, at))
    push(open_row_store("two"), CELL, 8, (9, 0.5, at))
    row = pull(open_row_store("three"), CELL)
    assert row.states == {5: BucketState(0.04, at), 9: BucketState(0.5, at)}
    assert row.writers == {"one": 3, "two": 8}


def test_an_unchanged_row_is_not_sent_again(open_row_store: OpenRows) -> None:
    one, two = open_row_store("one"), open_row_store("two")
    push(one, CELL, 1, (5, 0.04, now_ms()))
    mark = pull(two, CELL).mark
    assert pull(two, CELL, mark).states is None
    push(one, CELL, 2, (9, 0.04, now_ms()))
    assert set(pull(two, CELL, mark).states or {}) >= {9}


def test_every_change_is_sent(open_row_store: OpenRows) -> None:
    one, two = open_row_store("one"), open_row_store("two")
    at = now_ms()
    push(one, CELL, 1, *((col, 0.1, at) for col in range(100)))
    mark = pull(two, CELL).mark
    push(one, CELL, 2, (3, 0.1, at), (4, 0.0, at + 1))
    changed = pull(two, CELL, mark).states
    assert changed == {3: BucketState(0.2, at), 4: BucketState(pytest.approx(0.1, abs=1e-5), at + 1)}
    assert len(pull(two, CELL).states or {}) == 100  # without a version, everything is requested


def test_own_writes_do_not_change_the_version_but_others_do(open_row_store: OpenRows) -> None:
    one, two = open_row_store("one"), open_row_store("two")
    mark = push(one, CELL, 1, (5, 0.1, now_ms())).mark
    own = SyncBatch(pushes=(RowPush(CELL, 2, ((5, 0.1, now_ms()),)),), pulls=(RowPull(CELL, mark),))
    (row,) = one.exchange(own).pulled
    assert (row.states, row.mark.version) == (None, 2)
    push(two, CELL, 1, (9, 0.1, now_ms()))
    own = SyncBatch(pushes=(RowPush(CELL, 3, ((5, 0.1, now_ms()),)),), pulls=(RowPull(CELL, row.mark),))
    (row,) = one.exchange(own).pulled
    assert set(row.states or {}) >= {9}
    assert row.mark.version == 4


def test_a_value_changed_back_by_others_is_sent(open_row_store: OpenRows) -> None:
    """At the limits this is common: all but one push a bucket towards 1, and one pulls it down a little."""
    one, two = open_row_store("one"), open_row_store("two")
    at = now_ms()
    push(one, CELL, 1, (5, 1.0, at))
    assert pull(two, CELL).states == {5: BucketState(1.0, at)}
    mark = push(two, CELL, 1, (5, -0.1, at)).mark
    push(one, CELL, 2, (5, 0.5, at))
    assert pull(two, CELL, mark).states == {5: BucketState(1.0, at)}


def test_pulls_see_the_restores_and_pushes_of_their_own_sync(rows: RowStore) -> None:
    at = now_ms()
    push_both = RowPush(CELL, 1, ((1, 0.1, at), (2, 0.2, at)))
    order = SyncBatch((RowRestore(CELL, ((1, 0.8, at),)),), (push_both,), (RowPull(CELL, RowVersion(9, 9)),))
    (row,) = rows.exchange(order).pulled
    assert row.states == {1: BucketState(pytest.approx(0.9), at), 2: BucketState(0.2, at)}


def test_an_empty_sync_only_reads_the_time(rows: RowStore) -> None:
    reply = rows.exchange(SyncBatch())
    assert (reply.restored, reply.pushed, reply.pulled) == ((), (), ())
    assert reply.server_ms is not None
    assert abs(reply.server_ms - reply.at_ms) < 60_000


def test_many_rows_fit_one_sync_and_return_in_order(rows: RowStore) -> None:
    at = now_ms()
    cells = [RowId(CELL.seed + 300_000 * window, row) for window in range(2) for row in range(5)]
    pushes = tuple(RowPush(cell, number, ((number, 0.1, at),)) for number, cell in enumerate(cells, start=1))
    reply = rows.exchange(SyncBatch(pushes=pushes, pulls=tuple(RowPull(cell, RowVersion(1, 1)) for cell in cells)))
    assert [written.cell for written in reply.pushed] == cells
    assert [row.cell for row in reply.pulled] == cells
    assert [set(row.states or {}) for row in reply.pulled] == [{number} for number in range(1, 11)]


# -- restoring --------------------------------------------------------------------------------------------------------


def test_concurrent_restores_keep_the_greater_value(open_row_store: OpenRows) -> None:
    at = now_ms()
    push(open_row_store("one"), CELL, 1, (5, 0.04, at))
    for instance, prob in (("one", 0.8), ("two", 0.7), ("one", 0.8)):
        written = restore(open_row_store(instance), CELL, (5, prob, at), (6, 0.3, at))
    assert written.states == {5: BucketState(0.8, at), 6: BucketState(0.3, at)}
    assert not push(open_row_store("one"), CELL, 2, (5, 0.04, at)).is_duplicate


def test_a_restored_value_decays_before_the_comparison(rows: RowStore) -> None:
    at = now_ms()
    push(rows, CELL, 1, (5, 0.5, at))
    written = restore(rows, CELL, (5, 0.8, at - 100_000))  # decayed to 0.29
    assert written.states[5] == BucketState(0.5, at)
    written = restore(rows, CELL, (6, 0.4, at))
    assert written.states[6] == BucketState(0.4, at)


# -- life and names ---------------------------------------------------------------------------------------------------


def test_a_row_expires_three_windows_after_creation_despite_writes(open_row_store: OpenRows) -> None:
    rows = open_row_store(config=Config(window_s=0.1))
    written = CLOCK.now()
    born = push(rows, CELL, 1, (5, 0.1, now_ms())).mark.born_us
    learnt, deadline = CLOCK.now(), written + PATIENCE_S
    for number in count(2):
        started_at = CLOCK.now()
        assert started_at < deadline, "the machine is too busy to write twice within 0.29 s"
        mark = push(rows, CELL, number, (5, 0.1, now_ms())).mark
        if mark.born_us == born:
            assert started_at < learnt + 1.5, "the row does not expire"
        else:
            assert mark.version == 1
            assert (mark.born_us - born) / 1e6 >= 0.299
            born, learnt = mark.born_us, CLOCK.now()
            if learnt - written < 0.29:
                break  # it expired although it had just been written
        written = started_at


def test_throttles_of_other_configurations_do_not_mix(open_row_store: OpenRows) -> None:
    push(open_row_store("one"), CELL, 1, (5, 0.1, now_ms()))
    other_config = open_row_store("two", Config(buckets=500))
    with pytest.raises(Conflict, match="namespace"):
        push(other_config, CELL, 1, (5, 0.1, now_ms()))
    with pytest.raises(Conflict, match="another configuration"):
        restore(other_config, CELL, (5, 0.1, now_ms()))
    row = pull(open_row_store("one"), CELL)
    assert row.writers == {"one": 1}


def test_namespaces_isolate_throttles(open_row_store: OpenRows) -> None:
    push(open_row_store("one", namespace="a"), CELL, 1, (5, 0.1, now_ms()))
    assert pull(open_row_store("one", namespace="b"), CELL).states is None
    assert not push(open_row_store("one", Config(buckets=500), "b"), CELL, 1, (5, 0.1, now_ms())).is_duplicate


def test_instances_may_write_at_the_same_time(open_row_store: OpenRows) -> None:
    at = now_ms()

    def write(rows: RowStore) -> None:
        for number in range(1, 26):
            push(rows, CELL, number, (5, 0.001, at), (6, 0.001, at))

    writers = [threading.Thread(target=write, args=(open_row_store(f"i{number}"),)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    row = pull(open_row_store("reader"), CELL)
    assert row.states == {5: BucketState(pytest.approx(0.1), at), 6: BucketState(pytest.approx(0.1), at)}
    assert row.mark.version == 100


# -- equality of the stores -------------------------------------------------------------------------------------------

moments = st.integers(-100_000, 2 * SKEW_MS_MAX)
columns = st.integers(0, 3)
parts = st.one_of(
    st.tuples(st.just("push"), st.sampled_from(["one", "two"]), st.integers(1, 6), columns, st.floats(-1, 1), moments),
    st.tuples(st.just("restore"), st.sampled_from(["one", "two"]), st.just(0), columns, st.floats(0, 1), moments),
)
cells = count(1)


@given(script=st.lists(parts, max_size=15))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_memory_and_server_return_the_same_results(
    throttle_valkey: Valkey,  # noqa: F811
    script: list[tuple[str, str, int, int, float, int]],
) -> None:
    opened_rows: list[RowStore] = []
    stores = [memory_opener(), valkey_opener(throttle_valkey.url, opened_rows)]
    cell, at = RowId(next(cells), 0), now_ms()
    for kind, instance, number, col, value, ms_later in script:
        # Times too far ahead are clamped to the store's own time, which never repeats.
        at_ms = at + (ms_later if ms_later < 0 else 0)
        answers = [
            push(opener(instance), cell, number, (col, value, at_ms))
            if kind == "push"
            else restore(opener(instance), cell, (col, value, at_ms))
            for opener in stores
        ]
        assert answers[0].is_duplicate == answers[1].is_duplicate
        assert answers[0].mark.version == answers[1].mark.version
        assert answers[0].states[col].at_ms == answers[1].states[col].at_ms
        assert answers[0].states[col].prob == pytest.approx(answers[1].states[col].prob, abs=1e-12)
    rows = [pull(opener("reader"), cell) for opener in stores]
    assert rows[0].writers == rows[1].writers
    assert set(rows[0].states or {}) == set(rows[1].states or {})
    for each in opened_rows:
        each.close()


# -- the document's service -------------------------------------------------------------------------------------------


class Service:
    """A storage service, and the worker that drives it when the test calls it."""

    def __init__(self, rows: RowStore) -> None:
        pace = ThrottleSettings(flush_s=0.01, poll_s=0.01, queue_max=100)
        self.storage = ThreadSafeStorage(StoreExchange(Config(), pace, seeded_random(1), instance="i1"))
        self._rows = rows
        self._now = 0.0

    @property
    def port(self) -> StorageService:
        return self.storage

    def work(self) -> None:
        self._now += 1.0
        for order in self.storage.handle(None, self._now):
            self.storage.handle(ExchangeReplied(self._rows.exchange(order)), self._now)

    def receive_all(self) -> list[tuple[int, int, float, int]]:
        return [
            (bucket.row_id, bucket.col_id, bucket.prob, bucket.last_update_time_ms)
            for response in self.port.recv().take()
            if response.seed == CELL.seed
            for bucket in response.updates
        ]


@pytest.fixture
def service(rows: RowStore) -> Service:
    return Service(rows)


def test_an_update_is_committed_and_its_response_is_received_on_the_channel(service: Service) -> None:
    at = now_ms()
    service.port.update([Update(CELL.seed, [BucketDelta(0, 5, 0.25, at)])])
    assert service.receive_all() == []  # no call waits for the store
    service.work()
    assert service.receive_all() == [(0, 5, 0.25, at)]
    assert service.receive_all() == []


def test_a_request_returns_the_pushes_of_other_instances(service: Service, open_row_store: OpenRows) -> None:
    at = now_ms()
    push(open_row_store("other"), CELL, 1, (7, 0.5, at))
    service.port.request(CELL.seed)
    assert service.receive_all() == []
    service.work()
    assert service.receive_all() == [(0, 7, 0.5, at)]


def test_a_second_request_returns_only_changes(service: Service, open_row_store: OpenRows) -> None:
    at = now_ms()
    other = open_row_store("other")
    push(other, CELL, 1, (7, 0.5, at))
    for number, expected in ((2, [(0, 7, 0.5, at)]), (3, [(0, 2, 0.5, at)]), (4, [(0, 3, 0.5, at)])):
        service.port.request(CELL.seed)
        service.work()
        assert service.receive_all() == expected
        push(other, CELL, number, (number, 0.5, at))


def test_there_is_one_channel_for_the_lifetime(service: Service) -> None:
    assert service.port.recv() is service.port.recv()


def test_a_full_queue_is_an_error(service: Service) -> None:
    at = now_ms()
    service.port.update([Update(CELL.seed, [BucketDelta(0, col, 0.1, at) for col in range(100)])])
    with pytest.raises(QueueFull):
        service.port.update([Update(CELL.seed, [BucketDelta(1, 0, 0.1, at)])])
    service.work()
    service.port.update([Update(CELL.seed, [BucketDelta(1, 0, 0.1, at)])])
    service.work()
    assert len(service.receive_all()) == 101


def test_two_throttles_learn_from_each_other(open_row_store: OpenRows) -> None:
    pace = ThrottleSettings(flush_s=0.02, poll_s=0.02)
    throttles = [FairThrottle(), FairThrottle()]
    with (
        ThrottleSync(throttles[0], open_row_store("one"), pace, instance="one"),
        ThrottleSync(throttles[1], open_row_store("two"), pace, instance="two"),
    ):
        for _ in range(10):
            throttles[0].report("noisy", Outcome.FAILURE)
        deadline = CLOCK.now() + PATIENCE_S
        while throttles[1].explain("noisy").probability < 0.35:
            assert CLOCK.now() < deadline, "the other throttle did not converge"
    assert throttles[1].explain("noisy").probability == pytest.approx(
        throttles[0].explain("noisy").probability, rel=0.05
    )
