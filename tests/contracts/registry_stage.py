"""Shared by the contract tests of the registry: one store per test on each backend, and retries with a deadline.

A test uses `stage` (any number of clients of one store) or `store` (one client).
"""

import asyncio
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from argosy.base.clock import Clock, SystemClock, system_random
from argosy.registry import open_registry
from argosy.registry.ports import RegistryStore
from argosy.registry.transaction import (
    CommitResult,
    Read,
    Transaction,
    TransactionBody,
    Write,
    commit,
    read_many,
    transaction,
)
from tests.servers.valkey import Valkey

T = TypeVar("T")

BACKENDS = ("memory", "sqlite", "valkey")
RACERS = 50


class LoadingStore(RegistryStore, Protocol):
    """A store that can be filled with another store's dump."""

    async def load(self, items: AsyncIterable[tuple[str, dict[str, Any]]]) -> int: ...


class Stage:
    """One store, private to a test, that any number of clients may open."""

    def __init__(self, name: str, url: str, clock: Clock | None = None) -> None:
        self.name = name
        self._url = url
        self._clock = clock or SystemClock()
        self._namespace = f"test-{secrets.token_hex(6)}"
        self._clients: list[LoadingStore] = []

    async def open(self) -> LoadingStore:
        if self._url == "memory://" and self._clients:
            return self._clients[0]
        store = await self.reopen()
        self._clients.append(store)
        return store

    async def reopen(self) -> LoadingStore:
        """A client that the caller closes."""
        store: Any = await open_registry(
            self._url, clock=self._clock, random=system_random(), namespace=self._namespace
        )
        new_stage: LoadingStore = store
        return new_stage

    async def close(self) -> None:
        for store in self._clients:
            await store.close()


def url_of(name: str, folder: Path, server: Valkey) -> str:
    """The URL of a new store on a backend."""
    return {
        "memory": "memory://",
        "sqlite": f"sqlite:///{folder}/registry-{secrets.token_hex(4)}.db",
        "valkey": server.url,
    }[name]


@pytest.fixture(scope="session")
def registry_valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture(params=BACKENDS)
async def stage(request: pytest.FixtureRequest, tmp_path: Path, registry_valkey: Valkey) -> AsyncIterator[Stage]:
    new_stage = Stage(request.param, url_of(request.param, tmp_path, registry_valkey))
    yield new_stage
    await new_stage.close()


@pytest.fixture
async def store(stage: Stage) -> LoadingStore:
    return await stage.open()


@transaction
def reads_of(*reads: Read) -> TransactionBody[tuple[Any, ...]]:
    return (yield from read_many(*reads))


@transaction
def commit_of(*writes: Write) -> TransactionBody[CommitResult]:
    return (yield from commit(*writes))


async def answer(store: RegistryStore, read: Read) -> Any:
    return (await store.run(reads_of(read)))[0]


async def race(stores: Sequence[RegistryStore], programs: Sequence[Transaction[T]]) -> list[T | BaseException]:
    """Run all programs concurrently over the clients; an exception is an outcome too."""
    calls = [stores[n % len(stores)].run(program) for n, program in enumerate(programs)]
    return await asyncio.gather(*calls, return_exceptions=True)


def results(outcomes: Sequence[T | BaseException]) -> list[T]:
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def errors(outcomes: Sequence[object]) -> list[type]:
    return [type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]
