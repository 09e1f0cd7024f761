"""The little of S3 that SlateDB's binding does not offer: does this server honour conditional puts, and what is there.

SlateDB's safety against two writers rests on `If-None-Match: *` answering 412. Servers exist that ignore it and pass
every sequential test all the same, so the header itself is tried, on an object of its own, before a store is opened.
"""

import asyncio
import http.client
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from argosy.base.errors import Invalid, Unavailable
from argosy.jobs.backends.s3_signing import S3Keys, query_string, signed

REQUEST_S_MAX = 10.0
ANSWER_BYTES_MAX = 8 << 20
PAGES_MAX = 1000            # of 1000 names each
REGION_DEFAULT = "us-east-1"

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class Bucket:
    """One bucket of one S3, addressed by path. Without keys the machine's role is trusted, and nothing asked here."""

    name: str
    region: str
    endpoint: str = ""          # none: Amazon's
    keys: S3Keys | None = None

    def __post_init__(self) -> None:
        if not _BUCKET.fullmatch(self.name):
            raise Invalid(f"{self.name!r} is no name of a bucket: use 3 to 63 of a-z, 0-9, - and .")
        if self.endpoint and urlsplit(self.endpoint).scheme not in ("http", "https"):
            raise Invalid(f"the S3 endpoint {self.endpoint!r} must begin with http:// or https://")

    @property
    def url(self) -> str:
        return self.endpoint or f"https://s3.{self.region}.amazonaws.com"

    async def check_conditional_puts(self, prefix: str) -> None:
        """Raises Invalid if this S3 would let two writers overwrite each other."""
        key = f"{prefix}.probe-{secrets.token_hex(8)}"
        first = await self._ask("PUT", key, headers={"if-none-match": "*"}, body=b"1")
        if first.status != 200:
            raise _refusal(self, "a put", first)
        try:
            second = await self._ask("PUT", key, headers={"if-none-match": "*"}, body=b"2")
        finally:
            await self._ask("DELETE", key)
        if second.status != 412:
            raise Invalid(
                f"the S3 at {self.url} answers {second.status} where a put with If-None-Match: * must be refused with "
                "412: two writers would overwrite each other there; use one with conditional puts"
            )

    async def folders(self, prefix: str) -> list[str]:
        """The names directly beneath `prefix` that have something beneath them."""
        found: list[str] = []
        query = {"list-type": "2", "prefix": prefix, "delimiter": "/"}
        for _ in range(PAGES_MAX):
            answer = await self._ask("GET", "", query=query)
            if answer.status != 200:
                raise _refusal(self, "a listing", answer)
            page = _page(answer.body)
            found += [name.removeprefix(prefix).rstrip("/") for name in page.prefixes]
            if not page.next:
                return sorted(found)
            query = {**query, "continuation-token": page.next}
        raise Unavailable(f"{self.name}/{prefix} holds more than {PAGES_MAX * 1000} names: use a prefix of its own")

    async def _ask(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> "_Answer":
        if self.keys is None:
            raise Invalid("S3 needs keys: set s3_access_key_id and s3_secret_access_key, or the AWS_… variables")
        path = f"/{self.name}/{quote(key, safe='/-_.~')}" if key else f"/{self.name}"
        sent = signed(
            method, urlsplit(self.url).netloc, path, query or {}, headers or {}, body,
            keys=self.keys, region=self.region, now=time.time(),
        )  # fmt: skip
        return await asyncio.to_thread(self._exchange, method, path, query or {}, sent, body)

    def _exchange(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> "_Answer":
        address = urlsplit(self.url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.netloc, timeout=REQUEST_S_MAX)
        try:
            target = f"{path}?{query_string(query)}" if query else path
            connection.request(method, target, body=body or None, headers=dict(headers))
            answer = connection.getresponse()
            return _Answer(answer.status, answer.read(ANSWER_BYTES_MAX))
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"the S3 at {self.url} cannot be reached: {error}") from error
        finally:
            connection.close()


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes


@dataclass(frozen=True)
class _Page:
    prefixes: tuple[str, ...]
    next: str


def bucket_of(
    name: str, *, endpoint: str, region: str, keys: S3Keys, environ: Mapping[str, str]
) -> Bucket:
    """The bucket with what settings say, and where they are silent what the customary variables say."""
    if not keys.access_key_id:
        keys = S3Keys(
            environ.get("AWS_ACCESS_KEY_ID", ""),
            environ.get("AWS_SECRET_ACCESS_KEY", ""),
            environ.get("AWS_SESSION_TOKEN", ""),
        )
    bucket = Bucket(
        name,
        region=region or environ.get("AWS_REGION", "") or environ.get("AWS_DEFAULT_REGION", "") or REGION_DEFAULT,
        endpoint=(endpoint or environ.get("AWS_ENDPOINT", "") or environ.get("AWS_ENDPOINT_URL", "")).rstrip("/"),
    )
    return replace(bucket, keys=keys) if keys.access_key_id and keys.secret_access_key else bucket


def _page(body: bytes) -> _Page:
    try:
        # The server was chosen by the operator, and expat refuses to expand without bound.
        tree = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise Unavailable(f"S3 answered a listing that is no XML: {error}") from error
    texts = [(element.tag.rpartition("}")[2], element) for element in tree.iter()]
    prefixes = [
        child.text or ""
        for tag, element in texts
        if tag == "CommonPrefixes"
        for child in element
    ]
    following = [element.text or "" for tag, element in texts if tag == "NextContinuationToken"]
    return _Page(tuple(prefixes), following[0] if following else "")


def _refusal(bucket: Bucket, what: str, answer: _Answer) -> Invalid | Unavailable:
    code = re.search(rb"<Code>([A-Za-z]{1,60})</Code>", answer.body)
    told = f"{answer.status} {code[1].decode() if code else ''}".strip()
    text = f"the S3 at {bucket.url} answers {what} in {bucket.name} with {told}"
    if answer.status >= 500:
        return Unavailable(text)
    return Invalid(f"{text}: see that the bucket exists and that the keys may read and write it")
