"""Whoever never stops asking: what must be found is found, and chains are applied oldest first."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from argosy.base.clock import SystemClock
from tests.journeys.content_pool import BATCH, Asker, Author

PAUSE_S = 0.02  # between two rounds: whoever is watched needs the processor, too


class Watch:
    """Asks one door for all that is `required`, over and over. A miss is one of IPN-1 if it was required before the
    question and after the answer."""

    def __init__(self, door: Callable[[Sequence[bytes]], Awaitable[set[bytes] | None]]) -> None:
        self._door = door
        self.required: set[bytes] = set()
        self.missed: list[str] = []
        self.answers = 0

    def require(self, multihashes: Iterable[bytes]) -> None:
        self.required.update(multihashes)

    def release(self, multihashes: Iterable[bytes]) -> None:
        self.required.difference_update(multihashes)

    async def run(self) -> None:
        while True:
            wanted = sorted(self.required)
            for at in range(0, len(wanted), BATCH):
                await self._ask(wanted[at : at + BATCH])
            await SystemClock().sleep(PAUSE_S)

    async def _ask(self, batch: Sequence[bytes]) -> None:
        found = await self._door(batch)
        missing = sorted((set(batch) & self.required) - (found or set()))
        self.answers += 1
        if found is None:
            self.missed.append("no answer at all")
        elif missing:
            self.missed.append(f"{len(missing)} of {len(batch)}, the first is {missing[0].hex()}")


class OrderWatch:
    """Asks every indexer for the last entry of every chapter (IPN-3).

    One that was missing in an answer and is there in the next has come after everything that the answer before had.
    """

    def __init__(self, asker: Asker, urls: Mapping[str, str], authors: Sequence[Author]) -> None:
        self._asker = asker
        self._urls = urls
        self._places = {
            chapter.late: (author.name, number) for author in authors for number, chapter in enumerate(author.chapters)
        }
        self._answers: dict[str, tuple[set[bytes], set[bytes]]] = {}
        self.disorders: list[str] = []
        self.answers = 0

    async def run(self) -> None:
        while True:
            for name, url in list(self._urls.items()):
                await self._look(name, url)
            await SystemClock().sleep(PAUSE_S)

    async def _look(self, name: str, url: str) -> None:
        found: set[bytes] = set()
        wanted = list(self._places)
        for at in range(0, len(wanted), BATCH):
            part = await self._asker.find(url, wanted[at : at + BATCH])
            if part is None:
                return
            found |= part
        self.answers += 1
        before, last = self._answers.get(name, (found, found))
        self._answers[name] = (last, found)
        for multihash in found - last:
            author, number = self._places[multihash]
            newer = [each for each in before if self._places[each][0] == author and self._places[each][1] > number]
            if newer:
                self.disorders.append(f"{name} applied chapter {number} of {author} after a newer one")
