"""The background worker: start, end, bugs of its own, and log events."""

import threading
from collections.abc import Callable

import pytest

from argosy.base.clock import SystemClock
from argosy.base.errors import Conflict, Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle import Config, FairThrottle, Outcome, RowStore, fair_throttle, telemetry
from argosy.throttle.backends.memory import MemoryRowServer
from argosy.throttle.ports import RowId, SyncBatch, SyncReply
from argosy.throttle.rows import row_rules
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.sync import ThrottleSync

CLOCK = SystemClock()
PATIENCE_S = 30.0
PACE = ThrottleSettings(flush_s=0.01, poll_s=0.01, attempts_max=1)


class FaultyRows:
    """Rows with scripted failures."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows
        self.why: Exception | None = None
        self.calls = 0
        self.is_closed = False

    def exchange(self, order: SyncBatch) -> SyncReply:
        self.calls += 1
        if self.why is not None:
            raise self.why
        return self._rows.exchange(order)

    def close(self) -> None:
        self.is_closed = True


class Stage:
    """A throttle on a store in memory behind rows that can fail."""

    def __init__(self) -> None:
        self.throttle = FairThrottle(Config(decay_per_s=0.0))
        self.store = MemoryRowServer(CLOCK)
        self.rows = FaultyRows(self.store.client(row_rules(self.throttle.config), instance="i"))
        self.metrics = Metrics()
        self.sharing = ThrottleSync(self.throttle, self.rows, PACE, instance="i", metrics=self.metrics)

    def stored(self) -> int:
        return sum(len(self.store.states(RowId(seed, row))) for seed in self.throttle.seeds for row in range(3))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def until(is_so: Callable[[], bool]) -> None:
    deadline = CLOCK.now() + PATIENCE_S
    while not is_so():
        assert CLOCK.now() < deadline, "the condition did not hold in time"


def test_a_thread_shares_and_flushes_before_it_ends(stage: Stage) -> None:
    before = set(threading.enumerate())  # some may be of earlier tests, and ending
    with stage.sharing:
        assert len(set(threading.enumerate()) - before) == 1
        stage.throttle.report("a", Outcome.FAILURE)
    assert set(threading.enumerate()) - before == set()
    assert stage.stored() == 6
    assert stage.rows.is_closed
    stage.sharing.stop()


async def test_a_task_shares_and_flushes_before_it_ends(stage: Stage) -> None:
    async with stage.sharing:
        stage.throttle.report("a", Outcome.FAILURE)
    assert stage.stored() == 6
    assert stage.rows.is_closed


def test_sharing_starts_once(stage: Stage) -> None:
    with stage.sharing, pytest.raises(Conflict, match="started already"):
        stage.sharing.start()


def test_a_bug_ends_neither_the_worker_nor_a_request(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.rows.why = ZeroDivisionError("a bug")
    with stage.sharing:
        until(lambda: "exchange failed" in caplog.text)
        assert not stage.throttle.register("a").throttled
        stage.rows.why = None
        until(lambda: stage.metrics.value(telemetry.STORE_CONNECTED) == 1)


def test_a_bug_elsewhere_in_a_turn_is_logged_and_tried_again(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage.throttle, "collect", lambda: 1 / 0)
    with stage.sharing:
        until(lambda: "synchronization round failed" in caplog.text)
        assert stage.rows.calls == 0
        monkeypatch.undo()
        until(lambda: stage.metrics.value(telemetry.STORE_CONNECTED) == 1)


def test_an_outage_and_its_end_are_each_logged_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="argosy")
    with stage.sharing:
        until(lambda: stage.metrics.value(telemetry.STORE_CONNECTED) == 1)
        stage.rows.why = Unavailable("redis at redis://:hush@host is away")
        until(lambda: stage.metrics.value(telemetry.STORE_CONNECTED) == 0)
        stage.rows.why = None
        until(lambda: stage.metrics.value(telemetry.STORE_CONNECTED) == 1)
    messages = [str(record.msg) for record in caplog.records]
    assert sum("store unreachable" in message for message in messages) == 1
    assert sum("store reachable again" in message for message in messages) == 1
    assert "hush" not in caplog.text


def test_a_different_throttle_under_the_same_name_is_logged_as_an_error(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    other = stage.store.client(row_rules(Config(buckets=9)), instance="other")
    stage.rows.why = Conflict("another throttle is here: give this one a namespace of its own")
    with stage.sharing:
        until(lambda: "state not shared" in caplog.text)
        assert not stage.throttle.register("a").throttled
    assert other.instance == "other"


def test_statistics_are_reported(stage: Stage) -> None:
    with stage.sharing:
        for _ in range(25):
            stage.throttle.report("a", Outcome.FAILURE)
        stage.throttle.register("a")
        until(lambda: stage.metrics.value(fair_throttle.REQUESTS_THROTTLED) == 1)
        until(lambda: stage.metrics.value(telemetry.UPDATE_LATENCY) > 0)
        stage.store.forget()
        until(lambda: stage.metrics.value(telemetry.ROWS_LOST) == 6)
        assert stage.metrics.value(fair_throttle.FAILURES_REPORTED) == 25
        assert stage.metrics.value(telemetry.BUCKETS_BLAMED) == 3
        assert (stage.metrics.value(telemetry.PEERS), stage.metrics.value(telemetry.GAIN)) == (1, 1)
        assert stage.metrics.value(telemetry.QUEUE_DEPTH) == 0


def test_without_an_answering_store_the_start_does_not_wait_long(stage: Stage) -> None:
    stage.rows.why = Unavailable("nobody there")
    with stage.sharing:  # one attempt, then it waits
        assert stage.sharing.storage.status(CLOCK.now()).is_unreachable
        assert not stage.throttle.register("a").throttled
