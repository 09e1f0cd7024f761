"""HTTP GET from hosts that may be hostile: size, time, redirects and network addresses are limited.

The timeout grows with the bytes received: the grace period, then as long as the minimum rate allows. So a slow drip
ends and a large block over a slow line does not. Compressed bodies are limited by their decompressed size.
"""

import asyncio
import socket
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from argosy.base.errors import Invalid, Unavailable
from argosy.base.urls import is_private
from argosy.ipni.settings import SyncSettings
from argosy.ipni.sync.url_policy import AddressCheck, check_resolved, check_url, redirect_target

REDIRECTS_MAX = 3
PIECE_BYTES = 64 << 10
KEEP_ALIVE_S = 4.0  # less than the 5 s after which common servers close what is idle
USER_AGENT = "argosy-ipni"
_REDIRECTS = {301, 302, 303, 307, 308}
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say that a gzip header is expected
_BROKEN = (aiohttp.ClientError, OSError, UnicodeError)  # UnicodeError: a name that cannot be encoded for DNS


class ConnectionReset(Unavailable):
    """The connection ended during the request: the one failure worth retrying on the same host."""


@dataclass(frozen=True)
class HttpReply:
    """A response; the body of an error is not read."""

    status: int
    body: bytes = b""


class HttpFetcher:
    """GET requests with one bounded pool of connections. Belongs to the event loop of its first use."""

    def __init__(self, settings: SyncSettings, *, private: AddressCheck = is_private) -> None:
        self.judge: AddressCheck | None = None if settings.allow_private else private
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def get(self, url: str, *, bytes_max: int, headers: Mapping[str, str]) -> HttpReply:
        """Follows redirects. Raises Invalid if a limit is exceeded, Unavailable if the response is not complete in
        time."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            # One deadline over resolution, connection, redirects and body, because each of them can be slow on purpose.
            async with asyncio.timeout_at(began + self._settings.grace_s) as limit:

                def extend(received_bytes: int) -> None:
                    rate = self._settings.rate_bytes_s_min
                    limit.reschedule(began + self._settings.grace_s + received_bytes / rate)

                body = _Body(url, bytes_max, extend)
                return await self._follow(url, body, headers)
        except TimeoutError:
            raise Unavailable(
                f"{url} timed out after {loop.time() - began:.1f} s: slower than "
                f"{self._settings.rate_bytes_s_min} bytes/s"
            ) from None
        except _BROKEN as error:
            is_reset = isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError | aiohttp.ClientOSError)
            # A connection that was never made is no reset: the server is down, and an immediate retry is useless.
            is_reset = is_reset and not isinstance(error, aiohttp.ClientConnectorError)
            kind = ConnectionReset if is_reset or isinstance(error, aiohttp.ClientPayloadError) else Unavailable
            raise kind(f"{url} cannot be read ({type(error).__name__}); it is retried later") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _follow(self, url: str, body: "_Body", headers: Mapping[str, str]) -> HttpReply:
        current = url
        # Not by aiohttp: every hop is checked, or a public URL could redirect to an address in the private network.
        for _ in range(REDIRECTS_MAX + 1):
            target = check_url(current, self.judge)
            async with self._open_session().get(target, headers=headers, allow_redirects=False) as answer:
                location = answer.headers.get("location", "") if answer.status in _REDIRECTS else ""
                if not location:
                    is_success = answer.status == 200
                    return HttpReply(answer.status, await body.read(answer) if is_success else b"")
            current = redirect_target(current, location, self.judge)
        raise Invalid(f"{url} redirects more than {REDIRECTS_MAX} times; announce the final address")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._settings.connections_max,
                limit_per_host=self._settings.connections_per_host_max,
                keepalive_timeout=KEEP_ALIVE_S,
                use_dns_cache=False,  # the cache would grow with every announced name
                resolver=_CheckedResolver(self.judge),
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),  # `get` has its own, which grows
                # aiohttp would decompress without a limit.
                auto_decompress=False,
                # Publishers must not be able to store state here, and one's cookies are nothing for another.
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"accept-encoding": "gzip", "user-agent": USER_AGENT},
            )
        return self._session


class _Body:
    """Reads one body within its limit."""

    def __init__(self, url: str, bytes_max: int, extend: Callable[[int], None]) -> None:
        self._url = url
        self._bytes_max = bytes_max
        self._extend = extend

    async def read(self, answer: aiohttp.ClientResponse) -> bytes:
        encoding = answer.headers.get("content-encoding", "identity").strip().lower()
        # Other codings were not offered; decoding them would need limits of their own.
        if encoding not in ("gzip", "x-gzip", "identity", ""):
            raise Invalid(f"{self._url} has content-encoding {encoding[:40]!r}; only gzip was requested")
        unpack = _Gzip(self._url) if "gzip" in encoding else None
        whole = bytearray()
        received = 0
        async for piece in answer.content.iter_chunked(PIECE_BYTES):
            received += len(piece)
            self._check(received)
            self._extend(received)
            if unpack is None:
                whole += piece
            else:
                # One byte more than allowed, so that the check can tell a full body from one that is too large.
                unpack.add(piece, whole, self._bytes_max + 1)
                self._check(len(whole))
        if unpack is not None:
            unpack.check_whole()
        return bytes(whole)

    def _check(self, size: int) -> None:
        if size > self._bytes_max:
            raise Invalid(f"{self._url} has more than {self._bytes_max} bytes, the limit for its kind")


class _Gzip:
    """Decompresses gzip of one or several members up to a limit: a small body may expand a thousandfold."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._inner = zlib.decompressobj(_GZIP)

    def add(self, piece: bytes, whole: bytearray, bytes_max: int) -> None:
        try:
            while piece and len(whole) < bytes_max:
                if self._inner.eof:
                    self._inner = zlib.decompressobj(_GZIP)
                whole += self._inner.decompress(piece, bytes_max - len(whole))
                piece = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        except zlib.error:
            raise Invalid(f"{self._url} is declared as gzip and is not") from None

    def check_whole(self) -> None:
        if not self._inner.eof:
            raise ConnectionReset(f"{self._url} ended in the middle of its gzip data; it is retried")


class _CheckedResolver(AbstractResolver):
    """The system's resolver with the policy. The connection uses the addresses that were checked; a check before the
    connection would resolve the name twice, and the second answer could differ (DNS rebinding)."""

    def __init__(self, judge: AddressCheck | None) -> None:
        self._judge = judge

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        return [
            ResolveResult(
                hostname=host,
                host=number,
                port=port,
                family=socket.AF_INET6 if ":" in number else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for number in check_resolved((str(place[0]) for *_, place in found), host, self._judge)
        ]

    async def close(self) -> None:
        pass
