"""Settings of the limits: where quotas are counted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar
from zoneinfo import ZoneInfo

from argosy.base.errors import Invalid
from argosy.base.settings import setting
from argosy.throttle.limits.backends.redis_keys import prefix
from argosy.throttle.limits.table import KEYS_MAX


@dataclass(frozen=True)
class LimitSettings:
    """Where the quotas of clients are counted."""

    SECTION: ClassVar[str] = "limits"

    store: str = setting(
        "memory://",
        doc="store of the quotas: memory:// (one process), sqlite:///FILE (one process, survives restarts), "
        "redis[s]:// (shared; also +sentinel or +cluster), http[s]:// or grpc[s]:// (a Gubernator)",
    )
    namespace: str = setting("argosy", doc="first part of every key in Redis")
    keys_max: int = setting(
        KEYS_MAX, min=1, doc="maximum number of buckets in memory or in the file; the least recently used are evicted"
    )
    zone: str = setting("UTC", doc="time zone of quotas per day or month, in memory and in the file")

    def check(self) -> Iterable[str]:
        try:
            prefix(self.namespace)
        except Invalid as wrong:
            yield str(wrong)
        try:
            ZoneInfo(self.zone)
        except (ValueError, OSError, KeyError):
            yield f"unknown time zone {self.zone!r}; use UTC, or a name such as Europe/Berlin"
