"""Converts partial results to events as they arrive.

The gateway yields the whole result last, without marking it as the last. It ends right after, so each part is held for
`HOLD_S`: long enough to see the end, too short to be noticed. Files that only the whole result has (all of them, if it
came from the cache) are sent in a part of their own, so that every file of the result is in some part.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from msgspec import structs

from argosy.base.errors import ArgosyError
from argosy.base.redact import redact
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.responses import stream_end, stream_part
from argosy.search.model import FileMatch, SearchResult

HOLD_S = 0.01  # the end follows the last part within one turn of the event loop


async def stream_events(
    parts: AsyncIterator[SearchResult], query: str, on_result: Callable[[SearchResult], None]
) -> AsyncGenerator[v1.StreamEvent, None]:
    """One event per part, then the end or the failure; a failure before the first part is raised.

    `query` is the query as parsed; `on_result` is called with the whole result.
    """
    sent = _SentFiles()
    held: SearchResult | None = None
    is_held_sent = True
    following = asyncio.ensure_future(_next(parts))
    try:
        while True:
            # Not `wait_for`: it would cancel the next part at the timeout, and the search with it.
            await asyncio.wait([following], timeout=None if is_held_sent else HOLD_S)
            is_ended = following.done() and following.result() is None
            if held is not None and not is_held_sent and not is_ended:
                is_held_sent = True
                yield sent.part(held)
                continue
            if is_ended:
                break
            held, is_held_sent = following.result(), False
            following = asyncio.ensure_future(_next(parts))
        whole = held or SearchResult()
        on_result(whole)
        if rest := sent.rest(whole):
            yield sent.part(structs.replace(whole, files=rest, missing=()))
        yield stream_end(whole, query)
    except ArgosyError as error:
        if held is None:
            raise
        # The part was complete before the failure, so it is still sent.
        if not is_held_sent:
            yield sent.part(held)
        yield v1.StreamFailure(v1.Problem(type(error).__name__, error.status, redact(str(error))))
    finally:
        # Also when the client disconnects, which closes this generator.
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
    # Closed here, because otherwise the search would run until the generator is collected.
    if isinstance(parts, AsyncGenerator):
        await parts.aclose()
