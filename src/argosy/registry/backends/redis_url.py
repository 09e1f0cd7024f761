"""Where a Redis or Valkey server is, as a URL says it.

    redis://[user:password@]host[:port][/db]            rediss:// with TLS; valkey:// and valkeys:// are the same
    redis+sentinel://[user:password@]host[:port],host[:port]…/service[/db]

With TLS, `?ssl_ca_certs=FILE` names the authority to trust, and `?ssl_cert_reqs=none` trusts anybody.
"""

import ssl
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from argosy.base.errors import Invalid
from argosy.base.urls import split_url

PORT = 6379
SENTINEL_PORT = 26379
SENTINEL_SCHEME = "redis+sentinel"
SCHEMES = ("redis", "rediss", "valkey", "valkeys", SENTINEL_SCHEME)
_WITH_TLS = ("rediss", "valkeys")
_OPTIONS = ("ssl_ca_certs", "ssl_cert_reqs")

Address = tuple[str, int]


@dataclass(frozen=True)
class Target:
    """What a URL says. `name` is for people: no user, no password, no options."""

    name: str
    hosts: tuple[Address, ...]  # of the server, or of the sentinels
    service: str | None = None  # what the sentinels call the primary
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    is_encrypted: bool = False
    ca_file: str | None = None
    is_trusting: bool = False

    def tls(self) -> ssl.SSLContext | None:
        if not self.is_encrypted:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise Invalid(f"{self.name}: ssl_ca_certs cannot be read: {error}") from error
        if self.is_trusting:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def parse(url: str) -> Target:
    """The target of a URL; Invalid, without its secrets, if it is none."""
    parts = split_url(url)
    login, _, places = parts.netloc.rpartition("@")
    name = f"{parts.scheme}://{places}{parts.path}"
    if parts.scheme not in SCHEMES:
        raise Invalid(f"{name} is not a Redis URL: it begins with one of {', '.join(f'{s}://' for s in SCHEMES)}")
    is_sentinel = parts.scheme == SENTINEL_SCHEME
    path = [unquote(part) for part in parts.path.split("/")[1:] if part]
    if is_sentinel and not path:
        raise Invalid(f"{name} does not say which service the sentinels watch: add /<service>")
    service = path.pop(0) if is_sentinel else None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(options.keys() - set(_OPTIONS)):
        raise Invalid(f"{name} has the unknown option {unknown[0]!r}: there are {', '.join(_OPTIONS)}")
    hosts = tuple(_address(name, place, SENTINEL_PORT if is_sentinel else PORT) for place in places.split(","))
    if len(hosts) > 1 and not is_sentinel:
        raise Invalid(f"{name} names several servers: only {SENTINEL_SCHEME}:// may")
    user, _, password = login.partition(":")
    return Target(
        name,
        hosts,
        service,
        _db(name, path),
        unquote(user) or None,
        unquote(password) or None,
        parts.scheme in _WITH_TLS,
        options.get("ssl_ca_certs"),
        options.get("ssl_cert_reqs") == "none",
    )


def _address(name: str, place: str, default_port: int) -> Address:
    try:
        parts = urlsplit(f"//{place}")
        return parts.hostname or "localhost", parts.port or default_port
    except ValueError as error:
        raise Invalid(f"{name} is not a Redis URL: {error}") from error


def _db(name: str, path: list[str]) -> int:
    if not path:
        return 0
    if len(path) > 1 or not path[0].isdecimal():
        raise Invalid(f"{name} is not a Redis URL: the database is a number, not {'/'.join(path)!r}")
    return int(path[0])
