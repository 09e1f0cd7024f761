"""The port of the registry: a store that runs programs, tells changes and carries messages.

Every backend answers the same sequence of calls the same way (REG-1); tests/contracts holds them to it.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from argosy.registry.transaction import Transaction

T = TypeVar("T")


@dataclass(frozen=True)
class Change:
    """One row was written or deleted."""

    revision: int
    table: str
    key: tuple[str, ...]
    is_deleted: bool


class RegistryStore(Protocol):
    """What is remembered."""

    async def run(self, transaction: Transaction[T]) -> T:
        """Runs a program, from its start as often as it loses a race; Unavailable after `program.ATTEMPTS_MAX` losses.
        What the program raises before its commit is raised here, and nothing has been written."""
        ...

    async def revision(self) -> int:
        """Of the latest row written: where a watch begins that has listed everything before."""
        ...

    def watch(self, after: int) -> AsyncIterator[Change]:
        """All changes after a revision, for ever; `base.errors.Gone` if the store no longer knows them: list again."""
        ...

    def listen(self, channel: str) -> AsyncIterator[str]:
        """Messages told on a channel from now on."""
        ...

    def dump(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Everything, as (table, values with version) pairs, of one instant as far as the store can: for export."""
        ...

    async def close(self) -> None: ...
