"""Addresses of repositories: what a person or an import list gives, checked before any program sees it.

git takes much for an address that is none: an option (`-u…`), a command to run (`ext::sh -c …`), a helper of any name
(`x::y`). Only what is known to be harmless passes here. A password is no part of an address: it is taken out, so that
none is ever stored, listed or logged, and `note` says where it belongs.
"""

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import xxhash

from argosy.base.errors import Forbidden, Invalid
from argosy.base.redact import redact

ADDRESS_CHARS_MAX = 2_000
SHOWN_CHARS_MAX = 100  # of an address, in an error
PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}

_SCHEMES = {"git+ssh": "ssh", "ssh+git": "ssh"}
_HELPER = re.compile(r"[A-Za-z0-9+._-]*::")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# user@host:path, or host:path: git takes it for ssh unless a slash comes before the colon.
_SCP = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^@/:\[\]]+):(?P<path>[^:].*)")
_BARE = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?/[^/].*")  # github.com/o/r, as people write it
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+~-]*")
_ESCAPED_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)
_NO_PASSWORD = "the user and password were taken out of the address: put them into the credentials of {host}"


@dataclass(frozen=True)
class Address:
    """Where a repository is: `url` is what git is given, or a path on this machine."""

    url: str
    name: str  # what the repository is called unless somebody says otherwise
    scheme: str  # https, http, ssh, git, or file
    host: str = ""  # in lower case, without a port; empty on this machine
    port: int = 0
    path: str = ""  # on this machine
    note: str = ""  # what whoever gave the address should be told

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def is_web(self) -> bool:
        return self.scheme in {"http", "https"}

    @property
    def place(self) -> str:
        """Host and port, the port only if it is not the usual one: what credentials are kept for."""
        return _place(self.scheme, self.host, self.port)


def address_of(text: str, *, allow_local: bool = False) -> Address:
    """The address that is meant; Invalid if it is none, Forbidden if it is on this machine and that is not allowed."""
    text = text.strip(" ")
    if not text:
        raise Invalid("the address is empty: give one like https://github.com/owner/name")
    if len(text) > ADDRESS_CHARS_MAX:
        raise Invalid(f"an address of {len(text)} characters is longer than {ADDRESS_CHARS_MAX}: shorten it")
    if not text.isprintable():
        raise _refused(text, "holds a line break or another control character")
    if text.startswith("-"):
        raise _refused(text, "begins with a dash, like an option")
    if _HELPER.match(text):
        raise _refused(text, "names a program of git's own to fetch with")
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() == "file":
        return _file(text, allow_local)
    if scheme:
        return _url(text, scheme[1].lower())
    if text.startswith(("/", "./", "../", "~")) or text in {".", ".."}:
        return _path(text, text, allow_local)
    if _BARE.fullmatch(text):
        return _url(f"https://{text}", "https")
    if (scp := _SCP.fullmatch(text)) is not None:
        return _scp(text, scp)
    raise _refused(text, "is neither a URL nor a whole path")


def repository_id(name: str) -> int:
    """A number for a repository that any node derives alike; never 0, which means none to zoekt's clients."""
    return xxhash.xxh32_intdigest(name.encode(errors="surrogateescape")) or 1


def _url(text: str, scheme: str) -> Address:
    scheme = _SCHEMES.get(scheme, scheme)
    if scheme not in PORTS:
        raise _refused(text, f"is at a {scheme}:// that is not fetched from")
    try:
        split = urlsplit(text)
        port = split.port or PORTS[scheme]
    except ValueError:
        raise _refused(text, "has a host or port that makes no sense") from None
    host = _host(text, split.hostname or "")
    if "?" in text or "#" in text:
        raise _refused(text, "goes on behind its path", "leave out what follows ? or #")
    path = _url_path(text, split.path)
    user = _user(text, split) if scheme == "ssh" and split.username else ""
    place = _place(scheme, host, port)
    has_secret = bool(split.password) or (scheme != "ssh" and "@" in split.netloc)
    return Address(
        url=f"{scheme}://{user}{place}/{path}",
        name=f"{place}/{_plain(path)}",
        scheme=scheme,
        host=host,
        port=port,
        note=_NO_PASSWORD.format(host=place) if has_secret else "",
    )


def _scp(text: str, scp: re.Match[str]) -> Address:
    host = _host(text, scp["host"].lower())
    user = scp["user"] or ""
    if user and not _USER.fullmatch(user):
        raise _refused(text, "has a user of unusual characters")
    path = _url_path(text, scp["path"])
    # With a leading slash the path is the server's own, without one it starts where the user is at home.
    lead = "/" if scp["path"].startswith("/") else ""
    url = f"{user}@{host}:{lead}{path}" if user else f"{host}:{lead}{path}"
    return Address(url=url, name=f"{host}/{_plain(path)}", scheme="ssh", host=host, port=PORTS["ssh"])


def _file(text: str, allow_local: bool) -> Address:
    split = urlsplit(text)
    if split.netloc.lower() not in {"", "localhost"}:
        raise _refused(text, "is a file of another machine")
    return _path(text, text[len("file://") + len(split.netloc) :], allow_local)


def _path(text: str, path: str, allow_local: bool) -> Address:
    if not allow_local:
        raise Forbidden(
            f"{_shown(text)} is on this machine, and such may not be added: set fetch.allow_local, or give a URL"
        )
    if not path.startswith("/"):
        raise _refused(text, "is not a whole path", "begin it with a slash")
    path = posixpath.normpath(path)
    path = f"/{path.lstrip('/')}"  # two leading slashes survive normpath
    folder = posixpath.dirname(path) if posixpath.basename(path) == ".git" else path
    name = posixpath.basename(folder).removesuffix(".git") or "root"
    return Address(url=path, name=name, scheme="file", path=path)


def _host(text: str, host: str) -> str:
    if not host:
        raise _refused(text, "names no host")
    if not host.isascii():
        raise _refused(text, "has a host with letters beyond ascii", "write it in its form that begins with xn--")
    if not _HOST.fullmatch(host) or ".." in host:
        raise _refused(text, "has a host of unusual characters")
    return host.removesuffix(".")


def _user(text: str, split: SplitResult) -> str:
    if not _USER.fullmatch(split.username or ""):
        raise _refused(text, "has a user of unusual characters")
    return f"{split.username}@"


def _url_path(text: str, path: str) -> str:
    path = path.strip("/")
    parts = path.split("/")
    if not path or path == ".git":
        raise _refused(text, "has no path")
    if any(part in {".", "..", ""} for part in parts) or path.startswith("-"):
        raise _refused(text, "has a path with empty, dotted or dashed steps")
    if " " in path or "\\" in path or _ESCAPED_CONTROL.search(path):
        raise _refused(text, "has a path with blanks, backslashes or control characters")
    return path


def _plain(path: str) -> str:
    return path.removesuffix("/.git").removesuffix(".git")


def _place(scheme: str, host: str, port: int) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if port in (0, PORTS.get(scheme, 0)) else f"{bracketed}:{port}"


def _shown(text: str) -> str:
    text = redact(text)
    return repr(text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…")


def _refused(text: str, why: str, remedy: str = "give an address like https://github.com/owner/name") -> Invalid:
    return Invalid(f"{_shown(text)} is refused, because it {why}: {remedy}")
