"""What a repository says of itself: its name, its pages on the web, and the `zoekt` section of its git configuration.

The section is what zoekt's mirrors write: name, repoid, priority, public, fork, archived, web-url, web-url-type, and
more that is passed on as it is. A value that makes no sense counts as not set: an odd line in a configuration must not
keep a repository from being searched.
"""

from collections.abc import Mapping

import msgspec

from argosy.base.errors import ArgosyError
from argosy.search.backends.git_hosts import addresses, remote_of, without_user
from argosy.search.backends.git_program import Git
from argosy.search.model import Repository

RANK_MAX = 65_535
PRIORITY_HALF = 5_000.0  # the priority that gives half the highest rank
FLAGS = ("archived", "fork", "public")
_SECTION = "zoekt."
_ORIGIN = "remote.origin.url"
_WANTED = r"^(zoekt\.|remote\.origin\.url$)"
_TRUE = {"", "1", "true", "yes", "on"}  # a key without a value is true to git
_MONTH_S = 365.2425 * 86_400 / 12


def configured(git: Git) -> dict[str, str]:
    """The settings that matter here, by their names in lower case; the last of several counts."""
    try:
        answer = git.run("config", "--local", "-z", "--get-regexp", _WANTED, accepted=(0, 1))
    except ArgosyError:
        git.run("rev-parse", "--git-dir")  # says why git will not read a place, which `config` keeps to itself
        raise
    settings = (item.partition("\n") for item in answer.decode(errors="replace").split("\0") if item)
    return {name.lower(): value.strip() for name, _, value in settings}


def described(config: Mapping[str, str], *, path: str, name: str, latest_commit_s: float = 0.0) -> Repository:
    """The repository read from `path` but for its branches; `name` is what it is called if nothing says otherwise."""
    section = {name.removeprefix(_SECTION): value for name, value in config.items() if name.startswith(_SECTION)}
    remote = remote_of(config.get(_ORIGIN, ""))
    url = without_user(section.pop("web-url", "")) or remote.url
    templates = addresses(section.pop("web-url-type", "") or remote.kind, url) if url else addresses("", "")
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


def on_disk(repository: Repository) -> Repository:
    """The same repository as it lies in a folder: files that may never have been committed have no page on the web."""
    return msgspec.structs.replace(repository, file_url_template="", commit_url_template="", line_fragment_template="")


def _whole(text: str, most: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= most else 0


def _rank(section: Mapping[str, str], latest_commit_s: float) -> int:
    """Fresh ones first where the mirror asks for that, else by the priority it gives."""
    if "latestcommitdate" in section:
        return min(int(max(latest_commit_s, 0) / _MONTH_S), RANK_MAX)
    try:
        priority = float(section.get("priority", "0"))
    except ValueError:
        return 0
    return int(priority / (PRIORITY_HALF + priority) * RANK_MAX) if 0 < priority < float("inf") else 0
