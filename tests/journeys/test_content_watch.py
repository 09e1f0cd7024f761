"""Those who watch the pool see what they are there to see."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.publisher import Publisher
from tests.ipni.indexer.stage import ADDRESS, key_of
from tests.journeys.content_pool import CHUNK, Asker, Author
from tests.journeys.content_watch import OrderWatch, Watch


class Told(Asker):
    """Answers from a script, and then never again."""

    def __init__(self, answers: Sequence[set[bytes] | None]) -> None:
        self._answers = list(answers)
        self.is_over = asyncio.Event()

    async def find(self, url: str, multihashes: Sequence[bytes]) -> set[bytes] | None:
        if not self._answers:
            self.is_over.set()
            await asyncio.Event().wait()
        return self._answers.pop(0)


async def watched(watch: Watch | OrderWatch, told: Told) -> None:
    running = asyncio.ensure_future(watch.run())
    await told.is_over.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def late_entries(count: int) -> tuple[Author, list[bytes]]:
    publisher = await Publisher.open(key_of("p"), MemoryChain(), addresses=[ADDRESS], chunk_multihashes=CHUNK)
    author = Author("p", publisher, peer=None)  # type: ignore[arg-type]        # nobody reads from it
    return author, [(await author.write(chunks=1)).late for _ in range(count)]


async def disorders(*answers: Sequence[int] | None) -> int:
    author, late = await late_entries(3)
    told = Told([None if answer is None else {late[number] for number in answer} for answer in answers])
    watch = OrderWatch(told, {"a": "http://a"}, [author])
    await watched(watch, told)
    return len(watch.disorders)


async def test_a_chapter_that_comes_after_a_newer_one_is_seen() -> None:
    assert await disorders([2], [2], [2, 0]) == 1
    assert await disorders([1], None, [1], [1, 0, 2]) == 1


async def test_oldest_first_is_no_disorder_and_a_successor_may_begin_anywhere() -> None:
    assert await disorders([], [0], [0, 1], [0, 1, 2]) == 0
    assert await disorders([], [1], [1, 2]) == 0


async def test_what_is_required_and_not_found_is_noted_and_so_is_silence() -> None:
    told = Told([{b"a", b"b"}, {b"a"}, None])
    watch = Watch(lambda batch: told.find("", batch))
    watch.require([b"a", b"b"])
    await watched(watch, told)
    assert watch.missed == ["1 of 2, the first is 62", "no answer at all"]
