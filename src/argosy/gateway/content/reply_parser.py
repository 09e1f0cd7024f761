"""What one indexer's reply says, whichever of the two forms it chose to answer in.

A line that cannot be read is skipped and counted, and so is what answers a question nobody asked; the rest is used, and
the reply counts as damaged.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from argosy.base.errors import Invalid
from argosy.gateway.content.lines import Lines
from argosy.gateway.content.merge import only, usable
from argosy.gateway.content.model import Outcome
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import providers_json, results
from argosy.ipni.web.lookup_params import ResponseFormat
from argosy.ipni.web.measured_finds import TRUNCATED_HEADER

if TYPE_CHECKING:
    from argosy.gateway.content.http1_client import Reply

T = TypeVar("T")

ANSWER_BYTES_MAX = 32 << 20  # twenty thousand records have some six megabytes
PROVIDERS_BYTES_MAX = 64 << 20
SMALL_BYTES_MAX = 1 << 20
INCOMPLETE_HEADER = "x-argosy-incomplete"

ByMultihash = dict[bytes, list[ProviderResult]]
Give = Callable[[list[ProviderResult]], Awaitable[None]]


@dataclass
class Reading(Generic[T]):
    """What was understood of a reply; `total` is how many results the indexer has, if it told not all of them."""

    value: T
    records: int
    malformed: int = 0
    total: int = 0

    def outcome(self, reply: "Reply") -> Outcome:
        if self.malformed:
            return Outcome.MALFORMED
        if INCOMPLETE_HEADER in reply.headers:
            return Outcome.INCOMPLETE
        return Outcome.FOUND if self.records else Outcome.NOTHING


async def read_found(reply: "Reply", asked: Sequence[bytes]) -> Reading[ByMultihash]:
    """The results of a find, by multihash."""
    body = await reply.whole(ANSWER_BYTES_MAX)
    if _form(reply) is ResponseFormat.JSON:
        return _of_document(reply, body, asked)
    if len(asked) != 1:
        raise Invalid("lines do not say which multihash they belong to")
    lines = Lines()
    good, malformed = _of_lines([*lines.feed(body), *lines.end()])
    return Reading({asked[0]: good} if good else {}, len(good), malformed + lines.overlong, _total(reply))


async def read_stream(reply: "Reply", asked: bytes, give: Give) -> Reading[None]:
    """Hands on what arrives as it arrives."""
    if _form(reply) is ResponseFormat.JSON:
        whole = _of_document(reply, await reply.whole(ANSWER_BYTES_MAX), [asked])
        if whole.records:
            await give(whole.value[asked])
        return Reading(None, whole.records, whole.malformed)
    lines, reading = Lines(), Reading(None, 0)
    while part := await reply.part():
        await _hand_on(lines.feed(part), reading, give)
    await _hand_on(lines.end(), reading, give)
    reading.malformed += lines.overlong
    return reading


async def read_keys(reply: "Reply", second_hash: bytes) -> Reading[list[bytes]]:
    """Encrypted value keys."""
    body = await reply.whole(ANSWER_BYTES_MAX)
    if _form(reply) is ResponseFormat.LINES:
        lines = Lines()
        keys = [results.decode_encrypted_line(line) for line in (*lines.feed(body), *lines.end())]
        return Reading(keys, len(keys), lines.overlong, _total(reply))
    document = results.decode_encrypted_json(body)
    keys = [key for multihash, its in document if multihash == second_hash for key in its]
    return Reading(keys, len(keys), sum(multihash != second_hash for multihash, _ in document), _total(reply))


class _Metadata(msgspec.Struct):
    metadata: bytes = msgspec.field(name="EncryptedMetadata", default=b"")


async def read_metadata(reply: "Reply") -> Reading[bytes]:
    body = await reply.whole(SMALL_BYTES_MAX)
    try:
        found = msgspec.json.decode(body, type=_Metadata).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as why:
        raise Invalid(f"this is not the JSON of encrypted metadata: {why}") from None
    return Reading(found, 1 if found else 0)


async def read_provider(reply: "Reply", id: str) -> Reading[list[Provider]]:
    found = providers_json.decode_provider(await reply.whole(SMALL_BYTES_MAX))
    return Reading([found], 1) if found.id == id else Reading([], 0, malformed=1)


async def read_providers(
    reply: "Reply", decode: Callable[[bytes], Awaitable[list[Provider]]]
) -> Reading[list[Provider]]:
    """Thousands of them: `decode` does it where it holds nobody up."""
    found = await decode(await reply.whole(PROVIDERS_BYTES_MAX))
    return Reading(found, len(found))


async def _hand_on(lines: Iterable[bytes], reading: Reading[None], give: Give) -> None:
    good, malformed = _of_lines(lines)
    reading.records += len(good)
    reading.malformed += malformed
    if good:
        await give(good)


def _of_document(reply: "Reply", body: bytes, asked: Sequence[bytes]) -> Reading[ByMultihash]:
    document = results.decode_json(body)
    wanted = set(asked)
    kept = only(document, wanted)
    strange = sum(multihash not in wanted for multihash, _ in document)
    return Reading(kept, sum(map(len, kept.values())), strange, _total(reply))


def _of_lines(lines: Iterable[bytes]) -> tuple[list[ProviderResult], int]:
    """Those that can be used, and how many cannot be read."""
    good: list[ProviderResult] = []
    malformed = 0
    for line in lines:
        try:
            good.append(results.decode_line(line))
        except Invalid:
            malformed += 1
    return usable(good), malformed


def _form(reply: "Reply") -> ResponseFormat:
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        return ResponseFormat(kind)
    except ValueError:
        raise Invalid(f"an indexer does not answer in {kind[:80]!r}") from None


def _total(reply: "Reply") -> int:
    text = reply.headers.get(TRUNCATED_HEADER, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
