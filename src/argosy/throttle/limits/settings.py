"""The numbers of the limits: where quotas are counted, declared once, with the reason for each."""

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
    """Quotas for each client: where they are counted."""

    SECTION: ClassVar[str] = "limits"

    store: str = setting(
        "memory://",
        doc="where quotas are counted: memory:// (each process for itself), sqlite:///FILE (survives a restart), "
        "redis[s]:// or redis[s]+cluster:// (all processes together), http[s]:// or grpc[s]:// (a Gubernator)",
    )
    namespace: str = setting("argosy", doc="first part of every key in Redis")
    keys_max: int = setting(KEYS_MAX, min=1, doc="buckets kept in memory or in the file; the longest unused go first")
    zone: str = setting("UTC", doc="whose calendar ends a quota per day or month, in memory and in the file")

    def check(self) -> Iterable[str]:
        try:
            prefix(self.namespace)
        except Invalid as wrong:
            yield str(wrong)
        try:
            ZoneInfo(self.zone)
        except (ValueError, OSError, KeyError):
            yield f"there is no time zone {self.zone!r}: write UTC, or a name such as Europe/Berlin"
