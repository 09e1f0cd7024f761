"""The protocols that an address may name: their numbers, and how their values are written as text and bytes."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote, unquote_to_bytes

from argosy.base.errors import Invalid
from argosy.ipni.formats import multihash
from argosy.ipni.formats.bases import base32, base64url, from_base32, from_base64url
from argosy.ipni.formats.peer import parse_peer, peer_bytes, peer_of_bytes


class UnknownProtocol(Invalid):
    """An address of a kind that this program does not know; others beside it may do."""


@dataclass(frozen=True)
class Protocol:
    """`size` is that of the value in bytes, None if its length stands before it."""

    name: str
    code: int
    size: int | None
    to_bytes: Callable[[str], bytes]
    to_text: Callable[[bytes], str]


# Names of other scripts are written in these letters too (xn--…). What could end a host in a URL is not among them.
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
    # The form of http-path before it had a number of its own; its bytes are the escaped text.
    _word("httpath", 0x300200, "an escaped path"),
    _flag("udt", 301), _flag("utp", 302), _flag("tls", 448), _flag("noise", 454),
    _flag("quic", 460), _flag("quic-v1", 461), _flag("webtransport", 465),
    _flag("webrtc-direct", 280), _flag("webrtc", 281), _flag("p2p-circuit", 290),
    _flag("https", 443), _flag("http", 480), _flag("ws", 477), _flag("wss", 478),
)  # fmt: skip
BY_CODE = {protocol.code: protocol for protocol in PROTOCOLS}
BY_NAME = {protocol.name: protocol for protocol in PROTOCOLS} | {"ipfs": BY_CODE[421]}  # its name of old
