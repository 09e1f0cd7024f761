"""What is known of a git repository besides its files: its name, its pages on the web, its `zoekt` configuration
section.

zoekt's mirroring tools write the section: name, repoid, priority, public, fork, archived, web-url, web-url-type, and
other keys, which are passed on as metadata. An invalid value counts as not set: a strange line in a configuration must
not keep a repository from being searched.

URLs of commits, files and lines are templates in the form that zoekt's clients evaluate: `{{.Version}}`, `{{.Path}}`,
`{{.LineNumber}}` and `URLJoinPath`, which escapes what it joins.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import msgspec

from argosy.base.errors import ArgosyError
from argosy.search.backends.git_program import Git
from argosy.search.model import Repository

# zoekt's ranks are 16 bits.
RANK_MAX = 65_535
PRIORITY_HALF = 5_000.0  # the priority that gives half the highest rank
FLAGS = ("archived", "fork", "public")
_SECTION = "zoekt."
_ORIGIN = "remote.origin.url"
_WANTED = r"^(zoekt\.|remote\.origin\.url$)"
_TRUE = {"", "1", "true", "yes", "on"}  # a key without a value is true to git
_MONTH_S = 365.2425 * 86_400 / 12
# user@host:path, which git takes for ssh unless a slash comes before the colon.
_SCP = re.compile(r"(?:[^@/]+@)?(?P<host>[^@/:]+):(?!//)(?P<path>.+)")
_REMOTE_SCHEMES = {"http", "https", "ssh", "git", "git+ssh", "ssh+git"}
_WEB_SCHEMES = {"http", "https"}


def read_config(git: Git) -> dict[str, str]:
    """The keys used here, in lower case; the last of several values counts, as in git."""
    try:
        output = git.run("config", "--local", "-z", "--get-regexp", _WANTED, accepted=(0, 1))
    except ArgosyError:
        git.run("rev-parse", "--git-dir")  # its message says why git rejects the repository; `config` gives none
        raise
    settings = (item.partition("\n") for item in output.decode(errors="replace").split("\0") if item)
    return {name.lower(): value.strip() for name, _, value in settings}


def repository_from_config(
    config: Mapping[str, str], *, path: str, name: str, latest_commit_s: float = 0.0
) -> Repository:
    """The repository at `path`, without its branches; `name` applies if neither the section nor a remote names it."""
    section = {name.removeprefix(_SECTION): value for name, value in config.items() if name.startswith(_SECTION)}
    remote = remote_of(config.get(_ORIGIN, ""))
    url = without_user(section.pop("web-url", "")) or remote.url
    templates = url_templates(section.pop("web-url-type", "") or remote.kind, url) if url else url_templates("", "")
    return Repository(
        name=section.pop("name", "") or remote.name or name,
        id=_whole(section.pop("repoid", ""), 2**32 - 1),
        url=url,
        source=path,
        file_url_template=templates.file,
        commit_url_template=templates.commit,
        line_fragment_template=templates.line,
        flags={name: section.pop(name).lower() in _TRUE for name in FLAGS if name in section},
        rank=_rank(section, latest_commit_s),
        metadata=section,
        latest_commit_s=latest_commit_s,
    )


def without_file_urls(repository: Repository) -> Repository:
    """For a working copy: files that may never have been committed have no page on the web."""
    return msgspec.structs.replace(repository, file_url_template="", commit_url_template="", line_fragment_template="")


def _whole(text: str, most: int) -> int:
    # At most 20 digits, because int() raises ValueError for thousands of them.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= most else 0


def _rank(section: Mapping[str, str], latest_commit_s: float) -> int:
    """By the latest commit where the section has `latestcommitdate`, else by its `priority`, as zoekt ranks."""
    if "latestcommitdate" in section:
        return min(int(max(latest_commit_s, 0) / _MONTH_S), RANK_MAX)
    try:
        priority = float(section.get("priority", "0"))
    except ValueError:
        return 0
    return int(priority / (PRIORITY_HALF + priority) * RANK_MAX) if 0 < priority < float("inf") else 0


# -- code hosts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UrlTemplates:
    """URLs of files and commits; `line` is the fragment that is appended to a file's URL."""

    file: str = ""
    commit: str = ""
    line: str = ""


@dataclass(frozen=True)
class Remote:
    """The remote of a clone: `name` is host and path, `url` its page on the web, without user or password."""

    name: str = ""
    url: str = ""
    kind: str = ""


def remote_of(text: str) -> Remote:
    """Parses the URL of a git remote; empty for a local path."""
    split = _split(text)
    if split is None or split.scheme not in _REMOTE_SCHEMES or not split.hostname:
        return Remote()
    # The port of ssh is not the port of the web site.
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
    except ValueError:  # an invalid port, or unbalanced brackets
        return None
    return split


def _host(split: SplitResult, *, with_port: bool = True) -> str:
    host = f"[{split.hostname}]" if ":" in (split.hostname or "") else split.hostname or ""
    return f"{host}:{split.port}" if split.port and with_port else host


def _kind(host: str) -> str:
    """The software a host runs, as far as its name tells: well-known hosts, and names such as gitlab.example.org."""
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


def url_templates(kind: str, url: str) -> UrlTemplates:
    """The templates for a repository whose page is `url`; empty for an unknown kind."""
    return _KINDS[kind](url) if kind in _KINDS else UrlTemplates()


def _join_path(url: str, *parts: str) -> str:
    """A call of `URLJoinPath`; arguments other than fields are quoted."""
    words = [part if part.startswith(".") else _quote(part) for part in parts]
    return "{{" + " ".join(["URLJoinPath", _quote(url), *words]) + "}}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _like_github(url: str, *, inside: str = "") -> UrlTemplates:
    return UrlTemplates(
        file=_join_path(url, f"{inside}blob", ".Version", ".Path"),
        commit=_join_path(url, f"{inside}commit", ".Version"),
        line="#L{{.LineNumber}}",
    )


def _gitlab(url: str) -> UrlTemplates:
    return _like_github(url, inside="-/")


def _gitea(url: str) -> UrlTemplates:
    # Without `display=source` Markdown is rendered, without line numbers to jump to.
    file = _join_path(url, "src/commit", ".Version", ".Path") + "?display=source"
    return UrlTemplates(file, _join_path(url, "commit", ".Version"), "#L{{.LineNumber}}")


def _gitiles(url: str) -> UrlTemplates:
    return UrlTemplates(_join_path(url, "+", ".Version", ".Path"), _join_path(url, "+", ".Version"), "#{{.LineNumber}}")


def _cgit(url: str) -> UrlTemplates:
    return UrlTemplates(
        file=_join_path(url, "tree", ".Path") + "/?id={{.Version}}",
        commit=_join_path(url, "commit") + "/?id={{.Version}}",
        line="#n{{.LineNumber}}",
    )


def _gitweb(url: str) -> UrlTemplates:
    return UrlTemplates(
        file=url + ";a=blob;f={{.Path}};hb={{.Version}}",
        commit=url + ";a=commit;h={{.Version}}",
        line="#l{{.LineNumber}}",
    )


def _bitbucket_server(url: str) -> UrlTemplates:
    base = url.rstrip("/").removesuffix("/browse")  # Bitbucket's API returns the URL with this suffix
    file = _join_path(base, "browse", ".Path") + "?at={{.Version}}"
    return UrlTemplates(file, _join_path(base, "commits", ".Version"), "#{{.LineNumber}}")


def _bitbucket_cloud(url: str) -> UrlTemplates:
    return UrlTemplates(
        file=_join_path(url, "src", ".Version", ".Path"),
        commit=_join_path(url, "commits", ".Version"),
        line="#lines-{{.LineNumber}}",
    )


def _azure(url: str) -> UrlTemplates:
    return UrlTemplates(
        file=url + "?path={{.Path}}&version=GC{{.Version}}",
        commit=_join_path(url, "commit", ".Version"),
        line="&line={{.LineNumber}}&lineEnd={{.LineNumber}}&lineStartColumn=1&lineEndColumn=200",
    )


_KINDS: dict[str, Callable[[str], UrlTemplates]] = {
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
