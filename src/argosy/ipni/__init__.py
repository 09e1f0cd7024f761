"""The content index: which repositories and providers have content with a given hash, wire-compatible with IPNI.

    publisher = await Publisher.open(PrivateKey.generate(), chain_store, addresses=[address])
    indexer = await IndexerService.open(store, HttpSources(), usage=DiskUsage([path]))
    app = indexer_app(indexer, clock=clock, metrics=metrics)
    async with IndexerClient(find_url="http://127.0.0.1:3000") as client: ...

A publisher signs a chain of advertisements; indexers read the chain and answer who has which multihash; an assigner
distributes publishers over a pool of indexers; the keyspace spreads one index over many nodes.

Reading order: `model` (the data), `ports` (store, publisher, and the find, ingest and admin APIs), `formats` (IPNI's
encodings), `publish`, `sync` (reading chains over HTTP), `indexer`, `backends` (the index stores), `web` (the HTTP
APIs), `indexer_client`, `assigner`, `keyspace`.
"""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.ipni.assigner.runtime import Assigner
    from argosy.ipni.formats.cid import Cid
    from argosy.ipni.formats.peer import PrivateKey, PublicKey
    from argosy.ipni.indexer.service import IndexerService
    from argosy.ipni.indexer_client import IndexerClient
    from argosy.ipni.model import Assignment, IndexerStatus, IndexValue, Peer, Provider, ProviderResult
    from argosy.ipni.ports import AdminApi, FindApi, IndexerApi, IndexStore, IngestApi, PublisherSource
    from argosy.ipni.publish.head_announcer import AnnounceClient, HeadAnnouncer
    from argosy.ipni.publish.http import publisher_app
    from argosy.ipni.publish.ports import ChainStore, PublishedContext
    from argosy.ipni.publish.publisher import Publisher, ReadOnlyChain
    from argosy.ipni.settings import (
        AssignerSettings,
        IndexerHttpSettings,
        IndexerSettings,
        KeyspaceSettings,
        SyncSettings,
    )
    from argosy.ipni.sync.client import HttpSources
    from argosy.ipni.web.app import admin_app, find_app, indexer_app, ingest_app

_EXPORTS = {
    "argosy.ipni.assigner.runtime": ("Assigner",),
    "argosy.ipni.formats.cid": ("Cid",),
    "argosy.ipni.formats.peer": ("PrivateKey", "PublicKey"),
    "argosy.ipni.indexer.service": ("IndexerService",),
    "argosy.ipni.indexer_client": ("IndexerClient",),
    "argosy.ipni.model": (
        "Assignment",
        "IndexValue",
        "IndexerStatus",
        "Peer",
        "Provider",
        "ProviderResult",
    ),
    "argosy.ipni.ports": (
        "AdminApi",
        "FindApi",
        "IndexStore",
        "IndexerApi",
        "IngestApi",
        "PublisherSource",
    ),
    "argosy.ipni.publish.head_announcer": ("AnnounceClient", "HeadAnnouncer"),
    "argosy.ipni.publish.http": ("publisher_app",),
    "argosy.ipni.publish.ports": ("ChainStore", "PublishedContext"),
    "argosy.ipni.publish.publisher": ("Publisher", "ReadOnlyChain"),
    "argosy.ipni.settings": (
        "AssignerSettings",
        "IndexerHttpSettings",
        "IndexerSettings",
        "KeyspaceSettings",
        "SyncSettings",
    ),
    "argosy.ipni.sync.client": ("HttpSources",),
    "argosy.ipni.web.app": ("admin_app", "find_app", "indexer_app", "ingest_app"),
}

__all__ = [
    "AdminApi",
    "AnnounceClient",
    "Assigner",
    "AssignerSettings",
    "Assignment",
    "ChainStore",
    "Cid",
    "FindApi",
    "HeadAnnouncer",
    "HttpSources",
    "IndexStore",
    "IndexValue",
    "IndexerApi",
    "IndexerClient",
    "IndexerHttpSettings",
    "IndexerService",
    "IndexerSettings",
    "IndexerStatus",
    "IngestApi",
    "KeyspaceSettings",
    "Peer",
    "PrivateKey",
    "Provider",
    "ProviderResult",
    "PublicKey",
    "PublishedContext",
    "Publisher",
    "PublisherSource",
    "ReadOnlyChain",
    "SyncSettings",
    "admin_app",
    "find_app",
    "indexer_app",
    "ingest_app",
    "publisher_app",
]

__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
