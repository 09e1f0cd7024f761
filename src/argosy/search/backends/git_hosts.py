"""Code hosts: what a repository is called there, and how the addresses of its commits, files and lines are written.

Addresses are templates in the form zoekt's clients evaluate: `{{.Version}}`, `{{.Path}}`, `{{.LineNumber}}` and
`URLJoinPath`, which escapes what it joins.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

# user@host:path, which git takes for ssh; a path with a slash before its colon is a local one.
_SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^@/:]+):(?!//)(?P<path>.+)")
_REMOTE_SCHEMES = {"http", "https", "ssh", "git", "git+ssh", "ssh+git"}
_WEB_SCHEMES = {"http", "https"}


@dataclass(frozen=True)
class Addresses:
    """Templates; a line's fragment goes behind a file's address."""

    file: str = ""
    commit: str = ""
    line: str = ""


@dataclass(frozen=True)
class Remote:
    """Where a clone comes from: `name` is host and path, `url` its page on the web, without any user or password."""

    name: str = ""
    url: str = ""
    kind: str = ""


def remote_of(text: str) -> Remote:
    """What the URL of a git remote says; nothing for a path on this machine."""
    split = _split(text)
    if split is None or split.scheme not in _REMOTE_SCHEMES or not split.hostname:
        return Remote()
    # The port of ssh is not the port of the web.
    host = _host(split, with_port=split.scheme in _WEB_SCHEMES)
    path = split.path.strip("/")
    plain = path.removesuffix(".git").rstrip("/")
    kind = _kind(split.hostname)
    scheme = split.scheme if split.scheme in _WEB_SCHEMES else "https"
    return Remote(f"{host}/{plain}", f"{scheme}://{host}/{path if kind == 'cgit' else plain}", kind)


def without_user(url: str) -> str:
    """The URL without a user and password."""
    try:
        split = urlsplit(url)
        return split._replace(netloc=_host(split)).geturl() if "@" in split.netloc else url
    except ValueError:
        return ""


def _split(text: str) -> SplitResult | None:
    scp = None if "://" in text else _SCP.fullmatch(text)
    try:
        split = urlsplit(f"ssh://{scp['host']}/{scp['path']}" if scp else text)
        _ = split.port
    except ValueError:  # a port that is no number, brackets that do not close
        return None
    return split


def _host(split: SplitResult, *, with_port: bool = True) -> str:
    host = f"[{split.hostname}]" if ":" in (split.hostname or "") else split.hostname or ""
    return f"{host}:{split.port}" if split.port and with_port else host


def _kind(host: str) -> str:
    """What software a host most likely runs: the well-known ones, and those whose name begins with it."""
    if host.endswith(".googlesource.com"):
        return "gitiles"
    known = {
        "bitbucket.org": "bitbucket-cloud",
        "codeberg.org": "gitea",
        "dev.azure.com": "azuredevops",
        "git.kernel.org": "cgit",
    }
    first = host.partition(".")[0]
    return known.get(host) or (first if first in {"github", "gitlab", "gitea"} else "")


def addresses(kind: str, url: str) -> Addresses:
    """The templates for a repository whose page is `url`; none for a kind that is not known."""
    return _KINDS[kind](url) if kind in _KINDS else Addresses()


def _joined(url: str, *parts: str) -> str:
    """`URLJoinPath` with what it is given: fields as they are, everything else quoted."""
    words = [part if part.startswith(".") else _quoted(part) for part in parts]
    return "{{" + " ".join(["URLJoinPath", _quoted(url), *words]) + "}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _like_github(url: str, *, inside: str = "") -> Addresses:
    return Addresses(
        file=_joined(url, f"{inside}blob", ".Version", ".Path"),
        commit=_joined(url, f"{inside}commit", ".Version"),
        line="#L{{.LineNumber}}",
    )


def _gitlab(url: str) -> Addresses:
    return _like_github(url, inside="-/")


def _gitea(url: str) -> Addresses:
    # A rendered page has no line numbers to jump to.
    file = _joined(url, "src/commit", ".Version", ".Path") + "?display=source"
    return Addresses(file, _joined(url, "commit", ".Version"), "#L{{.LineNumber}}")


def _gitiles(url: str) -> Addresses:
    return Addresses(_joined(url, "+", ".Version", ".Path"), _joined(url, "+", ".Version"), "#{{.LineNumber}}")


def _cgit(url: str) -> Addresses:
    return Addresses(
        file=_joined(url, "tree", ".Path") + "/?id={{.Version}}",
        commit=_joined(url, "commit") + "/?id={{.Version}}",
        line="#n{{.LineNumber}}",
    )


def _gitweb(url: str) -> Addresses:
    return Addresses(
        file=url + ";a=blob;f={{.Path}};hb={{.Version}}",
        commit=url + ";a=commit;h={{.Version}}",
        line="#l{{.LineNumber}}",
    )


def _bitbucket_server(url: str) -> Addresses:
    base = url.rstrip("/").removesuffix("/browse")  # its own API names the page with it
    file = _joined(base, "browse", ".Path") + "?at={{.Version}}"
    return Addresses(file, _joined(base, "commits", ".Version"), "#{{.LineNumber}}")


def _bitbucket_cloud(url: str) -> Addresses:
    return Addresses(
        file=_joined(url, "src", ".Version", ".Path"),
        commit=_joined(url, "commits", ".Version"),
        line="#lines-{{.LineNumber}}",
    )


def _azure(url: str) -> Addresses:
    return Addresses(
        file=url + "?path={{.Path}}&version=GC{{.Version}}",
        commit=_joined(url, "commit", ".Version"),
        line="&line={{.LineNumber}}&lineEnd={{.LineNumber}}&lineStartColumn=1&lineEndColumn=200",
    )


_KINDS: dict[str, Callable[[str], Addresses]] = {
    "github": _like_github,
    "gitlab": _gitlab,
    "gitea": _gitea,
    "gitiles": _gitiles,
    "cgit": _cgit,
    "gitweb": _gitweb,
    "bitbucket-server": _bitbucket_server,
    "bitbucket-cloud": _bitbucket_cloud,
    "azuredevops": _azure,
}
