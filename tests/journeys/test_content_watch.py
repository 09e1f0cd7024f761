"""The checkers of the content index tests detect the violations they exist for."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.indexer.stage import ADDRESS, key_of
from tests.journeys.content_pool import CHUNK, Author, ContentClient
from tests.journeys.content_watch import OrderWatch, Watch


class ScriptedClient(ContentClient):
    """Returns scripted responses, then blocks."""

    def __init__(self, answers: Sequence[set[bytes] | None]) -> None:
        self._answers = list(answers)
        self.is_over = asyncio.Event()

    async def find(self, url: str, multihashes: Sequence[bytes]) -> set[bytes] | None:
        if not self._answers:
            self.is_over.set()
            await asyncio.Event().wait()
        return self._answers.pop(0)


async def run_until_exhausted(watch: Watch | OrderWatch, client: ScriptedClient) -> None:
    running = asyncio.ensure_future(watch.run())
    await client.is_over.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def late_entries(count: int) -> tuple[Author, list[bytes]]:
    publisher = await Publisher.open(key_of("p"), MemoryChain(), addresses=[ADDRESS], chunk_multihashes=CHUNK)
    author = Author("p", publisher, peer=None)  # type: ignore[arg-type]        # never read from
    return author, [(await author.write(chunks=1)).late for _ in range(count)]


async def disorders(*answers: Sequence[int] | None) -> int:
    author, late = await late_entries(3)
    client = ScriptedClient([None if answer is None else {late[number] for number in answer} for answer in answers])
    watch = OrderWatch(client, {"a": "http://a"}, [author])
    await run_until_exhausted(watch, client)
    return len(watch.disorders)


async def test_a_chapter_applied_after_a_newer_one_is_reported() -> None:
    assert await disorders([2], [2], [2, 0]) == 1
    assert await disorders([1], None, [1], [1, 0, 2]) == 1


async def test_oldest_first_is_valid_and_a_successor_may_start_anywhere() -> None:
    assert await disorders([], [0], [0, 1], [0, 1, 2]) == 0
    assert await disorders([], [1], [1, 2]) == 0


async def test_missing_required_multihashes_and_missing_responses_are_reported() -> None:
    client = ScriptedClient([{b"a", b"b"}, {b"a"}, None])
    watch = Watch(lambda batch: client.find("", batch))
    watch.require([b"a", b"b"])
    await run_until_exhausted(watch, client)
    assert watch.missed == ["1 of 2 missing, first: 62", "no response"]
