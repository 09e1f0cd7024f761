"""Continuous requests during a test: required multihashes must be found, and chains must be applied oldest first."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from argosy.base.clock import SystemClock
from tests.journeys.content_pool import BATCH, Author, ContentClient

PAUSE_S = 0.02  # between two rounds: leaves processor time to the processes under test


class Watch:
    """Requests all `required` multihashes from one gateway in a loop. A miss violates IPN-1 if the multihash was
    required before the request and after the response."""

    def __init__(self, find: Callable[[Sequence[bytes]], Awaitable[set[bytes] | None]]) -> None:
        self._find = find
        self.required: set[bytes] = set()
        self.missed: list[str] = []
        self.answers = 0

    def require(self, multihashes: Iterable[bytes]) -> None:
        self.required.update(multihashes)

    def release(self, multihashes: Iterable[bytes]) -> None:
        self.required.difference_update(multihashes)

    async def run(self) -> None:
        while True:
            requested = sorted(self.required)
            for at in range(0, len(requested), BATCH):
                await self._request(requested[at : at + BATCH])
            await SystemClock().sleep(PAUSE_S)

    async def _request(self, batch: Sequence[bytes]) -> None:
        found = await self._find(batch)
        missing = sorted((set(batch) & self.required) - (found or set()))
        self.answers += 1
        if found is None:
            self.missed.append("no response")
        elif missing:
            self.missed.append(f"{len(missing)} of {len(batch)} missing, first: {missing[0].hex()}")


class OrderWatch:
    """Requests the last entry of every chapter from every indexer (IPN-3).

    An entry that is missing in one response and present in the next was applied after everything in the first response.
    """

    def __init__(self, client: ContentClient, urls: Mapping[str, str], authors: Sequence[Author]) -> None:
        self._client = client
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
                await self._check_order(name, url)
            await SystemClock().sleep(PAUSE_S)

    async def _check_order(self, name: str, url: str) -> None:
        found: set[bytes] = set()
        requested = list(self._places)
        for at in range(0, len(requested), BATCH):
            part = await self._client.find(url, requested[at : at + BATCH])
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
