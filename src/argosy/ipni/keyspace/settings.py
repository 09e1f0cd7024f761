"""Settings of the keyspace; its members are listed in the layout file."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting


@dataclass(frozen=True)
class KeyspaceSettings:
    """The query layer: nodes that each have a part of the multihashes, and the indexers that write to them."""

    SECTION: ClassVar[str] = "keyspace"

    layout_file: str | None = setting(
        None, doc="JSON or TOML file with the nodes of the query layer; an indexer that has one keeps no entries itself"
    )
    node: str = setting("", doc="the name of this query node in the layout file")
    dir: str = setting("{data}/keyspace", doc="Directory of a query node's part of the index.")
    is_double_hashed: bool = setting(False, doc="keep second hashes too, as ipni.is_double_hashed")
    host: str = setting("127.0.0.1", doc="address a query node listens on")
    port: int = setting(3010, min=0, max=65535, doc="port to listen on; 0 takes a free one")
    token: str | None = setting(None, secret=True, doc="bearer token that query nodes demand and their callers show")
    call_s: float = setting(10.0, min=0.1, max=600, doc="Timeout of a request to a query node.")
    unreachable_s: float = setting(2.0, min=0, max=600, doc="How long a node that did not answer is tried last.")
    attempts_max: int = setting(6, min=1, max=100, doc="Attempts per request.")
    indexer_urls: tuple[str, ...] = setting(
        (), doc="find URLs of the indexers that write to the query layer; the front asks them who the providers are"
    )
    providers_s: float = setting(30.0, min=0.1, max=86_400, doc="Interval of refreshing the providers.")
    idle_s: float = setting(1.0, min=0.01, max=3600, doc="Interval of checking for a new layout and for work.")
    page_entries: int = setting(8192, min=1, max=16_384, doc="entries that move from node to node in one request")
    clear_entries: int = setting(20_000, min=1, doc="entries deleted or swept in one go, before requests may pass")

    def check(self) -> Iterable[str]:
        if self.layout_file is not None and not self.token:
            yield "token must be set where there is a layout_file: nodes take data from whoever shows it"
