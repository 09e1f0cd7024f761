"""URLs whose network location names several hosts, `etcd://[::1]:2379,[::2]:2379/prefix`, and private IP addresses.

urllib allows one bracketed IPv6 address in a network location and raises ValueError for several; older patch releases
accepted them. The generic syntax (RFC 3986, appendix B) does not parse the network location, and neither does this
module: the caller splits the list of hosts, because its grammar depends on the scheme.
"""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult

from argosy.base.errors import Invalid

# Appendix B of RFC 3986, except that the scheme is one by its own grammar: `host:port` alone has none.
_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def split_url(text: str) -> SplitResult:
    """The parts of a URL, as urllib's `urlsplit` returns them; never raises. Read the hosts from `netloc`: the
    properties `hostname` and `port` of the result expect a single one."""
    match = _PARTS.fullmatch(text.strip())
    assert match is not None  # every part may be empty, and the path takes what is left
    scheme, netloc, path, query, fragment = match.groups(default="")
    return SplitResult(scheme.lower(), netloc, path, query, fragment)


def bracket_host(host: str) -> str:
    """The host as written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


_NAT64 = IPv6Network("64:ff9b::/96")


def is_private(number: str) -> bool:
    """Whether an address is anything but a public one: private, loopback, link-local, multicast, reserved.

    An IPv6 address that embeds an IPv4 address is classified by that one. Raises Invalid if `number` is no address.
    """
    try:
        address = ip_address(number.partition("%")[0])
    except ValueError:
        raise Invalid(f"{number[:80]!r} is not an IP address") from None
    if isinstance(address, IPv6Address):
        address = _inner(address) or address
    return not address.is_global or address.is_multicast or address.is_reserved


def _inner(address: IPv6Address) -> IPv4Address | None:
    # Otherwise ::ffff:10.0.0.1 would be a way into a private network that looks like a public address.
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inner is None and address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return inner
