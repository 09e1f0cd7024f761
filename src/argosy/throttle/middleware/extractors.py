"""A request as the middleware sees it, and extractors: functions from a request to the id of its client.

    client_of = first_of(by_api_key(), by_address(trusted_proxies=1))

ASGI and WSGI requests have the same interface, so that one extractor serves both kinds of application, and a client has
the same id in both.

An extractor that finds no client returns None, and ids of different extractors here never coincide. Fairness is between
ids: whatever a client can choose freely, such as a header that no proxy verifies, lets it be many clients.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Protocol, TypeAlias

from argosy.base.errors import Invalid
from argosy.throttle.model import ClientId

_UNPREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")  # headers that WSGI does not prefix with HTTP_


class HttpRequest(Protocol):
    """One request, before its body is read."""

    @property
    def method(self) -> str:
        """In capitals; GET for a websocket."""
        ...

    @property
    def path(self) -> str:
        """As the client sent it, decoded, with the prefix at which the application is mounted."""
        ...

    @property
    def address(self) -> str | None:
        """The peer of the connection, which may be a proxy; None behind a Unix socket."""
        ...

    @property
    def raw(self) -> Mapping[str, Any]:
        """The ASGI scope or the WSGI environ, for everything else."""
        ...

    def header(self, name: str) -> str | None:
        """The value of a header; several lines are joined with commas."""
        ...


class AsgiRequest:
    """A request from an ASGI scope."""

    __slots__ = ("raw",)

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.raw = scope

    @property
    def method(self) -> str:
        return str(self.raw.get("method", "GET"))

    @property
    def path(self) -> str:
        return str(self.raw["path"])

    @property
    def address(self) -> str | None:
        client = self.raw.get("client")
        return str(client[0]) if client else None

    def header(self, name: str) -> str | None:
        wanted = name.lower().encode("latin-1")
        values = [value for each, value in self.raw["headers"] if each == wanted]
        return b",".join(values).decode("latin-1") if values else None


class WsgiRequest:
    """A request from a WSGI environ. WSGI cannot distinguish the headers `a-b` and `a_b`; servers should drop `a_b`."""

    __slots__ = ("raw",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.raw = environ

    @property
    def method(self) -> str:
        return str(self.raw.get("REQUEST_METHOD", "GET"))

    @property
    def path(self) -> str:
        # WSGI passes the bytes of a path as Latin-1.
        # The prefix of a mounted application is part of the path, as in ASGI, so that rules mean the same in both.
        path = str(self.raw.get("SCRIPT_NAME", "")) + str(self.raw.get("PATH_INFO", ""))
        return path.encode("latin-1").decode("utf-8", "replace")

    @property
    def address(self) -> str | None:
        return self.raw.get("REMOTE_ADDR") or None

    def header(self, name: str) -> str | None:
        key = name.upper().replace("-", "_")
        return self.raw.get(key if key in _UNPREFIXED else f"HTTP_{key}")


Extractor: TypeAlias = Callable[[HttpRequest], ClientId | None]

ID_LENGTH_MAX = 128  # characters; a longer id is replaced by its digest
PROXIES_MAX = 16
ADDRESS_LENGTH_MAX = 64  # an IPv6 address in brackets, with zone and port, is shorter
ADDRESSES_REMEMBERED = 4096  # parsing takes ten times as long as a decision
IPV6_PREFIX = 64  # the least that a single customer is given

# 128 bits: no two clients of any fleet collide by chance.
_DIGEST_BYTES = 16
_SHOWN_BYTES = 6


def by_header(name: str) -> Extractor:
    """The value of a header that something in front of us has verified, such as an authenticating proxy."""
    _check_header(name)

    def extract(call: HttpRequest) -> ClientId | None:
        value = call.header(name)
        # The name is part of the id, so that equal values of two headers are two clients.
        return f"header:{name.lower()}:{value}" if value else None

    return extract


def by_api_key(header: str = "authorization", *, secret: bytes | None = None) -> Extractor:
    """The digest of an API key, so that the key itself is stored nowhere; with a secret the digest cannot be guessed.

    Of `Authorization: Bearer abc` the key is `abc`, whatever the scheme.
    """
    _check_header(header)
    has_scheme = header.lower() in ("authorization", "proxy-authorization")

    def extract(call: HttpRequest) -> ClientId | None:
        key = (call.header(header) or "").strip()
        if has_scheme:
            # A header without a scheme is taken as the key itself.
            key = key.partition(" ")[2].strip() or key
        return f"key:{_digest(key, secret)}" if key else None

    return extract


def by_address(
    trusted_proxies: int = 0, *, header: str = "x-forwarded-for", ipv6_prefix: int = IPV6_PREFIX
) -> Extractor:
    """The client's address; of an IPv6 client its network, because it can use every address of it.

    Each proxy appends the address of its caller to the header, and the client may have sent anything there before. So
    only as many entries as there are trusted proxies are read, from the right.
    """
    if not 0 <= trusted_proxies <= PROXIES_MAX:
        raise Invalid(f"trusted_proxies must be 0 to {PROXIES_MAX}, not {trusted_proxies}")
    if not 1 <= ipv6_prefix <= 128:
        raise Invalid(f"ipv6_prefix must be 1 to 128, not {ipv6_prefix}")
    _check_header(header)

    def extract(call: HttpRequest) -> ClientId | None:
        client = _network(call.address, ipv6_prefix) if call.address else None
        if trusted_proxies:
            entries = (call.header(header) or "").rsplit(",", trusted_proxies)[-trusted_proxies:]
            # From the right: the last entry was appended by our own proxy, and each trusted proxy vouches for one
            # entry.
            for entry in reversed(entries):
                further = _network(entry, ipv6_prefix) if len(entry) <= ADDRESS_LENGTH_MAX else None
                if further is None:
                    break  # not written by a trusted proxy: the address before it is the last known one
                client = further
        return client

    return extract


def by_path(segments: int = 1) -> Extractor:
    """The beginning of the path, where tenants have their own paths: `/acme` of `/acme/users/7`."""
    if segments < 1:
        raise Invalid(f"segments must be at least 1, not {segments}")

    def extract(call: HttpRequest) -> ClientId | None:
        beginning = call.path.split("/", segments + 1)[1 : segments + 1]
        return "path:/" + "/".join(beginning) if any(beginning) else None

    return extract


def first_of(*extractors: Extractor) -> Extractor:
    """The first extractor that finds a client."""
    _check_some(extractors)

    def extract(call: HttpRequest) -> ClientId | None:
        return next((client for each in extractors if (client := each(call)) is not None), None)

    return extract


def all_of(*extractors: Extractor) -> Extractor:
    """All ids together, such as a tenant and a path; None unless every extractor finds one."""
    _check_some(extractors)

    def extract(call: HttpRequest) -> ClientId | None:
        parts: list[str] = []
        for each in extractors:
            client = each(call)
            if client is None:
                return None
            part = as_text(client)
            parts.append(f"{len(part)}:{part}")  # with lengths, so that different lists of parts are different texts
        return "all:" + "".join(parts)

    return extract


def as_text(client_id: ClientId) -> str:
    """An id as text, reversibly."""
    return client_id if isinstance(client_id, str) else client_id.decode("latin-1")


def shorten_id(client_id: ClientId) -> ClientId:
    """The id, or its digest if it is longer than ID_LENGTH_MAX."""
    return client_id if len(client_id) <= ID_LENGTH_MAX else f"long:{_digest(as_text(client_id), None)}"


def log_digest(client_id: ClientId, key: bytes) -> str:
    """A client for the log: equal for equal ids, and not reversible without the key."""
    return _digest(as_text(client_id), key, _SHOWN_BYTES)


@lru_cache(maxsize=ADDRESSES_REMEMBERED)
def _network(text: str, ipv6_prefix: int) -> str | None:
    """The id of an address as a proxy may write it: with a port, in brackets, in quotes."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    # One colon separates a port; an IPv6 address has at least two.
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        # An IPv4 client of a dual-stack server appears as ::ffff:a.b.c.d and must have the same id as on an IPv4
        # server.
        if address.ipv4_mapped is None:
            return f"address:{ip_network((address, ipv6_prefix), strict=False)}"
        address = address.ipv4_mapped
    return f"address:{address}"


def _digest(text: str, key: bytes | None, size: int = _DIGEST_BYTES) -> str:
    keyed = b"" if key is None else key if len(key) <= blake2b.MAX_KEY_SIZE else blake2b(key).digest()
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size, key=keyed).hexdigest()


def _check_header(name: str) -> None:
    if not name or not all(c.isalnum() or c in "!#$%&'*+-.^_`|~" for c in name) or not name.isascii():
        raise Invalid(f"{name!r} is not a valid header name")


def _check_some(extractors: tuple[Extractor, ...]) -> None:
    if not extractors:
        raise Invalid("name at least one extractor to combine")
