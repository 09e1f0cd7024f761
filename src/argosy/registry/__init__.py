"""What is remembered: tables as data, operations as programs, on SQLite or Redis.

    store = await open_registry("sqlite:///registry.db", clock=SystemClock(), random=system_random())
    await store.run(jobs.enqueue("nightly", "rebuild", {"repo": "argosy"}))
    job = await store.run(jobs.claim("worker-1"))

Reading order: `table` (what a table is), `rows` and `tables` (all of them), `program` (what an operation is), `jobs`
(the pattern of all operation modules), `ports` (what a store must do), then `backends/` and `factory`.
"""

from argosy.registry.ports import Change, RegistryStore
from argosy.registry.settings import RegistrySettings
from argosy.registry.table import Index, Layout, Table
from argosy.registry.tables import TABLES
from argosy.registry.transaction import Program, Transaction, transaction

__all__ = [
    "TABLES",
    "Change",
    "Index",
    "Layout",
    "Program",
    "RegistrySettings",
    "RegistryStore",
    "Table",
    "Transaction",
    "transaction",
]
