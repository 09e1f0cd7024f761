"""IP addresses. An address that an untrusted client supplies may lead to the internet, never into a private network."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from argosy.base.errors import Invalid

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
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inner is None and address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return inner
