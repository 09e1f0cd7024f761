"""URLs of pages, formatted and parsed, and links to code hosts.

`/r/REPOSITORY` is a repository, `/r/REPOSITORY/-/PATH` a file in it, and with a trailing slash a folder. A path may
contain any bytes but NUL and a repository name may contain `/-/`, so both are escaped as bytes, and a URL is split
before it is unescaped.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from argosy.base.errors import Invalid
from argosy.gateway.zoekt.go_compat import evaluate_template, host_file_url
from argosy.search.model import Repository

TREE = "/r/"
INSIDE = "/-/"
PARAMETERS_MAX = 50  # in a query string; pages use at most six

_HYPHEN = re.compile(r"(?:^|(?<=/))-(?=/|$)")  # a path step of a name that looks like our separator


@dataclass(frozen=True, slots=True)
class PageTarget:
    """The target of a URL under /r/; `path` has no leading or trailing slash."""

    repository: str
    path: str = ""
    is_folder: bool = True


def parse_target(raw_path: bytes) -> PageTarget:
    """Parse the raw path of a request."""
    text = raw_path.decode("ascii", "surrogateescape").removeprefix(TREE)
    # The first separator: one inside the name is escaped as `/%2D/`, and a path may contain others.
    name, inside, path = text.partition(INSIDE)
    repository, path = _unescape(name).strip("/"), _unescape(path)
    if not repository:
        raise Invalid("the URL has no repository name; see /repos")
    return PageTarget(repository, path.strip("/"), not inside or not path or path.endswith("/"))


def parameters_of(query_string: bytes) -> dict[str, str]:
    """The query parameters, the first of each name; bytes that are not UTF-8 become surrogates."""
    text = query_string.decode("ascii", "surrogateescape")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=PARAMETERS_MAX)
    except ValueError as error:
        raise Invalid(f"too many query parameters (at most {PARAMETERS_MAX})") from error
    return dict(reversed(pairs))  # the last assignment wins, so the first pair of each name


def search_url(query: str = "", *, files: int = 0, context: int = 0, anchor: str = "") -> str:
    params = {"q": query} | ({"num": str(files)} if files else {}) | ({"ctx": str(context)} if context else {})
    return "/search?" + _encode_parameters(params) + (f"#{anchor}" if anchor else "")


def folder_url(repository: str, path: str = "", *, branch: str = "") -> str:
    inside = f"{INSIDE}{_escape_path(path)}/" if path else ""
    return f"{TREE}{_escape_name(repository)}{inside}" + (f"?{_encode_parameters({'b': branch})}" if branch else "")


def file_url(repository: str, path: str, *, branch: str = "", version: str = "", query: str = "", line: int = 0) -> str:
    """`version` is the commit of the link, `query` the search that led to the file."""
    params = {name: value for name, value in (("b", branch), ("v", version), ("q", query)) if value}
    address = f"{TREE}{_escape_name(repository)}{INSIDE}{_escape_path(path)}"
    return address + (f"?{_encode_parameters(params)}" if params else "") + (f"#L{line}" if line else "")


def raw_url(repository: str, path: str, *, branch: str = "") -> str:
    params = {"r": repository, "f": path} | ({"b": branch} if branch else {}) | {"format": "raw"}
    return "/print?" + _encode_parameters(params)


def _encode_parameters(parameters: dict[str, str]) -> str:
    return urlencode(parameters, errors="surrogateescape", encoding="utf-8")


def _escape_path(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/")


def _escape_name(repository: str) -> str:
    return _HYPHEN.sub("%2D", _escape_path(repository))


def _unescape(text: str) -> str:
    return unquote_to_bytes(text.encode("ascii", "surrogateescape")).decode("utf-8", "surrogateescape")


# -- links to code hosts -----------------------------------------------------------------------------------------------

# URLs and templates are user input: only http and https URLs become links, so that `javascript:` never does.
_WEB = re.compile(r"https?://[^\s\"'<>\\]+", re.IGNORECASE)


def web_url(text: str) -> str:
    """The text if it is an http or https URL, else empty."""
    return text if _WEB.fullmatch(text) else ""


def file_at_host(repository: Repository, path: str, *, version: str, branch: str) -> str:
    """The URL of the file at that commit; empty if the host or the commit is unknown."""
    template = repository.file_url_template
    return web_url(host_file_url(template, "", version=version, path=path, branch=branch)) if version else ""


def commit_at_host(repository: Repository, version: str) -> str:
    return web_url(evaluate_template(repository.commit_url_template, {"Version": version})) if version else ""
