"""The numbers of the assigner; the pool itself is a list and has a file of its own."""

from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting


@dataclass(frozen=True)
class AssignerSettings:
    """Which indexers ingest which publisher; what the pool file names outranks what is set here."""

    SECTION: ClassVar[str] = "assigner"

    host: str = setting("127.0.0.1", doc="address to listen on")
    port: int = setting(3001, min=0, max=65535, doc="port to listen on; 0 takes a free one")
    pool_file: str | None = setting(None, doc="JSON or TOML file with the list of indexers; read again when it changes")
    replication: int = setting(1, min=1, doc="how many indexers ingest each publisher")
    preset_replication: int = setting(1, min=1, doc="how many of its preset indexers ingest a publisher that has some")
    is_open: bool = setting(True, doc="every publisher is handled but the exceptions; if false, only they are")
    exceptions: tuple[str, ...] = setting((), doc="peer ids of publishers that are exceptions to is_open")
    forward_urls: tuple[str, ...] = setting((), doc="ingest URLs that get every announcement, whoever is assigned")
    poll_s: float = setting(
        300.0, min=0, doc="how often indexers are asked whether they have frozen, thawed or come back; 0 is never"
    )
    is_resending: bool = setting(True, doc="pass announcements on to the indexers that follow the publisher already")
    is_filtering: bool = setting(False, doc="drop private and loopback addresses from announcements")
    indexer_token: str | None = setting(None, secret=True, doc="bearer token shown to the admin APIs of the indexers")
    call_s: float = setting(10.0, min=0.1, max=600, doc="an indexer that is silent for this long is passed over")
    watch_s: float = setting(5.0, min=0.1, doc="how often the pool file is looked at for changes")
