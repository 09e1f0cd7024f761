"""Everything of one store written out, or read back into another; on files and stores that the caller has opened.

The format is in `exchange`. A file is walked twice, once to check all of it and once to store it, so that nothing is
stored of a file that is damaged anywhere.
"""

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from typing import IO, Protocol, TypeAlias, runtime_checkable

from argosy.registry.export_format import (
    LINE_BYTES_MAX,
    Header,
    Item,
    check_item,
    end_line,
    header_line,
    item_line,
    read_header,
    read_items,
)
from argosy.registry.ports import RegistryStore

STEP = 500  # items between two words about progress

Counts: TypeAlias = Counter[str]  # items by table, and of logs and counters
Say: TypeAlias = Callable[[int], None]  # is told how many items are done


class Movable(RegistryStore, Protocol):
    """A store that can also be filled with what another has dumped."""

    async def load(self, items: AsyncIterable[Item]) -> int:
        """Stores items as they are into an empty registry, and says how many; Conflict if it is not empty."""
        ...


@runtime_checkable
class SelfChecking(Protocol):
    """A store that can look itself over."""

    async def check(self) -> list[str]:
        """What is wrong with the store itself, whatever lies in it; nothing if all is well."""
        ...


async def write_out(store: RegistryStore, out: IO[bytes], say: Say) -> Counts:
    """Everything the store holds, as lines."""
    counts: Counts = Counter()
    out.write(header_line(await store.revision()))
    async for item in store.dump():
        out.write(item_line(item))
        _count(counts, item, say)
    out.write(end_line(counts.total()))
    return counts


class RegistryExport:
    """A file that has been read to its end and is in order."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.header: Header
        self.counts: Counts = Counter(kind for kind, _ in self._items())

    async def read_into(self, store: Movable, say: Say) -> None:
        stored = await store.load(self._told(say))
        assert stored == self.counts.total(), f"{stored} of {self.counts.total()} items were stored"

    async def _told(self, say: Say) -> AsyncIterator[Item]:
        counts: Counts = Counter()
        for item in self._items():
            yield item
            _count(counts, item, say)

    def _items(self) -> Iterator[Item]:
        self._file.seek(0)
        # A line that is too long comes cut, and is refused by its length.
        lines = iter(lambda: self._file.readline(LINE_BYTES_MAX + 1), b"")
        self.header = read_header(next(lines, b""))
        yield from read_items(lines)


async def check_store(store: RegistryStore, say: Say) -> tuple[Counts, list[str]]:
    """Reads everything, and says what is wrong. What passes can be moved elsewhere."""
    counts: Counts = Counter()
    troubles = await store.check() if isinstance(store, SelfChecking) else []
    try:
        async for item in store.dump():
            _count(counts, item, say)
            troubles += check_item(item)
    except (ValueError, LookupError, TypeError) as error:  # what decoding raises at a damaged row
        troubles.append(f"nothing can be read after {counts.total()} items: {type(error).__name__}: {error}")
    return counts, troubles


def _count(counts: Counts, item: Item, say: Say) -> None:
    counts[item[0]] += 1
    if counts.total() % STEP == 0:
        say(counts.total())
