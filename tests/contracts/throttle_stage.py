"""What the contract tests of the throttle's stores share: one store per test, and clients of it."""

import secrets
from collections.abc import Iterator
from typing import Protocol

import pytest

from argosy.base.clock import SystemClock
from argosy.throttle import Config, Rows
from argosy.throttle.backends.memory import MemoryStore
from argosy.throttle.backends.opening import open_rows
from argosy.throttle.ports import Cell, Order, Pull, Push, Restore, RowMark, RowState, Written
from argosy.throttle.rows import rules_of
from argosy.throttle.settings import ThrottleSettings
from tests.servers.valkey import Valkey

NEVER = RowMark()  # nothing was seen yet
TIMEOUT_S = 10.0  # the machine may be busy; a test that waits this long has failed anyway


class OpenRows(Protocol):
    """Opens one more client of this test's store, as another instance would."""

    def __call__(self, instance: str = "i1", config: Config | None = None, namespace: str = "") -> Rows: ...


@pytest.fixture(scope="session")
def throttle_valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


def memory_opener() -> OpenRows:
    store = MemoryStore(SystemClock())

    def open_one(instance: str = "i1", config: Config | None = None, namespace: str = "") -> Rows:
        return store.client(rules_of(config or Config()), instance=instance, namespace=namespace)

    return open_one


def valkey_opener(url: str, opened: list[Rows]) -> OpenRows:
    test = f"t{secrets.token_hex(6)}"

    def open_one(instance: str = "i1", config: Config | None = None, namespace: str = "") -> Rows:
        settings = ThrottleSettings(namespace=f"{test}{namespace}", call_timeout_s=TIMEOUT_S)
        rows = open_rows(url, rules_of(config or Config()), instance=instance, settings=settings)
        opened.append(rows)
        return rows

    return open_one


@pytest.fixture(params=["memory", "valkey"])
def open_throttle_rows(request: pytest.FixtureRequest) -> Iterator[OpenRows]:
    if request.param == "memory":
        yield memory_opener()
        return
    opened: list[Rows] = []
    yield valkey_opener(request.getfixturevalue("throttle_valkey").url, opened)
    for rows in opened:
        rows.close()


def push(rows: Rows, cell: Cell, number: int, *deltas: tuple[int, float, int]) -> Written:
    (written,) = rows.exchange(Order(pushes=(Push(cell, number, deltas),))).pushed
    return written


def restore(rows: Rows, cell: Cell, *states: tuple[int, float, int]) -> Written:
    (written,) = rows.exchange(Order(restores=(Restore(cell, states),))).restored
    return written


def pull(rows: Rows, cell: Cell, seen: RowMark = NEVER) -> RowState:
    (row,) = rows.exchange(Order(pulls=(Pull(cell, seen),))).pulled
    return row
