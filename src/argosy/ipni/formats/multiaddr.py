"""Multiaddrs: network addresses, protocol by protocol, as text (`/ip4/127.0.0.1/tcp/80/http`) or bytes.

Addresses are stored as text. An unknown protocol raises UnknownProtocol, so that a caller can skip one address.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import quote, unquote, urlsplit

from argosy.base.errors import Invalid
from argosy.base.urls import is_private as is_private_number
from argosy.ipni.formats import varint
from argosy.ipni.formats.multiaddr_protocols import BY_CODE, BY_NAME, Protocol, UnknownProtocol
from argosy.ipni.formats.node import check_text
from argosy.ipni.formats.peer import parse_peer

__all__ = [
    "UnknownProtocol",
    "from_url",
    "is_private",
    "protocols",
    "split_peer",
    "to_bytes",
    "to_text",
    "url_of",
    "with_peer",
]

ADDRESS_CHARS_MAX = 2048
COMPONENTS_MAX = 32  # through a relay there are some ten
CACHED_ADDRESSES = 1024  # the same addresses come again and again; at worst a few kilobytes each
_HOSTS = {"ip4", "ip6", "dns", "dns4", "dns6", "dnsaddr"}

Component = tuple[Protocol, str]


@lru_cache(CACHED_ADDRESSES)
def to_bytes(text: str) -> bytes:
    return b"".join(_component_bytes(protocol, value) for protocol, value in _components(text))


def _component_bytes(protocol: Protocol, value: str) -> bytes:
    data = protocol.to_bytes(value)
    return varint.encode(protocol.code) + (varint.encode_bytes(data) if protocol.size is None else data)


@lru_cache(CACHED_ADDRESSES)
def to_text(data: bytes) -> str:
    if len(data) > ADDRESS_CHARS_MAX:
        raise Invalid(f"an address of {len(data)} bytes is longer than {ADDRESS_CHARS_MAX}")
    if not data:
        raise Invalid("an address has one protocol at least")
    return _join(_components_of_bytes(data))


def _components_of_bytes(data: bytes) -> Iterator[Component]:
    at = count = 0
    while at < len(data):
        count = _count(count)
        code, at = varint.decode(data, at)
        protocol = BY_CODE.get(code)
        if protocol is None:
            raise UnknownProtocol(f"the address protocol {code} is not known")
        if protocol.size is None:
            value, at = varint.decode_bytes(data, at)
        else:
            value, at = data[at : at + protocol.size], at + protocol.size
            if at > len(data):
                raise Invalid(f"the address ends in the middle of {protocol.name}")
        yield protocol, protocol.to_text(value)


def protocols(text: str) -> tuple[str, ...]:
    return tuple(protocol.name for protocol, _ in _components(text))


@lru_cache(CACHED_ADDRESSES)
def _components(text: str) -> tuple[Component, ...]:
    """Every protocol with its value in normal form."""
    if len(text) > ADDRESS_CHARS_MAX:
        raise Invalid(f"an address of {len(text)} characters is longer than {ADDRESS_CHARS_MAX}")
    if not text.startswith("/"):
        raise Invalid(f"{text[:80]!r} is not an address: it begins with a slash, as /ip4/127.0.0.1/tcp/80/http does")
    parts = iter(text.rstrip("/").split("/")[1:])
    found: list[Component] = []
    for name in parts:
        _count(len(found))
        protocol = BY_NAME.get(name)
        if protocol is None:
            raise UnknownProtocol(f"the address protocol {name[:80]!r} is not known")
        value = "" if protocol.size == 0 else next(parts, "")
        found.append((protocol, protocol.to_text(protocol.to_bytes(value))))
    if not found:
        raise Invalid("an address has one protocol at least")
    return tuple(found)


def _count(count: int) -> int:
    if count == COMPONENTS_MAX:
        raise Invalid(f"an address has more than {COMPONENTS_MAX} protocols")
    return count + 1


def _join(components: Iterable[Component]) -> str:
    return "".join(f"/{protocol.name}/{value}" if value else f"/{protocol.name}" for protocol, value in components)


def with_peer(text: str, id: str) -> str:
    """The address with `/p2p/<id>` as its end; Invalid if it ends in somebody else."""
    rest, found = split_peer(text)
    if found not in (None, parse_peer(id)):
        raise Invalid(f"the address {text} is that of {found}, not of {id}")
    return f"{rest}/p2p/{parse_peer(id)}"


def split_peer(text: str) -> tuple[str, str | None]:
    """The address without `/p2p/<id>` at its end, and the id; what is left of `/p2p/<id>` alone is empty."""
    components = _components(text)
    protocol, value = components[-1]
    if protocol.name != "p2p":
        return text, None
    return _join(components[:-1]), value


def url_of(text: str) -> str | None:
    """Where to ask over HTTP; None for an address that does not speak it."""
    components = _components(text)
    values = {protocol.name: value for protocol, value in reversed(components)}  # the first of each counts
    host = next((value for protocol, value in components if protocol.name in _HOSTS), None)
    if host is None or not values.keys() & {"http", "https"}:
        return None
    scheme = "https" if "https" in values or "tls" in values else "http"
    if ":" in host:
        host = f"[{host}]"
    host = host.lower()
    port = f":{values['tcp']}" if "tcp" in values else ""
    path = unquote(values.get("http-path", values.get("httpath", ""))).strip("/")
    return f"{scheme}://{host}{port}" + (f"/{quote(path)}" if path else "")


def from_url(url: str) -> str:
    """The address of an HTTP server; what a URL has beyond host, port and path cannot be said and is refused."""
    try:
        parts = urlsplit(check_text(url))
        port = parts.port
    except ValueError as error:
        raise Invalid(f"{url[:80]!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{url[:80]!r} is not a URL of HTTP: it is http://host:port or https://host:port")
    if parts.query or parts.fragment or parts.username is not None:
        raise Invalid(f"{url[:80]!r} has more than host, port and path, which an address cannot say")
    text = _host_address(parts.hostname) + (f"/tcp/{port}" if port is not None else "") + f"/{parts.scheme}"
    path = unquote(parts.path)
    if path.strip("/"):
        text += f"/http-path/{quote(path, safe='')}"
    return _join(_components(text))


def _host_address(host: str) -> str:
    try:
        ip = ip_address(host)
    except ValueError:
        return f"/dns/{host}"
    return f"/ip{ip.version}/{ip}"


def is_private(text: str) -> bool:
    """Whether it leads to somewhere that is not on the public network, as far as the address itself tells."""
    return any(_is_private_host(protocol.name, value) for protocol, value in _components(text))


def _is_private_host(name: str, value: str) -> bool:
    if name in ("ip4", "ip6"):
        return is_private_number(value)
    if name not in _HOSTS:
        return False
    host = value.rstrip(".").lower()
    return host == "localhost" or host.endswith((".localhost", ".local", ".internal")) or _is_hidden_number(host)


def _is_hidden_number(host: str) -> bool:
    """A name that resolvers read as an IP address, private or in a form that only hides what it is."""
    try:
        return is_private_number(host)
    except Invalid:
        return all(part.isdigit() or part.startswith("0x") for part in host.split("."))
