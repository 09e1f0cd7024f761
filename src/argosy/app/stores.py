"""Opens the stores that processes share, the ownership store and the registry, with a bounded number of attempts."""

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from argosy.base import logs
from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid, Unavailable
from argosy.base.retry import Backoff, retry
from argosy.ownership import open_ownership_store
from argosy.ownership.model import Space
from argosy.ownership.ports import OwnershipStore
from argosy.ownership.settings import OwnershipSettings
from argosy.registry import open_registry
from argosy.registry.ports import RegistryStore
from argosy.registry.settings import RegistrySettings

T = TypeVar("T")

# Five attempts within about eight seconds: enough for a store that starts at the same time, and a quick failure
# otherwise.
STORE_ATTEMPTS = Backoff(first_s=0.5, ceiling_s=4.0, attempts_max=5)
_FILE = "sqlite:///"

log = logs.get("app")


async def connect_store(settings: OwnershipSettings, *, space: str | None = None) -> OwnershipStore:
    """Opens the configured ownership store."""
    where = Space(space or settings.space, is_auctioned=settings.placement == "auction")
    return await _connect(
        "store",
        lambda: open_ownership_store(
            settings.store,
            where,
            clock=SystemClock(),
            random=system_random(),
            grace_s=settings.grace,
            namespace=settings.namespace,
        ),
    )


async def connect_registry(settings: RegistrySettings) -> RegistryStore:
    """Opens the configured registry; creates the directory of a SQLite file."""
    if settings.url.startswith(_FILE):
        _create_parent(settings.url.removeprefix(_FILE))
    return await _connect(
        "registry",
        lambda: open_registry(settings.url, clock=SystemClock(), random=system_random(), namespace=settings.namespace),
    )


async def _connect(name: str, open_it: Callable[[], Awaitable[T]]) -> T:
    async def attempt() -> T:
        try:
            return await open_it()
        # Each attempt is logged: a container that waits for its store should not look like a hang.
        except Unavailable as error:
            log.warning(f"{name} unreachable", error=str(error), notice=f"{name} unreachable: {error}; retrying")
            raise

    try:
        return await retry(attempt, STORE_ATTEMPTS, clock=SystemClock(), random=system_random())
    except Unavailable as error:
        raise Unavailable(f"{name} unreachable after {STORE_ATTEMPTS.attempts_max} attempts: {error}") from error


def _create_parent(path: str) -> None:
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot create directory {folder!r}: {error.strerror}; set node.data_dir") from error
