"""Port of the registry: a store that runs transactions, publishes changes and carries notifications.

All backends answer the same sequence of calls the same way (REG-1); the contract suite in tests/contracts checks it. So
an operation is never written for one store, and a registry can be moved from one to the other.
"""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from argosy.registry.table import Table
from argosy.registry.transaction import Transaction

T = TypeVar("T")

# One item of a dump, by its kind:
#   ("jobs", {"job_id": "a", …, "version": 3})                  a row, by the name of its table
#   ("log", {"name": …, "payload": b"…", "dropped": 0})         an entry, oldest first; None: no entries left
#   ("counter", {"name": …, "value": 7, "expires_at": None})    milliseconds since 1970, or None: never
DumpItem: TypeAlias = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Change:
    """One row was written or deleted.

    `row` is set for the tables named in `watch(rows_of=…)`. It is the row as it is when the change is delivered, at
    this change's version or a later one, and None if the row no longer exists."""

    revision: int
    table: str
    key: tuple[str, ...]
    is_deleted: bool
    row: Any = None


class RegistryStore(Protocol):
    """One registry."""

    async def run(self, transaction: Transaction[T]) -> T:
        """Runs a transaction, again from its start whenever it loses a race; raises `Unavailable` after
        `transaction.ATTEMPTS_MAX` lost races. What its body raises before the commit is raised here, and nothing has
        been written."""
        ...

    async def revision(self) -> int:
        """Revision of the latest row written: where to begin a watch after listing a table."""
        ...

    def watch(self, after: int, *, rows_of: Collection[Table[Any]] = ()) -> AsyncIterator[Change]:
        """All changes after a revision, without end and without a gap. Changes of the tables in `rows_of` carry their
        row, which saves the watcher one read per change. Raises `base.errors.Gone` if the store no longer has the
        changes: list the table again, and watch from there."""
        ...

    def listen(self, channel: str) -> AsyncIterator[str]:
        """Messages sent to a channel from now on. They are stored nowhere, so a message may be lost: what must not be
        lost is a change of a row."""
        ...

    def dump(self) -> AsyncIterator[DumpItem]:
        """Everything that has not expired, for export; as of one instant where the store can do that."""
        ...

    async def close(self) -> None: ...
