"""What the parts of one indexer share: the store, the tables kept in memory, and the surroundings of the process."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from argosy.base.clock import Clock
from argosy.base.metrics import Metrics
from argosy.ipni.indexer.policy import PeerPolicy
from argosy.ipni.indexer.provider_table import ProviderTable
from argosy.ipni.indexer.sync_state import SyncState
from argosy.ipni.ports import IndexStore
from argosy.ipni.settings import IndexerSettings


class ProviderLocks(Protocol):
    """A lock by provider id."""

    def hold(self, key: str) -> AbstractAsyncContextManager[None]: ...


@dataclass(frozen=True)
class SharedState:
    """One instance per indexer, so that every part sees the same tables and takes the same locks."""

    store: IndexStore
    settings: IndexerSettings
    metrics: Metrics
    clock: Clock
    policy: PeerPolicy
    sync_state: SyncState
    # Several publishers may advertise for one provider: its row changes under its lock only.
    provider_locks: ProviderLocks
    providers: ProviderTable = field(default_factory=ProviderTable)
