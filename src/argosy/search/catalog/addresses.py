"""Repository addresses: validation before any program sees them, and the names that follow from them.

git accepts unsafe addresses: options (`-u…`), commands (`ext::sh -c …`) and remote helpers of any name (`x::y`). Only
forms known to be harmless pass. A password is removed from the address, so that it is never stored, listed or logged;
`note` says where to configure it.

A repository's name follows from its address (decision 0021): host and path, or the base name of a local folder. Where
two folders share a base name, all of them are qualified by their parents, as git hosts do with owners: `a/tool` and
`b/tool`.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import xxhash

from argosy.base.errors import Forbidden, Invalid
from argosy.base.redact import redact

# No real address is nearly as long, and regular expressions below run over the whole text.
ADDRESS_CHARS_MAX = 2_000
ERROR_CHARS_MAX = 100  # of an address in an error message
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
_NO_PASSWORD = "user and password removed from the address; add them to the credentials of {host}"


@dataclass(frozen=True)
class Address:
    """A valid address. `url` is passed to git; for a local repository it is its path."""

    url: str
    name: str  # default name of the repository
    scheme: str  # https, http, ssh, git, or file
    host: str = ""  # lower case, without the port; empty for a local path
    port: int = 0
    path: str = ""  # of a local repository
    note: str = ""  # a hint for the user who entered the address

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def is_web(self) -> bool:
        return self.scheme in {"http", "https"}

    @property
    def host_port(self) -> str:
        """Host, and port unless it is the scheme's default: the key of credentials."""
        return _host_port(self.scheme, self.host, self.port)


def address_of(text: str, *, allow_local: bool = False) -> Address:
    """Parses an address. Invalid if it is malformed or unsafe, Forbidden if it is local and that is not allowed."""
    text = text.strip(" ")
    if not text:
        raise Invalid("empty address; use the form https://github.com/owner/name")
    if len(text) > ADDRESS_CHARS_MAX:
        raise Invalid(f"address too long: {len(text)} characters, limit {ADDRESS_CHARS_MAX}")
    if not text.isprintable():
        raise _invalid(text, "contains a control character")
    # Checked before everything else that could accept it: git takes such an address for an option.
    if text.startswith("-"):
        raise _invalid(text, "starts with a dash, like an option")
    if _HELPER.match(text):
        raise _invalid(text, "names a git remote helper")
    scheme = _SCHEME.match(text)
    # Schemes first: `scheme://` also matches the scp form below.
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
    raise _invalid(text, "neither a URL nor an absolute path")


def repository_id(name: str) -> int:
    """The numeric id of a repository, the same on every node; never 0, which zoekt's clients read as none."""
    return xxhash.xxh32_intdigest(name.encode(errors="surrogateescape")) or 1


def _url(text: str, scheme: str) -> Address:
    scheme = _SCHEMES.get(scheme, scheme)
    if scheme not in PORTS:
        raise _invalid(text, f"unsupported scheme {scheme}://")
    try:
        split = urlsplit(text)
        port = split.port or PORTS[scheme]
    except ValueError:
        raise _invalid(text, "invalid host or port") from None
    host = _host(text, split.hostname or "")
    if "?" in text or "#" in text:
        raise _invalid(text, "has a query or fragment", "remove the part after ? or #")
    path = _url_path(text, split.path)
    user = _user(text, split) if scheme == "ssh" and split.username else ""
    host_port = _host_port(scheme, host, port)
    has_secret = bool(split.password) or (scheme != "ssh" and "@" in split.netloc)
    return Address(
        url=f"{scheme}://{user}{host_port}/{path}",
        name=f"{host_port}/{_plain(path)}",
        scheme=scheme,
        host=host,
        port=port,
        note=_NO_PASSWORD.format(host=host_port) if has_secret else "",
    )


def _scp(text: str, scp: re.Match[str]) -> Address:
    host = _host(text, scp["host"].lower())
    user = scp["user"] or ""
    if user and not _USER.fullmatch(user):
        raise _invalid(text, "invalid characters in the user")
    path = _url_path(text, scp["path"])
    # With a leading slash the path is absolute on the server, without one it is relative to the user's home.
    lead = "/" if scp["path"].startswith("/") else ""
    url = f"{user}@{host}:{lead}{path}" if user else f"{host}:{lead}{path}"
    return Address(url=url, name=f"{host}/{_plain(path)}", scheme="ssh", host=host, port=PORTS["ssh"])


def _file(text: str, allow_local: bool) -> Address:
    split = urlsplit(text)
    if split.netloc.lower() not in {"", "localhost"}:
        raise _invalid(text, "a file URL of another host")
    return _path(text, text[len("file://") + len(split.netloc) :], allow_local)


def _path(text: str, path: str, allow_local: bool) -> Address:
    if not allow_local:
        raise Forbidden(f"local repository {_format(text)} not allowed; set fetch.allow_local, or use a URL")
    if not path.startswith("/"):
        raise _invalid(text, "not an absolute path", "start it with a slash")
    path = posixpath.normpath(path)
    path = f"/{path.lstrip('/')}"  # two leading slashes survive normpath
    directory = posixpath.dirname(path) if posixpath.basename(path) == ".git" else path
    name = posixpath.basename(directory).removesuffix(".git") or "root"
    return Address(url=path, name=name, scheme="file", path=path)


def _host(text: str, host: str) -> str:
    if not host:
        raise _invalid(text, "no host")
    if not host.isascii():
        raise _invalid(text, "non-ASCII host", "use its punycode form, xn--…")
    if not _HOST.fullmatch(host) or ".." in host:
        raise _invalid(text, "invalid characters in the host")
    return host.removesuffix(".")


def _user(text: str, split: SplitResult) -> str:
    if not _USER.fullmatch(split.username or ""):
        raise _invalid(text, "invalid characters in the user")
    return f"{split.username}@"


def _url_path(text: str, path: str) -> str:
    path = path.strip("/")
    parts = path.split("/")
    if not path or path == ".git":
        raise _invalid(text, "no path")
    # A dot component could lead out of the directory in which the server keeps its repositories.
    if any(part in {".", "..", ""} for part in parts) or path.startswith("-"):
        raise _invalid(text, "empty, dotted or dashed path components")
    if " " in path or "\\" in path or _ESCAPED_CONTROL.search(path):
        raise _invalid(text, "blanks, backslashes or control characters in the path")
    return path


def _plain(path: str) -> str:
    # Both forms are in use, and name one repository (decision 0021).
    return path.removesuffix("/.git").removesuffix(".git")


def _host_port(scheme: str, host: str, port: int) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if port in (0, PORTS.get(scheme, 0)) else f"{bracketed}:{port}"


def _format(text: str) -> str:
    text = redact(text)
    return repr(text if len(text) <= ERROR_CHARS_MAX else f"{text[:ERROR_CHARS_MAX]}…")


def _invalid(text: str, why: str, remedy: str = "use the form https://github.com/owner/name") -> Invalid:
    return Invalid(f"invalid address {_format(text)}: {why}; {remedy}")


# -- names -------------------------------------------------------------------------------------------------------------


def unique_names(addresses: Sequence[Address], taken: Collection[str] = ()) -> list[str]:
    """A name for each address, in the same order; none is used twice and none is in `taken`.

    The result depends only on the addresses and on `taken`, not on the order given: two processes that serve the same
    folders choose the same names.
    """
    candidates = [_name_candidates(address) for address in addresses]
    levels = [0] * len(addresses)
    while True:
        names = [options[level] for options, level in zip(candidates, levels, strict=True)]
        counts = Counter(names)
        short = [
            index
            for index, name in enumerate(names)
            if (counts[name] > 1 or name in taken) and levels[index] + 1 < len(candidates[index])
        ]
        if not short:  # each pass lengthens a name, so the number of passes is bounded
            return _number_duplicates(addresses, names, taken)
        for index in short:
            levels[index] += 1


def _name_candidates(address: Address) -> list[str]:
    """The names an address can have, the shortest first."""
    if not address.is_local:
        return [address.name]
    parents = [part for part in address.path.removesuffix("/.git").split("/")[:-1] if part]
    return ["/".join([*parents[len(parents) - depth :], address.name]) for depth in range(len(parents) + 1)]


def _number_duplicates(addresses: Sequence[Address], names: list[str], taken: Collection[str]) -> list[str]:
    """Where even whole paths are alike (`tool` and `tool.git`), all but the first get a number."""
    used = {*taken}
    found = list(names)
    for index in sorted(range(len(names)), key=lambda index: addresses[index].url):
        name, number = names[index], 1
        while name in used or (number > 1 and name in names):
            number += 1
            name = f"{names[index]}-{number}"
        used.add(name)
        found[index] = name
    return found
