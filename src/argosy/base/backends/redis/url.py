"""The URL of a Redis or Valkey server, a primary behind Sentinel, or a cluster.

    redis://[user:password@]host[:port][/db]
    redis+sentinel://[user:password@]host[:port],host[:port]…/service[/db]
    redis+cluster://[user:password@]host[:port],host[:port]…

`rediss` instead of `redis` encrypts all connections, those to Sentinel included; `valkey` and `valkeys` mean the same
as `redis` and `rediss`. The login is that of the servers; Sentinel is called without one. With TLS these options apply:

    ?ssl_ca_certs=FILE      the certificate authority to trust, instead of the system's
    ?ssl_cert_reqs=none     no verification of the server's certificate
    ?ssl_check_hostname=false       the certificate may be for another host name
    ?ssl_certfile=FILE&ssl_keyfile=FILE     the client's own certificate and key
"""

import ssl
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import parse_qsl, unquote, urlsplit

from argosy.base.errors import Invalid
from argosy.base.urls import split_url

PORT = 6379
SENTINEL_PORT = 26379

_IS_ENCRYPTED = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
_OPTIONS = {
    "ssl_ca_certs": None,
    "ssl_cert_reqs": ("required", "none"),
    "ssl_check_hostname": ("true", "false"),
    "ssl_certfile": None,
    "ssl_keyfile": None,
}

Address = tuple[str, int]


class RedisTopology(Enum):
    """What the hosts of a URL are; the value is the ending of the scheme."""

    SINGLE = ""
    SENTINEL = "+sentinel"
    CLUSTER = "+cluster"


SCHEMES = tuple(name + topology.value for topology in RedisTopology for name in _IS_ENCRYPTED)
SCHEMES_TEXT = "redis[s]:// or valkey[s]:// (also +sentinel or +cluster)"  # for error messages


@dataclass(frozen=True)
class RedisUrl:
    """A parsed URL. `name` is for messages and logs: no user, no password, no options."""

    name: str
    topology: RedisTopology
    hosts: tuple[Address, ...]  # of the server, of the Sentinels, or of some nodes of the cluster
    service: str | None = None  # Sentinel's name of the primary
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    is_encrypted: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = field(default=None, repr=False)
    verifies_certificate: bool = True
    verifies_hostname: bool = True

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of all connections; Invalid if a file cannot be read."""
        if not self.is_encrypted:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise Invalid(f"{self.name}: ssl_ca_certs cannot be read: {error}") from error
        if self.certificate_file is not None:
            try:
                context.load_cert_chain(self.certificate_file, self.key_file)
            except OSError as error:
                raise Invalid(f"{self.name}: ssl_certfile or ssl_keyfile cannot be read: {error}") from error
        # Python requires the host name check to be off before verification can be turned off.
        if not (self.verifies_certificate and self.verifies_hostname):
            context.check_hostname = False
        if not self.verifies_certificate:
            context.verify_mode = ssl.CERT_NONE
        return context


def parse_redis_url(url: str) -> RedisUrl:
    """The parts of a URL; Invalid, without its secrets, if it is malformed."""
    parts = split_url(url)
    # The last @: a password should be percent-encoded, but often is not.
    login, _, places = parts.netloc.rpartition("@")
    # Without login and options: this name is in logs and error messages.
    name = f"{parts.scheme}://{places}{parts.path}"
    if parts.scheme not in SCHEMES:
        raise Invalid(f"{name} is not a Redis URL; expected {SCHEMES_TEXT}")
    base, plus, ending = parts.scheme.partition("+")
    topology = RedisTopology(plus + ending)
    hosts = _hosts(name, places, topology)
    service, db = _path(name, [unquote(part) for part in parts.path.split("/")[1:] if part], topology)
    is_encrypted = _IS_ENCRYPTED[base]
    options = _check_options(name, dict(parse_qsl(parts.query, keep_blank_values=True)), is_encrypted=is_encrypted)
    user, _, password = login.partition(":")
    return RedisUrl(
        name,
        topology,
        hosts,
        service,
        db,
        unquote(user) or None,
        unquote(password) or None,
        is_encrypted,
        options.get("ssl_ca_certs"),
        options.get("ssl_certfile"),
        options.get("ssl_keyfile"),
        options.get("ssl_cert_reqs") != "none",
        options.get("ssl_check_hostname") != "false",
    )


def _hosts(name: str, places: str, topology: RedisTopology) -> tuple[Address, ...]:
    default_port = SENTINEL_PORT if topology is RedisTopology.SENTINEL else PORT
    hosts = tuple(_address(name, place, default_port) for place in places.split(","))
    # Two hosts without Sentinel or cluster could be two servers with different data, and a client would alternate.
    if len(hosts) > 1 and topology is RedisTopology.SINGLE:
        raise Invalid(f"{name} names several servers; only redis+sentinel:// and redis+cluster:// URLs may")
    return hosts


def _address(name: str, place: str, default_port: int) -> Address:
    try:
        parts = urlsplit(f"//{place}")
        return parts.hostname or "localhost", parts.port or default_port
    except ValueError as error:
        raise Invalid(f"{name} is not a Redis URL: {error}") from error


def _path(name: str, path: list[str], topology: RedisTopology) -> tuple[str | None, int]:
    """The service and the database."""
    service = None
    if topology is RedisTopology.SENTINEL:
        if not path:
            raise Invalid(f"{name} names no Sentinel service; append /<service>")
        service, *path = path
    if not path:
        return service, 0
    if len(path) > 1 or not path[0].isdecimal():
        raise Invalid(f"{name} is not a Redis URL: the database is a number, not {'/'.join(path)!r}")
    db = int(path[0])
    if db and topology is RedisTopology.CLUSTER:
        raise Invalid(f"{name} names database {db}; a cluster has only database 0")
    return service, db


def _check_options(name: str, options: dict[str, str], *, is_encrypted: bool) -> dict[str, str]:
    for option, value in sorted(options.items()):
        if option not in _OPTIONS:
            raise Invalid(f"{name} has the unknown option {option!r}; known options: {', '.join(_OPTIONS)}")
        choices = _OPTIONS[option]
        if choices is not None and value not in choices:
            raise Invalid(f"{name}: {option} must be {' or '.join(choices)}, not {value!r}")
        if not is_encrypted:
            # A TLS option on a plain URL means that its author believes the connection to be encrypted.
            raise Invalid(f"{name} has the option {option!r}, which requires TLS; use rediss://")
    return options
