"""The URL of an etcd cluster: endpoints, prefix, credentials and TLS files.

    etcd://host:2379                                        one endpoint, in the clear
    etcd://h1:2379,h2:2379,h3:2379/prefix                   several, and every key below /prefix
    etcds://user:password@h1:2379?ca=ca.pem&cert=c.pem&key=k.pem    TLS, with a client certificate and a login

User and password are percent-encoded if they contain one of `:/?#@,`. Neither `str` nor `repr` shows the password.
"""

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, unquote

from argosy.base.errors import Invalid
from argosy.base.redact import redact
from argosy.base.urls import split_url

PORT_DEFAULT = 2379
_SCHEMES = {"etcd": False, "etcds": True}
_OPTIONS = ("ca", "cert", "key")


@dataclass(frozen=True)
class EtcdUrl:
    """One cluster: its endpoints, the prefix of all keys, and the credentials."""

    endpoints: tuple[str, ...]
    prefix: str = ""  # without slashes at either end
    user: str = ""
    password: str = field(default="", repr=False)
    is_tls: bool = False
    ca: str = ""  # path of a PEM file; without it the system's CAs are trusted
    cert: str = ""
    key: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        parts = split_url(text)
        try:
            options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as error:
            raise Invalid(f"{redact(text)!r} is not an etcd URL; write etcd://host:port or etcds://…") from error
        if parts.scheme not in _SCHEMES:
            raise Invalid(f"an etcd URL must begin with etcd:// or etcds://, not {redact(text)!r}")
        is_tls = _SCHEMES[parts.scheme]
        login, _, hosts = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        return cls(
            endpoints=tuple(_endpoint(host, text) for host in hosts.split(",")),
            prefix=unquote(parts.path).strip("/"),
            user=unquote(user),
            password=unquote(password),
            is_tls=is_tls,
            **_files(dict(options), is_tls, text),
        )

    def __post_init__(self) -> None:
        if bool(self.user) != bool(self.password):
            raise Invalid(f"{self}: a login needs both a user and a password")
        if bool(self.cert) != bool(self.key):
            raise Invalid(f"{self}: a client certificate needs both cert= and key=")

    def __str__(self) -> str:
        login = f"{self.user}:***@" if self.user else ""
        return f"etcd{'s' if self.is_tls else ''}://{login}{','.join(self.endpoints)}/{self.prefix}"


def _endpoint(host: str, text: str) -> str:
    """`host:port`, with the default port if it is missing; an IPv6 address is in brackets."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(PORT_DEFAULT)
    is_bracketed = name.startswith("[") and name.endswith("]")
    if not name or (":" in name and not is_bracketed) or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise Invalid(f"{host!r} in {redact(text)!r} is not host:port; write etcd://h1:2379,h2:2379")
    return f"{name}:{port}"


def _files(options: dict[str, str], is_tls: bool, text: str) -> dict[str, str]:
    for name, value in options.items():
        if name not in _OPTIONS or not value:
            raise Invalid(
                f"option {name!r} of {redact(text)!r}: must be one of {', '.join(_OPTIONS)}, each with a PEM file"
            )
    if options and not is_tls:
        raise Invalid(f"{redact(text)!r} has TLS files without TLS; write etcds:// instead of etcd://")
    return options
