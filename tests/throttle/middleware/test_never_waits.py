"""THR-2: no request waits on the shared store, tested at the middleware."""

import threading
from typing import Any

from argosy.base.clock import SystemClock
from argosy.throttle import FairThrottle, RowStore, ThrottleSettings
from argosy.throttle.backends.memory import MemoryRowServer
from argosy.throttle.middleware import FairAdmission
from argosy.throttle.ports import SyncBatch, SyncReply
from argosy.throttle.rows import row_rules
from argosy.throttle.sync import ThrottleSync
from tests.throttle.middleware.stage import (
    PATIENCE_S,
    Played,
    answering,
    asgi_server,
    blame,
    blamed,
    scope_of,
    throttle_of,
)

CLIENT = "address:192.0.2.1"


def steps(app: Any) -> int:
    """How often a request yields to the event loop before it is answered, in an application that never does."""
    played = Played()
    request = app(scope_of(), played.receive, played.send)
    count = 0
    while True:
        try:
            request.send(None)
        except StopIteration:
            assert played.sent
            return count
        count += 1


def test_admission_never_yields_to_the_event_loop() -> None:
    throttle = throttle_of()
    throttle.share()
    assert steps(FairAdmission(answering(200), throttle)) == 0
    assert steps(FairAdmission(answering(503), throttle)) == 0
    blame(throttle, CLIENT)
    assert steps(FairAdmission(answering(200), throttle)) == 0, "a rejection is answered at once, too"


class Stuck:
    """Rows whose store accepts a call and does not answer until it is released."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows
        self.is_called = threading.Event()
        self.is_released = threading.Event()

    def exchange(self, order: SyncBatch) -> SyncReply:
        self.is_called.set()
        assert self.is_released.wait(PATIENCE_S)
        return self._rows.exchange(order)

    def close(self) -> None:
        self._rows.close()


def test_requests_are_decided_and_reported_while_the_store_hangs() -> None:
    throttle = FairThrottle()
    store = MemoryRowServer(SystemClock())
    rows = Stuck(store.client(row_rules(throttle.config), instance="i"))
    settings = ThrottleSettings(flush_s=0.01, poll_s=0.01, cold_start_s=0.0)
    client = "address:127.0.0.1"
    with ThrottleSync(throttle, rows, settings, instance="i"):
        try:
            with asgi_server(FairAdmission(answering(503), throttle)) as browser:
                assert rows.is_called.wait(PATIENCE_S)
                statuses = [browser.get().status for _ in range(200)]
            assert 503 in statuses
            assert 429 in statuses
            assert blamed(throttle, client) > 0.5
            assert not rows.is_released.is_set()
        finally:
            rows.is_released.set()
