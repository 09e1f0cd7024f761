"""Durable control-plane state: typed tables and transactions over them, on SQLite or Redis.

    store = await open_registry("sqlite:///registry.db", clock=SystemClock(), random=system_random())
    await store.run(jobs.enqueue("nightly", "rebuild", {"repo": "argosy"}))
    job = await store.run(jobs.claim("worker-1"))

Reading order: `table` (what a table is), `rows` and `tables` (all of them), `transaction` (what an operation is),
`jobs` (an example that all operation modules follow), `ports` (what a store does), then `backends/`, opened by
`factory`."""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.registry.factory import open_registry
    from argosy.registry.ports import Change, RegistryStore
    from argosy.registry.settings import RegistrySettings
    from argosy.registry.table import Table, TableIndex, TableLayout
    from argosy.registry.tables import TABLES
    from argosy.registry.transaction import Transaction, TransactionBody, transaction

__all__ = [
    "TABLES",
    "Change",
    "RegistrySettings",
    "RegistryStore",
    "Table",
    "TableIndex",
    "TableLayout",
    "Transaction",
    "TransactionBody",
    "open_registry",
    "transaction",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "argosy.registry.factory": ("open_registry",),
        "argosy.registry.ports": ("Change", "RegistryStore"),
        "argosy.registry.settings": ("RegistrySettings",),
        "argosy.registry.table": ("Table", "TableIndex", "TableLayout"),
        "argosy.registry.tables": ("TABLES",),
        "argosy.registry.transaction": ("Transaction", "TransactionBody", "transaction"),
    },
)
