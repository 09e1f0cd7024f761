"""Where an indexer listens."""

from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting


@dataclass(frozen=True)
class IndexerHttpSettings:
    """An indexer's own ports. With one port all three surfaces are on it; the original has them on 3000, 3001, 3002."""

    SECTION: ClassVar[str] = "ipni_http"

    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(3000, min=0, max=65535, doc="port of finds, and of all that has no port of its own; 0: any")
    ingest_port: int | None = setting(None, min=0, max=65535, doc="port of announcements and sync status; 0: any")
    admin_port: int | None = setting(None, min=0, max=65535, doc="port of the admin API; 0: any")
    is_private_network: bool = setting(
        False, doc="admin routes take no token, as the original's clients expect: only where nobody else can reach them"
    )
