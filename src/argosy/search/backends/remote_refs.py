"""Which branches of an origin are meant, from what the origin lists; nothing is fetched for it.

A name is a branch, else a tag; with `*`, `?` or `[` it stands for all branches that match, else all tags. `HEAD`, or no
name at all, is whatever the origin's HEAD points to, under that branch's own name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from argosy.base.errors import Invalid, NotFound
from argosy.search.globs import to_regex
from argosy.search.model import BRANCHES_MAX, Branch

HEAD = "HEAD"
HEADS, TAGS = "refs/heads/", "refs/tags/"
NAME_CHARS_MAX = 500
NAMES_TOLD_MAX = 5  # in an error
_PEELED = "^{}"  # the commit that a tag with a text of its own is for
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# What git allows in a name, less what means something else in a fetch (`+`, `:`, `^`, `~`).
_NAME = re.compile(r"(?!-)(?!/)[^\x00-\x20\x7f~^:\\+]+(?<!/)(?<!\.lock)")


@dataclass(frozen=True)
class Ref:
    """A branch to fetch: what it is called, where it is at the origin, and the commit it stands at."""

    name: str
    place: str
    commit: str

    @property
    def branch(self) -> Branch:
        return Branch(self.name, self.commit)


@dataclass(frozen=True)
class Listed:
    """What an origin lists: places with their commits, and where HEAD points to if it says."""

    commits: Mapping[str, str]
    head: str = ""

    @property
    def names(self) -> list[str]:
        return [place.removeprefix(HEADS) for place in self.commits if place.startswith(HEADS)]


def checked(names: Sequence[str]) -> tuple[str, ...]:
    """The names if each could be one; HEAD if there are none."""
    for name in names:
        if not _NAME.fullmatch(name) or ".." in name or "@{" in name or len(name) > NAME_CHARS_MAX:
            raise Invalid(f"{name[:50]!r} is no branch: name one, or a pattern like release/*")
    return tuple(names) or (HEAD,)


def listed(output: bytes) -> Listed:
    """Reads what `git ls-remote --symref` prints. Names that no branch can have are passed over."""
    commits: dict[str, str] = {}
    head = ""
    for line in output.decode(errors="surrogateescape").split("\n"):
        commit, _, place = line.partition("\t")
        if place == HEAD and commit.startswith("ref: "):
            head = commit.removeprefix("ref: ")
        elif place.endswith(_PEELED) and _COMMIT.fullmatch(commit):
            commits[place.removesuffix(_PEELED)] = commit
        elif _COMMIT.fullmatch(commit) and (place == HEAD or _NAME.fullmatch(place)):
            commits.setdefault(place, commit)
    is_branch = head.startswith(HEADS) and _NAME.fullmatch(head) is not None
    return Listed(commits, head if is_branch else "")


def chosen(url: str, names: Sequence[str], heads: Listed) -> tuple[Ref, ...]:
    """The branches meant, in the order asked for, each once."""
    refs = {ref.name: ref for name in names for ref in _meant(url, name, heads)}
    if len(refs) > BRANCHES_MAX:
        raise Invalid(f"{len(refs)} branches of {url} were asked for: name at most {BRANCHES_MAX}")
    return tuple(refs.values())


def _meant(url: str, name: str, heads: Listed) -> list[Ref]:
    commits = heads.commits
    if not commits:
        raise NotFound(f"{url} is empty: push a first commit to it")
    if name == HEAD:
        if HEAD not in commits:
            raise NotFound(f"the HEAD of {url} points to no branch that is there{_hint(name, heads)}")
        return [Ref(heads.head.removeprefix(HEADS) or HEAD, heads.head or HEAD, commits[HEAD])]
    if any(letter in name for letter in "*?["):
        found = _matching(name, HEADS, commits) or _matching(name, TAGS, commits)
    else:
        places = [name] if name.startswith("refs/") else [HEADS + name, TAGS + name]
        found = [Ref(_short(place), place, commits[place]) for place in places if place in commits][:1]
    if not found:
        raise NotFound(f"{url} has no branch {name!r}{_hint(name, heads)}")
    return found


def _matching(pattern: str, prefix: str, commits: Mapping[str, str]) -> list[Ref]:
    expression = re.compile(to_regex(pattern.encode(errors="surrogateescape")))
    names = sorted(place.removeprefix(prefix) for place in commits if place.startswith(prefix))
    return [
        Ref(name, prefix + name, commits[prefix + name])
        for name in names
        if expression.fullmatch(name.encode(errors="surrogateescape"))
    ]


def _short(place: str) -> str:
    return place.removeprefix(HEADS).removeprefix(TAGS)


def _hint(name: str, heads: Listed) -> str:
    names = heads.names
    if close := get_close_matches(name, names, n=1):
        return f": did you mean {close[0]!r}?"
    told = ", ".join(names[:NAMES_TOLD_MAX])
    return f": there is {told}{', …' if len(names) > NAMES_TOLD_MAX else ''}" if told else ": name another"
