"""Settings of the assigner; the pool itself has its own file."""

from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting


@dataclass(frozen=True)
class AssignerSettings:
    """Assignment of publishers to indexers; the pool file overrides these settings."""

    SECTION: ClassVar[str] = "assigner"

    host: str = setting("127.0.0.1", doc="Address to listen on.")
    port: int = setting(3001, min=0, max=65535, doc="port to listen on; 0 takes a free one")
    pool_file: str | None = setting(None, doc="JSON or TOML file with the list of indexers; read again when it changes")
    replication: int = setting(1, min=1, doc="how many indexers ingest each publisher")
    preset_replication: int = setting(1, min=1, doc="how many of its preset indexers ingest a publisher that has some")
    is_open: bool = setting(True, doc="every publisher is handled but the exceptions; if false, only they are")
    exceptions: tuple[str, ...] = setting((), doc="peer ids of publishers that are exceptions to is_open")
    forward_urls: tuple[str, ...] = setting(
        (), doc="Ingest URLs that receive every announcement, regardless of assignment."
    )
    poll_s: float = setting(300.0, min=0, doc="Interval of polling the indexers for their state; 0 disables polling.")
    is_resending: bool = setting(True, doc="pass announcements on to the indexers that follow the publisher already")
    is_filtering: bool = setting(False, doc="drop private and loopback addresses from announcements")
    indexer_token: str | None = setting(None, secret=True, doc="Bearer token for the admin APIs of the indexers.")
    call_s: float = setting(10.0, min=0.1, max=600, doc="Timeout of a request to an indexer.")
    watch_s: float = setting(5.0, min=0.1, doc="Interval of checking the pool file for changes.")
