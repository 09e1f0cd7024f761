"""Settings of the registry."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

_EMBEDDED = ("sqlite:", "memory:")


@dataclass(frozen=True)
class RegistrySettings:
    """Registry: catalog and control-plane state."""

    SECTION: ClassVar[str] = "registry"

    url: str = setting(
        "sqlite:///{data}/registry.db",
        doc="store of the registry: sqlite:///relative.db, sqlite:////absolute.db (one machine), redis[s]:// or "
        "valkey[s]:// (several; also +sentinel or +cluster), memory:// (lost at exit)",
    )
    namespace: str = setting(
        "argosy", doc="first part of every key in Redis, so that several fleets can share one server"
    )
    is_shared: bool = setting(
        False, doc="several gateways share this registry; a store on one machine only is then rejected"
    )

    def check(self) -> Iterable[str]:
        if self.is_shared and self.url.startswith(_EMBEDDED):
            yield f"is_shared requires a registry that all gateways can reach, such as redis://, not {self.url}"
        if "://" not in self.url:
            yield f"url must have the form sqlite:///file.db or redis://host:port, not {self.url!r}"
