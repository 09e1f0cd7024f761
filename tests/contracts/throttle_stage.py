"""Shared by the contract tests of the throttle's stores: one store per test, and its clients."""

import secrets
from collections.abc import Iterator
from typing import Protocol

import pytest

from argosy.base.clock import SystemClock
from argosy.throttle import Config, RowStore
from argosy.throttle.backends.memory import MemoryRowServer
from argosy.throttle.factory import open_row_store
from argosy.throttle.ports import RowId, RowPull, RowPush, RowRestore, RowState, RowVersion, RowWrite, SyncBatch
from argosy.throttle.rows import row_rules
from argosy.throttle.settings import ThrottleSettings
from tests.servers.valkey import Valkey

NEVER = RowVersion()  # no version seen yet
TIMEOUT_S = 10.0  # generous: a test that waits this long has failed anyway


class OpenRows(Protocol):
    """Opens one more client of this test's store, as a second instance does."""

    def __call__(self, instance: str = "i1", config: Config | None = None, namespace: str = "") -> RowStore: ...


@pytest.fixture(scope="session")
def throttle_valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


def memory_opener() -> OpenRows:
    store = MemoryRowServer(SystemClock())

    def open_one(instance: str = "i1", config: Config | None = None, namespace: str = "") -> RowStore:
        return store.client(row_rules(config or Config()), instance=instance, namespace=namespace)

    return open_one


def valkey_opener(url: str, opened_rows: list[RowStore]) -> OpenRows:
    test = f"t{secrets.token_hex(6)}"

    def open_one(instance: str = "i1", config: Config | None = None, namespace: str = "") -> RowStore:
        settings = ThrottleSettings(namespace=f"{test}{namespace}", call_timeout_s=TIMEOUT_S)
        rows = open_row_store(url, row_rules(config or Config()), instance=instance, settings=settings)
        opened_rows.append(rows)
        return rows

    return open_one


@pytest.fixture(params=["memory", "valkey"])
def open_throttle_rows(request: pytest.FixtureRequest) -> Iterator[OpenRows]:
    if request.param == "memory":
        yield memory_opener()
        return
    opened_rows: list[RowStore] = []
    yield valkey_opener(request.getfixturevalue("throttle_valkey").url, opened_rows)
    for rows in opened_rows:
        rows.close()


def push(rows: RowStore, cell: RowId, number: int, *deltas: tuple[int, float, int]) -> RowWrite:
    (written,) = rows.exchange(SyncBatch(pushes=(RowPush(cell, number, deltas),))).pushed
    return written


def restore(rows: RowStore, cell: RowId, *states: tuple[int, float, int]) -> RowWrite:
    (written,) = rows.exchange(SyncBatch(restores=(RowRestore(cell, states),))).restored
    return written


def pull(rows: RowStore, cell: RowId, seen: RowVersion = NEVER) -> RowState:
    (row,) = rows.exchange(SyncBatch(pulls=(RowPull(cell, seen),))).pulled
    return row
