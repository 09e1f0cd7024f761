"""What the ledger needs of the store beneath it."""

from collections.abc import Awaitable, Mapping
from typing import Protocol, TypeAlias

from argosy.base.kv import OrderedKV

Changes: TypeAlias = Mapping[bytes, bytes | None]  # of a Batch or several: checked keys, None where one is deleted


class PipelinedKV(OrderedKV, Protocol):
    """An OrderedKV that tells apart when a batch can be read and when it is durable."""

    async def write_pipelined(self, changes: Changes) -> Awaitable[None]:
        """Returns when reads see the changes, all of them; what is returned ends when they are durable.

        Calls become durable in the order in which they were made, and after one that did not none does.
        """
        ...

    def check_readable(self) -> None:
        """Raises unless what is read now is the newest there is: Fenced, or Unavailable while the lease is in doubt."""
        ...
