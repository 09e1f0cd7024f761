"""Opening what processes share: the ownership store and the registry, each with a bounded number of attempts."""

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

# A store is asked five times, with about eight seconds in between: enough for one that starts beside us, soon noticed.
STORE_ATTEMPTS = Backoff(first_s=0.5, ceiling_s=4.0, attempts_max=5)
_FILE = "sqlite:///"

log = logs.get("app")


async def reach_store(settings: OwnershipSettings, *, space: str | None = None) -> OwnershipStore:
    """Opens the configured ownership store."""
    where = Space(space or settings.space, is_auctioned=settings.placement == "auction")
    return await _reach(
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


async def reach_registry(settings: RegistrySettings) -> RegistryStore:
    """Opens the configured registry; the folder of a file is made if it is not there."""
    if settings.url.startswith(_FILE):
        _make_folder_of(settings.url.removeprefix(_FILE))
    return await _reach(
        "registry",
        lambda: open_registry(settings.url, clock=SystemClock(), random=system_random(), namespace=settings.namespace),
    )


async def _reach(what: str, opening: Callable[[], Awaitable[T]]) -> T:
    async def attempt() -> T:
        try:
            return await opening()
        except Unavailable as why:
            log.warning(f"{what} away", why=str(why), notice=f"the {what} does not answer ({why}); trying again")
            raise

    try:
        return await retry(attempt, STORE_ATTEMPTS, clock=SystemClock(), random=system_random())
    except Unavailable as why:
        raise Unavailable(
            f"{why} (tried {STORE_ATTEMPTS.attempts_max} times; there is no other {what} to use)"
        ) from why


def _make_folder_of(path: str) -> None:
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as why:
        raise Invalid(f"the folder {folder!r} cannot be made ({why.strerror}): set node.data_dir") from why
