"""Parses the response of an indexer, in either of its two formats.

A line that cannot be read is skipped and counted, and so is what answers a question nobody asked; the rest is used, and
the reply counts as damaged.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from argosy.base.errors import Invalid
from argosy.gateway.content.merge import only, usable
from argosy.gateway.content.model import BackendOutcome
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import providers_json, results
from argosy.ipni.web.lookup_params import ResponseFormat
from argosy.ipni.web.measured_finds import TRUNCATED_HEADER

if TYPE_CHECKING:
    from argosy.gateway.content.http1_client import Http1Response


LINE_BYTES_MAX = 256 * 1024  # a record with all its addresses has a few kilobytes at most


class Lines:
    """`feed` what arrives, and `end` when no more does; `overlong` counts the lines that were dropped."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self.overlong = 0
        self._bytes_max = bytes_max
        self._tail = b""
        self._is_dropping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now."""
        *whole, self._tail = (self._tail + data).split(b"\n")
        if whole and self._is_dropping:
            whole, self._is_dropping = whole[1:], False
        if len(self._tail) > self._bytes_max:
            if not self._is_dropping:
                self.overlong += 1
            self._tail, self._is_dropping = b"", True
        return self._good(whole)

    def end(self) -> list[bytes]:
        """The last line, if nothing ended it."""
        tail, self._tail = self._tail, b""
        return [] if self._is_dropping else self._good([tail])

    def _good(self, lines: list[bytes]) -> list[bytes]:
        good = [line for line in lines if len(line) <= self._bytes_max and line.strip()]
        self.overlong += sum(len(line) > self._bytes_max for line in lines)
        return good


T = TypeVar("T")

ANSWER_BYTES_MAX = 32 << 20  # 20,000 records have about 6 MB
PROVIDERS_BYTES_MAX = 64 << 20
SMALL_BYTES_MAX = 1 << 20
INCOMPLETE_HEADER = "x-argosy-incomplete"

ByMultihash = dict[bytes, list[ProviderResult]]
Give = Callable[[list[ProviderResult]], Awaitable[None]]


@dataclass
class ParsedReply(Generic[T]):
    """A parsed response; `total` is the number of results at the indexer if the response is truncated."""

    value: T
    records: int
    malformed: int = 0
    total: int = 0

    def outcome(self, reply: "Http1Response") -> BackendOutcome:
        if self.malformed:
            return BackendOutcome.MALFORMED
        if INCOMPLETE_HEADER in reply.headers:
            return BackendOutcome.INCOMPLETE
        return BackendOutcome.FOUND if self.records else BackendOutcome.NOTHING


async def read_found(reply: "Http1Response", asked: Sequence[bytes]) -> ParsedReply[ByMultihash]:
    """The results of a find, by multihash."""
    body = await reply.whole(ANSWER_BYTES_MAX)
    if _form(reply) is ResponseFormat.JSON:
        return _of_document(reply, body, asked)
    if len(asked) != 1:
        raise Invalid("lines do not name their multihash")
    lines = Lines()
    good, malformed = _of_lines([*lines.feed(body), *lines.end()])
    return ParsedReply({asked[0]: good} if good else {}, len(good), malformed + lines.overlong, _total(reply))


async def read_stream(reply: "Http1Response", asked: bytes, give: Give) -> ParsedReply[None]:
    """Pass records on as they arrive."""
    if _form(reply) is ResponseFormat.JSON:
        whole = _of_document(reply, await reply.whole(ANSWER_BYTES_MAX), [asked])
        if whole.records:
            await give(whole.value[asked])
        return ParsedReply(None, whole.records, whole.malformed)
    lines, reading = Lines(), ParsedReply(None, 0)
    while part := await reply.part():
        await _hand_on(lines.feed(part), reading, give)
    await _hand_on(lines.end(), reading, give)
    reading.malformed += lines.overlong
    return reading


async def read_keys(reply: "Http1Response", second_hash: bytes) -> ParsedReply[list[bytes]]:
    """Encrypted value keys."""
    body = await reply.whole(ANSWER_BYTES_MAX)
    if _form(reply) is ResponseFormat.LINES:
        lines = Lines()
        keys = [results.decode_encrypted_line(line) for line in (*lines.feed(body), *lines.end())]
        return ParsedReply(keys, len(keys), lines.overlong, _total(reply))
    document = results.decode_encrypted_json(body)
    keys = [key for multihash, its in document if multihash == second_hash for key in its]
    return ParsedReply(keys, len(keys), sum(multihash != second_hash for multihash, _ in document), _total(reply))


class _Metadata(msgspec.Struct):
    metadata: bytes = msgspec.field(name="EncryptedMetadata", default=b"")


async def read_metadata(reply: "Http1Response") -> ParsedReply[bytes]:
    body = await reply.whole(SMALL_BYTES_MAX)
    try:
        found = msgspec.json.decode(body, type=_Metadata).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as why:
        raise Invalid(f"invalid encrypted metadata: {why}") from None
    return ParsedReply(found, 1 if found else 0)


async def read_provider(reply: "Http1Response", id: str) -> ParsedReply[list[Provider]]:
    found = providers_json.decode_provider(await reply.whole(SMALL_BYTES_MAX))
    return ParsedReply([found], 1) if found.id == id else ParsedReply([], 0, malformed=1)


async def read_providers(
    reply: "Http1Response", decode: Callable[[bytes], Awaitable[list[Provider]]]
) -> ParsedReply[list[Provider]]:
    """There may be thousands, so `decode` runs in a thread."""
    found = await decode(await reply.whole(PROVIDERS_BYTES_MAX))
    return ParsedReply(found, len(found))


async def _hand_on(lines: Iterable[bytes], reading: ParsedReply[None], give: Give) -> None:
    good, malformed = _of_lines(lines)
    reading.records += len(good)
    reading.malformed += malformed
    if good:
        await give(good)


def _of_document(reply: "Http1Response", body: bytes, asked: Sequence[bytes]) -> ParsedReply[ByMultihash]:
    document = results.decode_json(body)
    wanted = set(asked)
    kept = only(document, wanted)
    strange = sum(multihash not in wanted for multihash, _ in document)
    return ParsedReply(kept, sum(map(len, kept.values())), strange, _total(reply))


def _of_lines(lines: Iterable[bytes]) -> tuple[list[ProviderResult], int]:
    """The usable results, and the number of malformed lines."""
    good: list[ProviderResult] = []
    malformed = 0
    for line in lines:
        try:
            good.append(results.decode_line(line))
        except Invalid:
            malformed += 1
    return usable(good), malformed


def _form(reply: "Http1Response") -> ResponseFormat:
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        return ResponseFormat(kind)
    except ValueError:
        raise Invalid(f"unexpected content type {kind[:80]!r} from an indexer") from None


def _total(reply: "Http1Response") -> int:
    text = reply.headers.get(TRUNCATED_HEADER, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
