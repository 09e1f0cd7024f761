"""The S3 operations that SlateDB's binding does not offer, by obstore: conditional puts, reads and folder listings.

SlateDB's safety against two writers rests on `If-None-Match: *` answering 412. Some servers ignore that header and
still pass every sequential test, so a probe object is written twice before a store is opened.

obstore and SlateDB contain the same Rust client. `client_config` is what both are given, so that they use the same
address and the same credentials: keys from the settings or the environment, otherwise the machine's role.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from argosy.base.errors import ArgosyError, Conflict, Invalid, Unavailable
from argosy.jobs.settings import ShardStoreSettings

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Credential

T = TypeVar("T")

REQUEST_S_MAX = 5  # one try of one request, of obstore and of SlateDB
# Few and short: a shard whose store does not answer is closed after `durable_s_max`, and another node may reach it.
RETRIES_MAX = 2
RETRY_S_MAX = 10  # no further try after that
BACKOFF_S_MAX = 2
CALL_S_MAX = 60.0  # one operation, a listing of many pages included
DETAIL_CHARS_MAX = 200
REGION_DEFAULT = "us-east-1"
KEY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_ENDPOINT_URL")
# Where a machine's role gets its credentials. SlateDB's builder does not read the environment, so these are passed on
# by name. Without any of them the instance's metadata service is used.
ROLE_VARIABLES = (
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_METADATA_ENDPOINT",
    "AWS_IMDSV1_FALLBACK",
)

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_REQUEST_URL = re.compile(r"Error performing [A-Z]+ (https?://[^\s/?]+|REDACTED)")
_QUOTED = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class S3Keys:
    """Static credentials. Their text form shows the id only."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""

    def __repr__(self) -> str:
        return f"S3Keys({self.access_key_id!r})"


@dataclass(frozen=True)
class S3Bucket:
    """One bucket of one S3, addressed by path. Without keys it is accessed with the machine's role."""

    name: str
    region: str
    endpoint: str = ""  # empty: Amazon's
    keys: S3Keys | None = None
    role: Mapping[str, str] = field(default_factory=dict)  # ROLE_VARIABLES that are set

    def __post_init__(self) -> None:
        if not _BUCKET.fullmatch(self.name):
            raise Invalid(f"invalid bucket name {self.name!r}: use 3 to 63 of a-z, 0-9, - and .")
        if self.endpoint and urlsplit(self.endpoint).scheme not in ("http", "https"):
            raise Invalid(f"the S3 endpoint {self.endpoint!r} must begin with http:// or https://")

    @property
    def url(self) -> str:
        return self.endpoint or f"https://s3.{self.region}.amazonaws.com"

    @property
    def allows_http(self) -> bool:
        return self.endpoint.startswith("http://")

    def client_config(self) -> dict[str, str]:
        """The address and the credentials, under the names that obstore and SlateDB share."""
        config = {"aws_region": self.region, "aws_endpoint": self.url}
        if self.keys is None:
            return config | {name.lower(): value for name, value in self.role.items()}
        config |= {"aws_access_key_id": self.keys.access_key_id, "aws_secret_access_key": self.keys.secret_access_key}
        return config | ({"aws_session_token": self.keys.session_token} if self.keys.session_token else {})

    async def check_conditional_puts(self, prefix: str) -> None:
        """Raises Invalid if this S3 would let two writers overwrite each other."""
        # A random name: nodes that start together must not see each other's probe.
        key = f"{prefix}.probe-{secrets.token_hex(8)}"
        await self.create(key, b"1")
        try:
            await self.create(key, b"2")
        except Conflict:
            return
        finally:
            with suppress(FileNotFoundError):
                await self._run("a delete", self._store.delete_async(key))
        raise Invalid(
            f"S3 at {self.url} accepts a put with If-None-Match: * on an existing object where it must answer 412: two "
            "writers would overwrite each other; use an S3 with conditional puts"
        )

    async def create(self, key: str, body: bytes) -> None:
        """Raises Conflict if there is an object of that key."""
        try:
            await self._run("a put", self._store.put_async(key, body, mode="create", use_multipart=False))
        except AlreadyExistsError as error:
            raise Conflict(f"s3://{self.name}/{key} exists") from error
        except FileNotFoundError as error:  # the bucket
            raise self._translate(error, "a put") from error

    async def read(self, key: str) -> bytes | None:
        """The object, or None if there is none of that key."""
        try:
            found = await self._run("a read", self._store.get_async(key))
            return bytes(await self._run("a read", found.bytes_async()))
        except FileNotFoundError as error:
            if "<Code>NoSuchBucket</Code>" in str(error):
                raise self._translate(error, "a read") from error
            return None

    async def list_folder(self, prefix: str) -> tuple[list[str], list[str]]:
        """The names of the folders and of the objects directly under `prefix`, sorted."""
        found = await self._run("a listing", self._store.list_with_delimiter_async(prefix.rstrip("/") or None))
        objects = [each["path"] for each in found["objects"]]
        folders, names = ([path.rpartition("/")[2] for path in paths] for paths in (found["common_prefixes"], objects))
        return sorted(folders), sorted(names)

    @cached_property
    def _store(self) -> S3Store:
        # obstore reads the environment for options that are not set. Those that could make it use another address than
        # SlateDB are set.
        config: dict[str, object] = {
            **self.client_config(),
            "aws_endpoint_url_s3": self.url,
            # By path, because servers other than Amazon's often have no DNS name for each bucket.
            "aws_virtual_hosted_style_request": False,
            "aws_skip_signature": False,
            "aws_conditional_put": "etag",
            "aws_disable_bulk_delete": True,
        }
        keys = self.keys
        return S3Store(
            self.name,
            config=cast("S3Config", config),
            client_options={
                "allow_http": self.allows_http,
                "timeout": timedelta(seconds=REQUEST_S_MAX),
                "connect_timeout": timedelta(seconds=REQUEST_S_MAX),
            },
            retry_config={
                "max_retries": RETRIES_MAX,
                "retry_timeout": timedelta(seconds=RETRY_S_MAX),
                "backoff": {"max_backoff": timedelta(seconds=BACKOFF_S_MAX)},
            },
            # Keys from the settings must not be combined with a session token from the environment.
            credential_provider=None if keys is None else lambda: _credential(keys),
        )

    async def _run(self, what: str, call: Awaitable[T]) -> T:
        """Leaves AlreadyExistsError and FileNotFoundError to the caller."""
        try:
            # Over all tries and pages; obstore's own limits are for single requests.
            async with asyncio.timeout(CALL_S_MAX):
                return await call
        except AlreadyExistsError:
            raise
        except BaseError as error:
            raise self._translate(error, what) from error
        except TimeoutError as error:
            raise Unavailable(f"S3 at {self.url} did not finish {what} within {CALL_S_MAX:g} s") from error

    def _translate(self, error: Exception, what: str) -> ArgosyError:
        """The error by what the operator can do. The client's text is not shown whole: it has the server's answer."""
        text = str(error)
        status, code, request_url = _STATUS.search(text), _CODE.search(text), _REQUEST_URL.search(text)
        answer = f"{status[1]} {code[1] if code else ''}".strip() if status else ""
        if request_url and _origin(request_url[1]) != _origin(self.url):
            service = (
                "the token service" if request_url[1] == "REDACTED" else request_url[1]
            )  # that URL holds the token
            return Unavailable(
                f"no credentials for s3://{self.name}: {service} answered {answer or 'nothing'}; set s3_access_key_id "
                "and s3_secret_access_key, or the AWS_… variables, or give this machine a role"
            )
        if status is None and request_url:
            return Unavailable(f"S3 at {self.url} is not reachable: check s3_endpoint and the network")
        if status is None:
            detail = _QUOTED.sub('"…"', text.partition("\n")[0])[:DETAIL_CHARS_MAX]
            return Unavailable(f"{what} in s3://{self.name} failed: {detail}")
        message = f"S3 at {self.url} answered {what} in bucket {self.name} with {answer}"
        # These pass by themselves; other statuses need the operator.
        if int(status[1]) >= 500 or status[1] == "429":
            return Unavailable(message)
        return Invalid(f"{message}: check that the bucket exists and that the keys or the role may read and write it")


def bucket_of(name: str, settings: ShardStoreSettings, environ: Mapping[str, str]) -> S3Bucket:
    """The bucket with the settings, or where they are empty with the AWS_… variables."""
    variables = {name: value for name, value in environ.items() if value}
    if settings.s3_access_key_id:
        keys = S3Keys(settings.s3_access_key_id, settings.s3_secret_access_key, settings.s3_session_token)
    else:
        keys = S3Keys(*(variables.get(name, "") for name in KEY_VARIABLES))
    # One alone would silently fall back to the machine's role.
    if bool(keys.access_key_id) != bool(keys.secret_access_key):
        raise Invalid("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set together")
    endpoint = settings.s3_endpoint or next((variables[each] for each in ENDPOINT_VARIABLES if each in variables), "")
    region = settings.s3_region or next((variables[each] for each in REGION_VARIABLES if each in variables), "")
    return S3Bucket(
        name,
        region=region or REGION_DEFAULT,
        endpoint=endpoint.rstrip("/"),
        keys=keys if keys.access_key_id else None,
        role={name: variables[name] for name in ROLE_VARIABLES if name in variables},
    )


def _origin(url: str) -> tuple[str | None, int]:
    parts = urlsplit(url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _credential(keys: S3Keys) -> "S3Credential":
    return {
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key,
        "token": keys.session_token or None,
        "expires_at": None,
    }
