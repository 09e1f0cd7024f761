"""Multiaddrs: network addresses, protocol by protocol, as text (`/ip4/127.0.0.1/tcp/80/http`) or bytes.

Addresses are stored as text. An unknown protocol raises UnknownProtocol, so that a caller can skip one address of many.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from argosy.base.errors import Invalid
from argosy.base.urls import is_private as is_private_number
from argosy.ipni.formats import multihash, varint
from argosy.ipni.formats.bases import base32, base64url, from_base32, from_base64url
from argosy.ipni.formats.node import check_text
from argosy.ipni.formats.peer import parse_peer, peer_bytes, peer_of_bytes


class UnknownProtocol(Invalid):
    """The address has a protocol that is not known here; the publisher's other addresses may be usable."""


@dataclass(frozen=True)
class Protocol:
    """One protocol; `size` is that of the value in bytes, None if the value has a length prefix."""

    name: str
    code: int
    size: int | None
    to_bytes: Callable[[str], bytes]
    to_text: Callable[[bytes], str]


# International names use these characters too (xn--…). None of them ends the host part of a URL, so an announced name
# cannot change the rest of the URL that is built from it.
_DNS_NAME = re.compile(r"[A-Za-z0-9_.-]{1,253}")
_WORD = re.compile(r"[^\s/\x00-\x20\x7f]{1,255}")


def _flag_bytes(text: str) -> bytes:
    assert text == ""
    return b""


def _flag_text(data: bytes) -> str:
    assert data == b""
    return ""


def _ip4_bytes(text: str) -> bytes:
    try:
        return IPv4Address(text).packed
    except ValueError:
        raise Invalid(f"{text[:80]!r} is not an IPv4 address") from None


def _ip6_bytes(text: str) -> bytes:
    try:
        ip = IPv6Address(text)
    except ValueError:
        raise Invalid(f"{text[:80]!r} is not an IPv6 address") from None
    # A zone is valid on one machine only.
    if ip.scope_id is not None:
        raise Invalid(f"{text[:80]!r} has a zone: write /ip6zone before it")
    return ip.packed


def _port_bytes(text: str) -> bytes:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16):
        raise Invalid(f"{text[:80]!r} is not a port: 0 to 65535 are")
    return int(text).to_bytes(2, "big")


def _port_text(data: bytes) -> str:
    return str(int.from_bytes(data, "big"))


def _matching(pattern: re.Pattern[str], what: str) -> tuple[Callable[[str], bytes], Callable[[bytes], str]]:
    def to_bytes(text: str) -> bytes:
        if not pattern.fullmatch(text):
            raise Invalid(f"{text[:80]!r} is not {what}")
        return _utf8(text)

    def to_text(data: bytes) -> str:
        text = _from_utf8(data)
        to_bytes(text)
        return text

    return to_bytes, to_text


def _path_bytes(text: str) -> bytes:
    data = unquote_to_bytes(_utf8(text))
    _path_text(data)
    return data


def _path_text(data: bytes) -> str:
    if not data:
        raise Invalid("an http-path is not empty")
    return quote(_from_utf8(data), safe="")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{text[:80]!r} is not text") from None


def _from_utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{data[:80]!r} in an address is not UTF-8 text") from None


def _peer_value(text: str) -> bytes:
    return peer_bytes(parse_peer(text))


def _certhash_bytes(text: str) -> bytes:
    if text[:1] != "u":
        raise Invalid(f"{text[:80]!r} is not a certhash: it begins with u, for base64url")
    data = from_base64url(text[1:])
    multihash.split(data)
    return data


def _certhash_text(data: bytes) -> str:
    multihash.split(data)
    return "u" + base64url(data)


def _onion_bytes(text: str) -> bytes:
    host, _, port = text.partition(":")
    key = from_base32(host)
    if len(key) != 35:
        raise Invalid(f"{text[:80]!r} is not an onion address of version 3, with its port")
    return key + _port_bytes(port)


def _onion_text(data: bytes) -> str:
    return f"{base32(data[:35])}:{_port_text(data[35:])}"


def _flag(name: str, code: int) -> Protocol:
    return Protocol(name, code, 0, _flag_bytes, _flag_text)


def _port(name: str, code: int) -> Protocol:
    return Protocol(name, code, 2, _port_bytes, _port_text)


def _dns(name: str, code: int) -> Protocol:
    return Protocol(name, code, None, *_matching(_DNS_NAME, "a host name"))


def _word(name: str, code: int, what: str) -> Protocol:
    return Protocol(name, code, None, *_matching(_WORD, what))


PROTOCOLS = (
    Protocol("ip4", 4, 4, _ip4_bytes, lambda data: str(IPv4Address(data))),
    Protocol("ip6", 41, 16, _ip6_bytes, lambda data: str(IPv6Address(data))),
    _word("ip6zone", 42, "a zone"),
    _port("tcp", 6), _port("udp", 273), _port("dccp", 33), _port("sctp", 132),
    _dns("dns", 53), _dns("dns4", 54), _dns("dns6", 55), _dns("dnsaddr", 56), _dns("sni", 449),
    Protocol("p2p", 421, None, _peer_value, peer_of_bytes),
    Protocol("onion3", 445, 37, _onion_bytes, _onion_text),
    Protocol("certhash", 466, None, _certhash_bytes, _certhash_text),
    Protocol("http-path", 481, None, _path_bytes, _path_text),
    # http-path before it had a code; its bytes are the escaped text.
    _word("httpath", 0x300200, "an escaped path"),
    _flag("udt", 301), _flag("utp", 302), _flag("tls", 448), _flag("noise", 454),
    _flag("quic", 460), _flag("quic-v1", 461), _flag("webtransport", 465),
    _flag("webrtc-direct", 280), _flag("webrtc", 281), _flag("p2p-circuit", 290),
    _flag("https", 443), _flag("http", 480), _flag("ws", 477), _flag("wss", 478),
)  # fmt: skip
BY_CODE = {protocol.code: protocol for protocol in PROTOCOLS}
BY_NAME = {protocol.name: protocol for protocol in PROTOCOLS} | {"ipfs": BY_CODE[421]}  # the former name of p2p


# As for URLs, which are made from addresses.
ADDRESS_CHARS_MAX = 2048
COMPONENTS_MAX = 32  # an address through a relay has about ten
CACHED_ADDRESSES = 1024  # publishers repeat the same addresses; an entry has a few kilobytes at most
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
        raise Invalid("an address has at least one protocol")
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
    # The value goes through bytes and back, so that one address has one text.
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
        raise Invalid("an address has at least one protocol")
    return tuple(found)


def _count(count: int) -> int:
    if count == COMPONENTS_MAX:
        raise Invalid(f"an address has more than {COMPONENTS_MAX} protocols")
    return count + 1


def _join(components: Iterable[Component]) -> str:
    return "".join(f"/{protocol.name}/{value}" if value else f"/{protocol.name}" for protocol, value in components)


def with_peer(text: str, id: str) -> str:
    """The address with `/p2p/<id>` appended; raises Invalid if it ends in another peer."""
    rest, found = split_peer(text)
    if found not in (None, parse_peer(id)):
        raise Invalid(f"the address {text} is that of {found}, not of {id}")
    return f"{rest}/p2p/{parse_peer(id)}"


def split_peer(text: str) -> tuple[str, str | None]:
    """The address without its final `/p2p/<id>`, and the id; of `/p2p/<id>` alone an empty text is left."""
    components = _components(text)
    protocol, value = components[-1]
    if protocol.name != "p2p":
        return text, None
    return _join(components[:-1]), value


def url_of(text: str) -> str | None:
    """The URL of an HTTP address; None for an address without http or https."""
    components = _components(text)
    values = {protocol.name: value for protocol, value in reversed(components)}  # the first of each name
    host = next((value for protocol, value in components if protocol.name in _HOSTS), None)
    if host is None or not values.keys() & {"http", "https"}:
        return None
    scheme = "https" if "https" in values or "tls" in values else "http"
    if ":" in host:
        host = f"[{host}]"
    # Names are compared without case, and the URL is a key: two spellings would count as two addresses.
    host = host.lower()
    port = f":{values['tcp']}" if "tcp" in values else ""
    path = unquote(values.get("http-path", values.get("httpath", ""))).strip("/")
    return f"{scheme}://{host}{port}" + (f"/{quote(path)}" if path else "")


def from_url(url: str) -> str:
    """The address of an HTTP server; raises Invalid for a URL with more than host, port and path."""
    try:
        parts = urlsplit(check_text(url))
        port = parts.port
    except ValueError as error:
        raise Invalid(f"{url[:80]!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{url[:80]!r} is not a URL of HTTP: it is http://host:port or https://host:port")
    if parts.query or parts.fragment or parts.username is not None:
        raise Invalid(f"{url[:80]!r} has more than host, port and path, which an address cannot express")
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
    """Whether the address names a private network. A public name may still resolve to one: `sync.url_policy` checks
    that."""
    return any(_is_private_host(protocol.name, value) for protocol, value in _components(text))


def _is_private_host(name: str, value: str) -> bool:
    if name in ("ip4", "ip6"):
        return is_private_number(value)
    if name not in _HOSTS:
        return False
    host = value.rstrip(".").lower()
    return host == "localhost" or host.endswith((".localhost", ".local", ".internal")) or _is_hidden_number(host)


def _is_hidden_number(host: str) -> bool:
    """Whether resolvers read the name as an IP address that is private, or that is obfuscated (octal, hexadecimal)."""
    try:
        return is_private_number(host)
    except Invalid:
        return all(part.isdigit() or part.startswith("0x") for part in host.split("."))
