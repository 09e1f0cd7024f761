"""The find protocol towards indexers: encodes requests, and parses responses in either of their two formats.

A malformed line is skipped and counted, and so is a result that was not requested; the rest is used, and the indexer's
outcome is MALFORMED, so that the answer counts as incomplete (GW-1).
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

import msgspec

from argosy.base.errors import Invalid
from argosy.gateway.content.merge import select_requested, usable_results
from argosy.gateway.content.model import Backend, BackendOutcome
from argosy.ipni.formats.bases import base58
from argosy.ipni.model import Provider, ProviderResult
from argosy.ipni.web import providers_json, results
from argosy.ipni.web.find_fast_path import TRUNCATED_HEADER
from argosy.ipni.web.lookup_params import ResponseFormat

if TYPE_CHECKING:
    from argosy.gateway.content.http1_client import Http1Response


@dataclass(frozen=True)
class BackendRequest:
    """A request, the same for every indexer; `form` is the requested format, which a response need not have."""

    path: str
    form: ResponseFormat = ResponseFormat.JSON
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self, backend: Backend) -> bytes:
        host, port, _ = backend.address
        lines = [
            f"{'POST' if self.body else 'GET'} {backend.prefix}{self.path} HTTP/1.1",
            f"host: {f'[{host}]' if ':' in host else host}:{port}",
            f"accept: {self.form.value}",
        ]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.body:
            lines += ["content-type: application/json", f"content-length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def find(multihashes: Sequence[bytes], form: ResponseFormat, headers: Mapping[str, str]) -> BackendRequest:
    """A single multihash goes in the path, several in a batch. Indexers do not need the codec of a CID."""
    if len(multihashes) == 1:
        return BackendRequest(f"/multihash/{base58(multihashes[0])}", form, headers=headers)
    # A batch is always JSON: lines do not name their multihash.
    body = msgspec.json.encode({"Multihashes": [b64encode(each).decode() for each in multihashes]})
    return BackendRequest("/multihash", ResponseFormat.JSON, body, headers)


def find_encrypted(second_hash: bytes, headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest(f"/encrypted/multihash/{base58(second_hash)}", headers=headers)


def metadata(value_key_hash: bytes, headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest(f"/metadata/{base58(value_key_hash)}", headers=headers)


def providers(headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest("/providers", headers=headers)


def provider(id: str, headers: Mapping[str, str]) -> BackendRequest:
    return BackendRequest(f"/providers/{quote(id, safe='')}", headers=headers)


# -- responses ---------------------------------------------------------------------------------------------------------

LINE_BYTES_MAX = 256 * 1024  # a record with all its addresses has a few kilobytes at most


class Lines:
    """Splits a stream into lines; blank ones are skipped, and those above `bytes_max` are dropped and counted.

    Call `feed` with each part, and `end` after the last one.
    """

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self.overlong = 0
        self._bytes_max = bytes_max
        self._tail = b""
        self._is_dropping = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *whole, self._tail = (self._tail + data).split(b"\n")
        # The rest of an overlong line, which may arrive in many parts, is dropped up to its newline.
        if whole and self._is_dropping:
            whole, self._is_dropping = whole[1:], False
        if len(self._tail) > self._bytes_max:
            if not self._is_dropping:
                self.overlong += 1
            self._tail, self._is_dropping = b"", True
        return self._usable(whole)

    def end(self) -> list[bytes]:
        """The last line, if the stream did not end with a newline."""
        tail, self._tail = self._tail, b""
        return [] if self._is_dropping else self._usable([tail])

    def _usable(self, lines: list[bytes]) -> list[bytes]:
        good = [line for line in lines if len(line) <= self._bytes_max and line.strip()]
        self.overlong += sum(len(line) > self._bytes_max for line in lines)
        return good


T = TypeVar("T")

ANSWER_BYTES_MAX = 32 << 20  # RESULTS_MAX records with their addresses have about 6 MB
PROVIDERS_BYTES_MAX = 64 << 20  # thousands of providers with their extended providers
SMALL_BYTES_MAX = 1 << 20
# Set by a content gateway, which may itself be one of the indexers: then its answer is incomplete, and so is ours.
INCOMPLETE_HEADER = "x-argosy-incomplete"

ByMultihash = dict[bytes, list[ProviderResult]]
PutPart = Callable[[list[ProviderResult]], Awaitable[None]]


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


async def read_found(reply: "Http1Response", requested: Sequence[bytes]) -> ParsedReply[ByMultihash]:
    """The results of a find, by multihash."""
    body = await reply.read_all(ANSWER_BYTES_MAX)
    # A response may have the other format than the requested one; both are read.
    if _form(reply) is ResponseFormat.JSON:
        return _parse_document(reply, body, requested)
    if len(requested) != 1:
        raise Invalid("lines do not name their multihash")
    lines = Lines()
    good, malformed = _parse_lines([*lines.feed(body), *lines.end()])
    return ParsedReply({requested[0]: good} if good else {}, len(good), malformed + lines.overlong, _total(reply))


async def read_stream(reply: "Http1Response", multihash: bytes, put_part: PutPart) -> ParsedReply[None]:
    """Pass records on as they arrive."""
    if _form(reply) is ResponseFormat.JSON:
        whole = _parse_document(reply, await reply.read_all(ANSWER_BYTES_MAX), [multihash])
        if whole.records:
            await put_part(whole.value[multihash])
        return ParsedReply(None, whole.records, whole.malformed)
    lines, parsed = Lines(), ParsedReply(None, 0)
    while part := await reply.read_part():
        await _pass_on(lines.feed(part), parsed, put_part)
    await _pass_on(lines.end(), parsed, put_part)
    parsed.malformed += lines.overlong
    return parsed


async def read_keys(reply: "Http1Response", second_hash: bytes) -> ParsedReply[list[bytes]]:
    """Encrypted value keys."""
    body = await reply.read_all(ANSWER_BYTES_MAX)
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
    body = await reply.read_all(SMALL_BYTES_MAX)
    try:
        found = msgspec.json.decode(body, type=_Metadata).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as why:
        raise Invalid(f"invalid encrypted metadata: {why}") from None
    return ParsedReply(found, 1 if found else 0)


async def read_provider(reply: "Http1Response", id: str) -> ParsedReply[list[Provider]]:
    found = providers_json.decode_provider(await reply.read_all(SMALL_BYTES_MAX))
    return ParsedReply([found], 1) if found.id == id else ParsedReply([], 0, malformed=1)


async def read_providers(
    reply: "Http1Response", decode: Callable[[bytes], Awaitable[list[Provider]]]
) -> ParsedReply[list[Provider]]:
    """There may be thousands, so `decode` runs in a thread."""
    found = await decode(await reply.read_all(PROVIDERS_BYTES_MAX))
    return ParsedReply(found, len(found))


async def _pass_on(lines: Iterable[bytes], parsed: ParsedReply[None], put_part: PutPart) -> None:
    good, malformed = _parse_lines(lines)
    parsed.records += len(good)
    parsed.malformed += malformed
    if good:
        await put_part(good)


def _parse_document(reply: "Http1Response", body: bytes, requested: Sequence[bytes]) -> ParsedReply[ByMultihash]:
    document = results.decode_json(body)
    wanted = set(requested)
    found = select_requested(document, wanted)
    unrequested = sum(multihash not in wanted for multihash, _ in document)
    return ParsedReply(found, sum(map(len, found.values())), unrequested, _total(reply))


def _parse_lines(lines: Iterable[bytes]) -> tuple[list[ProviderResult], int]:
    """The usable results, and the number of malformed lines."""
    good: list[ProviderResult] = []
    malformed = 0
    for line in lines:
        try:
            good.append(results.decode_line(line))
        except Invalid:
            malformed += 1
    return usable_results(good), malformed


def _form(reply: "Http1Response") -> ResponseFormat:
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        return ResponseFormat(kind)
    except ValueError:
        raise Invalid(f"unexpected content type {kind[:80]!r} from an indexer") from None


def _total(reply: "Http1Response") -> int:
    text = reply.headers.get(TRUNCATED_HEADER, "")
    # Bounded, because int() raises ValueError for thousands of digits, and the text comes from the network.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
