"""The stores that the contract suites run on: one in memory, one real Valkey and two real etcds per test process."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

import pytest

from argosy.base.clock import SystemClock, system_random
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.factory import open_ownership_store as open_by_url
from argosy.ownership.model import Space
from argosy.ownership.ports import OwnershipStore
from tests.contracts.registry_stage import registry_valkey, stage, store  # noqa: F401
from tests.contracts.stage import OpenStore
from tests.servers.etcd import Etcd, NewEtcd
from tests.servers.valkey import Valkey
from tests.servers.valkey_groups import run_sentinel

BACKENDS = ("memory", "valkey", "sentinel", "etcd", "new_etcd")  # 3.5.1 and 3.6


BUILD_S_MAX = 1200  # the first test on the newer etcd may have to build it, in parallel with other tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "[new_etcd" in item.nodeid:
            item.add_marker(pytest.mark.timeout(BUILD_S_MAX))


class Server(Protocol):
    """The operations on a store's server that the suites use."""

    @property
    def url(self) -> str: ...
    def restart(self) -> None: ...


class Backend(ABC):
    """One store, private to a test, that any number of clients may open."""

    def __init__(self) -> None:
        self._clients: list[OwnershipStore] = []

    async def open(self, space: Space, grace_s: float = 0.0) -> OwnershipStore:
        client = await self._open(space, grace_s)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    @abstractmethod
    async def _open(self, space: Space, grace_s: float) -> OwnershipStore: ...


class MemoryBackend(Backend):
    def __init__(self) -> None:
        super().__init__()
        self._stores: dict[Space, MemoryOwnershipStore] = {}

    async def _open(self, space: Space, grace_s: float) -> OwnershipStore:
        if space not in self._stores:
            self._stores[space] = MemoryOwnershipStore(
                space, clock=SystemClock(), random=system_random(), grace_s=grace_s
            )
        return self._stores[space]


class ServerBackend(Backend):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._namespace = f"test-{secrets.token_hex(6)}"

    def restart(self) -> None:
        """The server stops cleanly and restarts with all its data."""
        self._server.restart()

    async def _open(self, space: Space, grace_s: float) -> OwnershipStore:
        return await open_by_url(
            self._server.url,
            space,
            clock=SystemClock(),
            random=system_random(),
            grace_s=grace_s,
            namespace=self._namespace,
        )


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Valkey]:
    with Valkey(is_durable=True) as server:
        yield server


class BehindSentinel:
    """A primary and a replica, found through Sentinel."""

    def __init__(self, url: str, primary: Valkey) -> None:
        self.url = url
        self._primary = primary

    def restart(self) -> None:
        self._primary.restart()


@pytest.fixture(scope="session")
def sentinel_server() -> Iterator[BehindSentinel]:
    # A restart of the primary must not trigger a failover.
    with (
        Valkey(is_durable=True) as primary,
        Valkey() as replica,
        run_sentinel(primary, replica, down_after_ms=60_000) as url,
    ):
        yield BehindSentinel(url, primary)


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[Etcd]:
    with Etcd() as server:
        yield server


@pytest.fixture(scope="session")
def new_etcd_server() -> Iterator[NewEtcd]:
    with NewEtcd() as server:
        yield server


@pytest.fixture(params=BACKENDS)
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    if request.param == "memory":
        client: Backend = MemoryBackend()
    else:
        client = ServerBackend(request.getfixturevalue(f"{request.param}_server"))
    yield client
    await client.close()


@pytest.fixture
def open_store(backend: Backend) -> OpenStore:
    """Opens a client of this test's store; all clients of one test share its state."""
    return backend.open
