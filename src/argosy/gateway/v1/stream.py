"""Turns partial results into events as they arrive.

The front door gives the whole answer last and does not say that it is the last. Behind it the end follows at once, so
a part is held for a moment only: long enough to see the end, too short for anybody to notice. What only the whole has
(all of it, if the answer was at hand) becomes a part of its own, so that every file of the answer is told in some part.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from msgspec import structs

from argosy.base.errors import ArgosyError
from argosy.base.redact import redact
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.responses import stream_end, stream_part
from argosy.search.model import FileMatch, SearchResult

HOLD_S = 0.01


async def events(
    parts: AsyncIterator[SearchResult], query: str, saw: Callable[[SearchResult], None]
) -> AsyncGenerator[v1.StreamEvent, None]:
    """One event per part, then the end or the failure; a failure before anything was found is raised.

    `query` is how the question was understood; `saw` is given the whole answer.
    """
    told = _SentFiles()
    held: SearchResult | None = None
    is_held_told = True
    following = asyncio.ensure_future(_next(parts))
    try:
        while True:
            await asyncio.wait([following], timeout=None if is_held_told else HOLD_S)
            is_ended = following.done() and following.result() is None
            if held is not None and not is_held_told and not is_ended:
                is_held_told = True
                yield told.part(held)
                continue
            if is_ended:
                break
            held, is_held_told = following.result(), False
            following = asyncio.ensure_future(_next(parts))
        whole = held or SearchResult()
        saw(whole)
        if rest := told.rest(whole):
            yield told.part(structs.replace(whole, files=rest, missing=()))
        yield stream_end(whole, query)
    except ArgosyError as error:
        if held is None:
            raise
        if not is_held_told:
            yield told.part(held)
        yield v1.StreamFailure(v1.Problem(type(error).__name__, error.status, redact(str(error))))
    finally:
        await _stop(following, parts)


class _SentFiles:
    """The files already sent."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str, tuple[str, ...]]] = set()

    def part(self, answer: SearchResult) -> v1.StreamPart:
        self._keys.update(map(_key, answer.files))
        return stream_part(answer)

    def rest(self, whole: SearchResult) -> tuple[FileMatch, ...]:
        return tuple(file for file in whole.files if _key(file) not in self._keys)


def _key(file: FileMatch) -> tuple[str, str, tuple[str, ...]]:
    return file.repository, file.path, file.branches


async def _next(parts: AsyncIterator[SearchResult]) -> SearchResult | None:
    return await anext(parts, None)


async def _stop(following: "asyncio.Future[SearchResult | None]", parts: AsyncIterator[SearchResult]) -> None:
    """Stop the search when the client disconnects."""
    if not following.done():
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    if isinstance(parts, AsyncGenerator):
        await parts.aclose()
