"""Client of one indexer: its admin, find and ingest APIs over HTTP.

An indexer's error is raised as the same error here. A request that was not delivered raises Unavailable; one that
may have been delivered and was not answered raises `OutcomeUnknown`. Every call has a deadline and every answer a
size limit, and redirects are not followed: the operator decides which host is called.
"""

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from argosy.base.errors import (
    ArgosyError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
)
from argosy.ipni import indexer_wire
from argosy.ipni.formats.bases import base58
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement, encode_announcement
from argosy.ipni.model import Assignment, IndexerStatus, Provider, ProviderResult, StoreStats
from argosy.ipni.web.providers_json import decode_provider, decode_providers
from argosy.ipni.web.results import decode_json

CALL_S = 10.0  # for calls that answer at once
HANDOFF_S = 60.0  # the indexer first reads the providers of the frozen one
# An indexer that is down may not answer at all, and a failed connection is certain not to have had an effect.
CONNECT_S = 3.0
KEEP_ALIVE_S = 4.0  # less than the 5 s after which uvicorn closes what is idle
# More than an assigner has requests and announcements under way to one indexer.
CONNECTIONS_MAX = 32
BODY_BYTES_MAX = 8 << 20
LIST_BYTES_MAX = 256 << 20  # of providers: some 1 KiB each
RETRY_AFTER_S = 2.0  # for a 429 without retry-after

# Everything else, above all 5xx, is Unavailable: the caller tries again later.
_KINDS: Mapping[int, type[ArgosyError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    409: Conflict,
    410: Gone,
}


class OutcomeUnknown(Unavailable):
    """The request was sent and not answered: it may have taken effect. An assigner must not assign the publisher to
    another indexer then."""


class IndexerClient:
    """One indexer, by the URLs of its APIs; a call to an API without a URL is Invalid.

    It belongs to the event loop of its first use; `close` it, or use it as a context manager.
    """

    def __init__(
        self,
        admin_url: str | None = None,
        find_url: str | None = None,
        ingest_url: str | None = None,
        *,
        token: str | None = None,
        call_s: float = CALL_S,
    ) -> None:
        self._bases = {"admin": admin_url, "find": find_url, "ingest": ingest_url}
        self._token = token
        self._call_s = call_s
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._is_closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # -- for assigners ------------------------------------------------------------------------------------------------

    async def status(self) -> IndexerStatus:
        return indexer_wire.status(await self._request("admin", "GET", "/status"))

    async def assignments(self) -> list[Assignment]:
        return indexer_wire.assignments(
            await self._request("admin", "GET", "/ingest/assigned", bytes_max=LIST_BYTES_MAX)
        )

    async def preferred_publishers(self) -> list[str]:
        return indexer_wire.texts(await self._request("admin", "GET", "/ingest/preferred", bytes_max=LIST_BYTES_MAX))

    async def assign(self, publisher: str) -> None:
        await self._request("admin", "POST", f"/ingest/assign/{_part(publisher)}")

    async def unassign(self, publisher: str) -> None:
        await self._request("admin", "PUT", f"/ingest/unassign/{_part(publisher)}")

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        body = {"FrozenID": frozen_id, "FrozenURL": frozen_url}
        await self._request("admin", "POST", f"/ingest/handoff/{_part(publisher)}", json=body, call_s=HANDOFF_S)

    async def announce(self, announce: Announcement) -> None:
        await self._request("ingest", "PUT", "/announce", body=encode_announcement(announce))

    # -- for operators ------------------------------------------------------------------------------------------------

    async def check_health(self) -> None:
        await self._request("admin", "GET", "/healthcheck")

    async def freeze(self) -> None:
        await self._request("admin", "PUT", "/freeze")

    async def allow(self, peer: str) -> None:
        await self._request("admin", "PUT", f"/ingest/allow/{_part(peer)}")

    async def block(self, peer: str) -> None:
        await self._request("admin", "PUT", f"/ingest/block/{_part(peer)}")

    async def sync(
        self, publisher: str, address: str | None = None, *, depth: int = 0, is_resync: bool = False
    ) -> None:
        query = {"depth": str(depth), "resync": str(is_resync).lower()}
        await self._request("admin", "POST", f"/ingest/sync/{_part(publisher)}", query=query, json=address)

    async def syncs(self) -> list[str]:
        """Publishers with a running sync that an operator started."""
        return indexer_wire.texts(await self._request("admin", "GET", "/ingest/sync/"))

    async def remove_provider(self, id: str, *, is_blocked: bool = False) -> None:
        query = {"block": str(is_blocked).lower()}
        await self._request("admin", "DELETE", f"/removeprovider/{_part(id)}", query=query, call_s=HANDOFF_S)

    async def import_providers(self, url: str) -> None:
        """Imports the providers of another indexer, given the URL of its find API."""
        body = {"indexer": b64encode(url.encode()).decode()}
        await self._request("admin", "POST", "/importproviders", json=body, call_s=HANDOFF_S)

    async def mark_processed(self, provider: str, ad: Cid) -> None:
        await self._request("admin", "PUT", f"/markadprocessed/{_part(provider)}", query={"cid": str(ad)})

    async def telemetry(self) -> dict[str, tuple[int, float, int]]:
        """By provider since the last call: multihashes, seconds, samples."""
        return indexer_wire.telemetry(await self._request("admin", "GET", "/telemetry/providers"))

    async def reload(self) -> None:
        await self._request("admin", "POST", "/reloadconfig")

    # -- public -------------------------------------------------------------------------------------------------------

    async def providers(self) -> list[Provider]:
        return decode_providers(await self._request("find", "GET", "/providers", bytes_max=LIST_BYTES_MAX))

    async def provider(self, id: str) -> Provider:
        return decode_provider(await self._request("find", "GET", f"/providers/{_part(id)}"))

    async def find(self, multihash: bytes) -> tuple[ProviderResult, ...]:
        """Providers of the content; empty if there are none."""
        try:
            data = await self._request("find", "GET", f"/multihash/{base58(multihash)}", bytes_max=LIST_BYTES_MAX)
        except NotFound:
            return ()
        return tuple(result for found, results in decode_json(data) if found == multihash for result in results)

    async def check_find(self) -> None:
        """Raises NotFound if the server has no find API."""
        await self._request("find", "GET", "/health")

    async def stats(self) -> StoreStats:
        return indexer_wire.stats(await self._request("find", "GET", "/stats"))

    async def sync_status(self, publisher: str | None = None) -> Mapping[str, Any]:
        """By publisher, or of one; empty when nothing is known."""
        path = "/sync/status" if publisher is None else f"/sync/status/{_part(publisher)}"
        decoded = indexer_wire.parse(await self._request("ingest", "GET", path))
        if not isinstance(decoded, dict | None):
            raise Invalid(f"expected a JSON object, not {indexer_wire.truncate_repr(decoded)}")
        return decoded or {}

    async def is_indexed(self, ad: Cid) -> bool:
        return indexer_wire.is_indexed(await self._request("ingest", "GET", f"/sync/status/ad/{ad}"))

    async def register(self, record: bytes) -> None:
        """Sends a provider's signed peer record."""
        await self._request("ingest", "POST", "/register", body=record)

    # -- calls --------------------------------------------------------------------------------------------------------

    async def _request(
        self,
        api: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        json: object = None,
        body: bytes | None = None,
        call_s: float | None = None,
        bytes_max: int = BODY_BYTES_MAX,
    ) -> bytes:
        base = self._bases[api]
        if base is None:
            raise Invalid(f"the {api} URL of the indexer is missing")
        headers = {"accept": "application/json"}
        # Only there: find and ingest are public APIs.
        if self._token and api == "admin":
            headers["authorization"] = f"Bearer {self._token}"
        if json is not None:
            body = msgspec.json.encode(json)
            headers["content-type"] = "application/json"
        # The path is quoted already; yarl would quote it again.
        url = URL(base.rstrip("/") + path, encoded=True).with_query(query)
        async with _deadline(call_s or self._call_s, url):
            session = self._open_session()
            async with session.request(method, url, headers=headers, data=body, allow_redirects=False) as answer:
                data = await _read_bounded(answer, bytes_max)
        if not 200 <= answer.status < 300:
            raise _error(url, answer, data)
        return data

    def _open_session(self) -> aiohttp.ClientSession:
        if self._is_closed:
            raise Unavailable("this client is closed")
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, keepalive_timeout=KEEP_ALIVE_S)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session


@asynccontextmanager
async def _deadline(call_s: float, url: URL) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(call_s):
            yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as why:
        cause = why.os_error if isinstance(why, aiohttp.ClientConnectorError) else None
        # Only of plain connections: the message of a TLS error says more than its number.
        number = cause.errno if isinstance(cause, ConnectionError) else None
        reason = os.strerror(number).lower() if number else str(why)
        raise Unavailable(f"{url.origin()} unreachable: {reason}; check that the indexer is running") from None
    except TimeoutError:
        raise OutcomeUnknown(f"{url} timed out after {call_s} s") from None
    except (aiohttp.ClientError, OSError) as why:
        raise OutcomeUnknown(f"{url} closed the connection ({type(why).__name__}: {why})") from None


async def _read_bounded(answer: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > bytes_max:
            # The connection cannot be reused with the rest of the body unread.
            answer.close()
            raise Invalid(f"{answer.url} answered more than {bytes_max} bytes")
        parts.append(part)
    return b"".join(parts)


def _error(url: URL, answer: aiohttp.ClientResponse, data: bytes) -> ArgosyError:
    message = f"{url} answered {answer.status}: {indexer_wire.refusal(data) or answer.reason or 'no message'}"
    if answer.status == 429:
        decoded = answer.headers.get("retry-after", "")
        return Throttled(message, retry_after_s=float(decoded) if decoded.isdecimal() else RETRY_AFTER_S)
    return _KINDS.get(answer.status, Unavailable)(message)


def _part(text: str) -> str:
    return quote(text, safe="")
