"""The threads of a search node: a cancelled job ends, and a received index is complete or rejected."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from argosy.base.errors import Invalid, Unavailable
from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.documents import Content, Entry
from argosy.search.fleet import build_executor
from argosy.search.fleet.build_executor import CHUNKS_MAX, BuildExecutor
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.index.sections import Damage
from argosy.search.index.wire import dump
from argosy.search.model import Repository
from argosy.search.settings import SearchSettings
from argosy.search.skip_policy import Policy
from tests.search.fleet.fleet_fixture import until

TEXT = b"some text of a ship's log, over and over\n"


@pytest.fixture
async def executor() -> AsyncIterator[BuildExecutor]:
    executor = BuildExecutor(SearchSettings(with_symbols=False))
    yield executor
    executor.close()


def files(count: int, copies: int = 1000) -> list[MemoryFile]:
    return [MemoryFile(b"log%d.txt" % number, TEXT * copies + b"%d\n" % number) for number in range(count)]


@pytest.fixture(scope="module")
def index() -> Index:
    """A few megabytes, so that there are more chunks than wait at a time."""
    return build(MemorySource(Repository("a"), files(400)), Policy(), with_symbols=False)


class Huge(MemorySource):
    """Takes much longer than anybody would wait."""

    is_closed = False

    def __init__(self) -> None:
        super().__init__(Repository("a"), files(1))

    def entries(self) -> list[Entry]:
        (entry,) = super().entries()
        return [Entry(b"%d" % number, b"%d" % number, 250 * len(TEXT), entry.branches) for number in range(20_000)]

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        try:
            for _ in entries:
                yield 250 * TEXT
        finally:
            self.is_closed = True


async def test_a_cancelled_build_ends_and_closes_its_source(executor: BuildExecutor) -> None:
    source, progress = Huge(), list[float]()
    building = asyncio.ensure_future(executor.build(source, None, progress.append))
    await until(lambda: progress)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert source.is_closed
    assert 0.0 < progress[-1] < 1.0


async def test_a_build_reports_its_progress(executor: BuildExecutor) -> None:
    progress: list[float] = []
    result = await executor.build(MemorySource(Repository("a"), files(60)), None, progress.append)
    assert result.repository.name == "a"
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


class Sender:
    """Sends chunks on request."""

    def __init__(self, chunks: Sequence[bytes], why: Exception | None = None) -> None:
        self.chunks = chunks
        self.why = why
        self.sent = 0
        self.is_over = False

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            for chunk in self.chunks:
                self.sent += 1
                yield chunk
            if self.why is not None:
                raise self.why
        finally:
            self.is_over = True


async def test_an_index_arrives_whole_however_it_is_cut(executor: BuildExecutor, index: Index) -> None:
    whole = b"".join(dump(index))
    for size in (len(whole), 1 << 20, 10_007):
        chunks = [whole[start : start + size] for start in range(0, len(whole), size)]
        arrived = await executor.receive(Sender(chunks).stream())
        assert b"".join(dump(arrived)) == whole
        assert await executor.verify(arrived) == []


async def test_a_broken_stream_is_reported_with_its_cause(executor: BuildExecutor, index: Index) -> None:
    chunks = list(dump(index))
    with pytest.raises(Unavailable, match="n2 is gone"):
        await executor.receive(Sender(chunks[:-1], Unavailable("n2 is gone")).stream())
    with pytest.raises(Invalid, match="or more short"):
        await executor.receive(Sender(chunks[:-1]).stream())


async def test_data_that_is_no_index_is_rejected_without_reading_on(executor: BuildExecutor) -> None:
    sender = Sender([b"x" * (1 << 20)] * 1000)
    with pytest.raises(Invalid, match="not an index"):
        await executor.receive(sender.stream())
    assert sender.sent < 1000
    await until(lambda: sender.is_over)


async def test_a_fast_sender_is_held_back(executor: BuildExecutor, index: Index) -> None:
    """The threads are all busy, so nothing is unpacked; no more than a few chunks wait meanwhile."""
    gate = threading.Event()
    busy = [asyncio.ensure_future(executor.run(gate.wait)) for _ in range(executor._pool._max_workers)]
    sender = Sender([b"x" * (1 << 20)] * 1000)
    receiving = asyncio.ensure_future(executor.receive(sender.stream()))
    await until(lambda: sender.sent == CHUNKS_MAX + 1)
    for _ in range(50):
        await asyncio.sleep(0)
    assert sender.sent == CHUNKS_MAX + 1
    gate.set()
    with pytest.raises(Invalid, match="not an index"):
        await receiving
    await asyncio.gather(*busy)


async def test_a_silent_sender_times_out(
    executor: BuildExecutor, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_executor, "STALL_S", 0.05)

    async def silent() -> AsyncIterator[bytes]:
        yield next(dump(index))
        await asyncio.Event().wait()

    with pytest.raises(Unavailable, match="silent"):
        await executor.receive(silent())


async def test_a_cancelled_transfer_ends(executor: BuildExecutor, index: Index) -> None:
    held = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield next(dump(index))
        held.set()
        await asyncio.Event().wait()

    receiving = asyncio.ensure_future(executor.receive(slow()))
    await held.wait()
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    assert await executor.run(lambda: "the thread is free") == "the thread is free"


async def test_damage_is_reported_with_its_position(executor: BuildExecutor) -> None:
    result = build(MemorySource(Repository("a"), files(1)), Policy())
    data = result.parts[0].segment.names.data
    data.flags.writeable = True
    data[0] ^= 1
    assert await executor.verify(result) == [Damage(0, "names.data")]
