"""HTTP implementation of `PublisherSource`.

A publisher's addresses are tried in order: the next one when the transport fails or the host is overloaded, never
because of an answer's content. A block counts only if it matches its CID, a head only if the publisher signed it;
content types are ignored.
"""

from collections.abc import Mapping

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.base.urls import is_private
from argosy.ipni.formats import multihash
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import SignedHead, decode_head
from argosy.ipni.model import Peer
from argosy.ipni.settings import SyncSettings
from argosy.ipni.sync.fetcher import ConnectionReset, HttpFetcher, HttpReply
from argosy.ipni.sync.url_policy import AddressCheck, bases

PREFIX = "/ipni/v1/ad"
SCHEMA_HEADER = "Ipni-Cid-Schema-Type"  # a hint for publishers that store advertisements and entries separately
_MISSING = (404, 410)
_NO_CONTENT = 204


class BadStatus(Unavailable):
    """The publisher answered with an error status, `code`."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


class HttpSources:
    """All publishers, with one pool of connections. Belongs to the event loop of its first use."""

    def __init__(self, settings: SyncSettings | None = None, *, private: AddressCheck = is_private) -> None:
        self._settings = settings or SyncSettings()
        self._fetcher = HttpFetcher(self._settings, private=private)

    def open(self, publisher: Peer) -> "HttpSource":
        """Raises Invalid if none of its addresses is an http or https address that may be read."""
        return HttpSource(publisher.id, bases(publisher, self._fetcher.judge), self._fetcher, self._settings)

    async def close(self) -> None:
        await self._fetcher.close()


class HttpSource:
    """One publisher. Remembers which of its addresses answers, and the form of its paths."""

    def __init__(self, publisher: str, bases: tuple[str, ...], fetcher: HttpFetcher, settings: SyncSettings) -> None:
        self._publisher = publisher
        self._bases = list(bases)
        self._fetcher = fetcher
        self._settings = settings
        self._prefix: dict[str, str] = {}

    async def head(self) -> SignedHead | None:
        found = await self._fetch("head", self._settings.head_bytes_max, {})
        # The protocol's way to say that the publisher has no advertisements; it is not an error.
        if found.status == _NO_CONTENT:
            return None
        signed = decode_head(found.body)
        # Otherwise a host that controls the address could present another publisher's chain as this one's.
        if signed.signer != self._publisher:
            raise Invalid(f"the head of publisher {self._publisher} is signed by {signed.signer}")
        return signed

    async def block(self, cid: Cid, *, is_entries: bool) -> bytes:
        kind = "EntryChunk" if is_entries else "Advertisement"
        bytes_max = self._settings.entries_bytes_max if is_entries else self._settings.ad_bytes_max
        found = await self._fetch(str(cid), bytes_max, {SCHEMA_HEADER: kind})
        # The hash is what makes plain HTTP and untrusted mirrors safe.
        if found.status == _NO_CONTENT or not multihash.is_of(cid.multihash, found.body):
            raise Invalid(f"publisher {self._publisher} served other bytes for {cid}: the hash differs")
        return found.body

    async def _fetch(self, name: str, bytes_max: int, headers: Mapping[str, str]) -> HttpReply:
        """Fetches from the first address that answers, and tries that one first from then on."""
        failure: Unavailable | None = None
        for base in tuple(self._bases):
            try:
                found = await self._fetch_from(base, name, bytes_max, headers)
            except Unavailable as error:
                # The first failure is reported, because it is that of the preferred address.
                failure = failure or error
                continue
            # Chains have thousands of blocks: a dead first address would cost its timeout for each.
            if base != self._bases[0]:
                self._bases.remove(base)
                self._bases.insert(0, base)
            return found
        assert failure is not None  # there is at least one base
        raise failure

    async def _fetch_from(self, base: str, name: str, bytes_max: int, headers: Mapping[str, str]) -> HttpReply:
        """Fetches with the path prefix, or, as older publishers need it, without; the form that worked is
        remembered."""
        # As in the original, not only 404 but also 403 leads to the second form.
        known = self._prefix.get(base)
        forms = (PREFIX, "") if known is None else (known,)
        is_missing = False
        for prefix in forms:
            found = await self._get(f"{base}{prefix}/{name}", bytes_max, headers)
            if found.status in (200, _NO_CONTENT):
                self._prefix[base] = prefix
                return found
            is_missing = is_missing or found.status in _MISSING
            if found.status not in (*_MISSING, 403):
                raise BadStatus(f"{base} answered {found.status} for {name}", code=found.status)
        # NotFound skips the entries for good, so it needs a 404 or 410: a 403 alone does not show whether they
        # exist.
        if is_missing:
            raise NotFound(f"{base} answered {found.status} for {name}: the publisher does not have it")
        raise BadStatus(f"{base} answered {found.status} for {name}", code=found.status)

    async def _get(self, url: str, bytes_max: int, headers: Mapping[str, str]) -> HttpReply:
        try:
            return await self._fetcher.get(url, bytes_max=bytes_max, headers=headers)
        except ConnectionReset:  # typically a kept-alive connection that the server closed just now
            return await self._fetcher.get(url, bytes_max=bytes_max, headers=headers)
