"""Where the registry is, declared once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

_EMBEDDED = ("sqlite:", "memory:")


@dataclass(frozen=True)
class RegistrySettings:
    """What is remembered: the store of everything operators have asked for."""

    SECTION: ClassVar[str] = "registry"

    url: str = setting(
        "sqlite:///{data}/registry.db",
        doc="where it lives: sqlite:///relative.db, sqlite:////absolute.db (one machine), redis[s]:// or "
        "valkey[s]:// (many; also +sentinel or +cluster), memory:// (forgotten at the end)",
    )
    namespace: str = setting("argosy", doc="first part of every key in Redis, so that several fleets can share one")
    is_shared: bool = setting(
        False, doc="several gateways use this registry: one that only this machine can see is then refused"
    )

    def check(self) -> Iterable[str]:
        if self.is_shared and self.url.startswith(_EMBEDDED):
            yield f"is_shared needs a registry that all gateways reach, such as redis://, not {self.url}"
        if "://" not in self.url:
            yield f"url names a registry as sqlite:///file.db or redis://host:port, not {self.url!r}"
