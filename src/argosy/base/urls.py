"""URLs whose network location names several hosts: `etcd://[::1]:2379,[::2]:2379/prefix`.

urllib allows one bracketed IPv6 address in a network location and raises ValueError for several; older patch releases
accepted them. The generic syntax (RFC 3986, appendix B) does not parse the network location, and neither does this
module: the caller splits the list of hosts, because its grammar depends on the scheme.
"""

import re
from urllib.parse import SplitResult

# Appendix B of RFC 3986, except that the scheme is one by its own grammar: `host:port` alone has none.
_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def split_url(text: str) -> SplitResult:
    """The parts of a URL, as urllib's `urlsplit` returns them; never raises. Read the hosts from `netloc`: the
    properties `hostname` and `port` of the result expect a single one."""
    match = _PARTS.fullmatch(text.strip())
    assert match is not None  # every part may be empty, and the path takes what is left
    scheme, netloc, path, query, fragment = match.groups(default="")
    return SplitResult(scheme.lower(), netloc, path, query, fragment)


def bracketed(host: str) -> str:
    """The host as written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
