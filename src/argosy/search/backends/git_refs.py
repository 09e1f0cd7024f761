"""Branches by name: resolves the names a user wrote to commits, in a local repository or in the refs an origin lists.

A plain name is a branch, else a tag. A name with `*`, `?` or `[` means all branches that match, else all tags; `*`
stops at a slash and `**` does not. `HEAD` is the branch that it points to, under that branch's own name.

A local repository also has the branches of its remote `origin` (a fresh clone has only one of its own), and accepts
whatever git accepts as a commit: an id, `main~3`. At an origin nothing is fetched to resolve a name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.search.backends.git_program import Git
from argosy.search.globs import to_regex
from argosy.search.model import BRANCHES_MAX, Branch

REF_CHARS_MAX = 1000
NAME_CHARS_MAX = 500  # of a branch at an origin
NAMES_SHOWN_MAX = 5  # in an error

HEAD = "HEAD"
HEADS, TAGS = "refs/heads/", "refs/tags/"
_REMOTE_HEADS = "refs/remotes/origin/"
_PREFIXES = (HEADS, _REMOTE_HEADS, TAGS)
_GLOB = re.compile(r"[*?\[]")


def _hint(name: str, names: Sequence[str], otherwise: str = "") -> str:
    """The names there are, for an error about one that does not exist."""
    if close := get_close_matches(name, names, n=1):
        return f"; did you mean {close[0]!r}?"
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    return f"; available: {shown}{', …' if len(names) > NAMES_SHOWN_MAX else ''}" if shown else otherwise


def _too_many(count: int, place: str) -> Invalid:
    return Invalid(f"too many branches of {place}: {count}, limit {BRANCHES_MAX}; name fewer")


# -- in a local repository ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _WantedRef:
    """One ref to resolve: the name of the branch, and the refs to try, the best first."""

    name: str
    candidates: tuple[str, ...]


def branches_of(git: Git, refs: Sequence[str]) -> tuple[Branch, ...]:
    """The branches named by `refs`, in their order, each once. A repository without commits has none."""
    # By name, so that `main` and `HEAD` on main are one branch.
    wanted = list({each.name: each for ref in refs for each in _expand(git, ref)}.values())
    if len(wanted) > BRANCHES_MAX:
        raise _too_many(len(wanted), repr(git.place))
    commits = _commits(git, [ref for each in wanted for ref in each.candidates])
    found = [(each, next((commits[ref] for ref in each.candidates if commits[ref]), "")) for each in wanted]
    missing = [each for each, commit in found if not commit]
    if missing and _is_empty(git):
        return ()
    if missing:
        raise _not_found(git, missing[0])
    return tuple(Branch(each.name, commit) for each, commit in found)


def current_branch(git: Git) -> str:
    """The name of the branch that is checked out; HEAD if a commit is checked out instead."""
    output = git.run("symbolic-ref", "--quiet", HEAD, accepted=(0, 1))
    return _short(output.decode(errors="surrogateescape").rstrip("\n")) or HEAD


def _expand(git: Git, ref: str) -> Iterator[_WantedRef]:
    if not ref or not ref.isprintable() or len(ref) > REF_CHARS_MAX:
        raise Invalid(f"invalid branch {ref[:50]!r}; use a branch, a tag, a commit, or a pattern like release/*")
    if ref == HEAD:
        yield _WantedRef(current_branch(git), (HEAD,))
    elif _GLOB.search(ref):
        yield from _match_pattern(git, ref)
    elif ref.startswith("refs/"):
        yield _WantedRef(_short(ref), (ref,))
    else:
        yield _WantedRef(ref, (*(prefix + ref for prefix in _PREFIXES), ref))


def _match_pattern(git: Git, pattern: str) -> Iterator[_WantedRef]:
    if pattern.startswith("refs/"):
        refs = _list_refs(git, pattern)
    else:
        refs = _list_refs(git, HEADS + pattern, _REMOTE_HEADS + pattern) or _list_refs(git, TAGS + pattern)
    # A branch may exist here and at the origin. Sorted by full name the local one comes first, so it is inserted last.
    wanted = {_short(ref): _WantedRef(_short(ref), (ref,)) for ref in reversed(refs) if not ref.endswith(f"/{HEAD}")}
    if not wanted and not _is_empty(git):
        raise NotFound(f"no branch or tag of {git.place!r} matches {pattern!r}{_hint(pattern, _ref_names(git))}")
    yield from (wanted[name] for name in sorted(wanted))


def _list_refs(git: Git, *patterns: str) -> list[str]:
    return git.run("for-each-ref", "--format=%(refname)", *patterns).decode(errors="surrogateescape").splitlines()


def _ref_names(git: Git) -> list[str]:
    return [_short(ref) for ref in _list_refs(git, *_PREFIXES)]


def _short(ref: str) -> str:
    prefix = next((prefix for prefix in _PREFIXES if ref.startswith(prefix)), "refs/")
    return ref.removeprefix(prefix)


def _commits(git: Git, refs: Sequence[str]) -> dict[str, str]:
    """The commit of each ref, with tags followed; empty if it does not exist."""
    if not refs:
        return {}
    feed = "".join(f"{ref}^{{commit}}\n" for ref in refs).encode(errors="surrogateescape")
    output = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", feed=feed)
    lines = output.decode(errors="surrogateescape").splitlines()
    return {ref: line.split()[0] if line.endswith(" commit") else "" for ref, line in zip(refs, lines, strict=True)}


def _is_empty(git: Git) -> bool:
    return not _list_refs(git, "--count=1") and not _ref_exists(git, HEAD)


def _ref_exists(git: Git, ref: str) -> bool:
    """Whether the ref exists, even if its commit does not."""
    if ref != HEAD and not ref.startswith("refs/"):
        return False
    return bool(git.run("rev-parse", "--verify", "--quiet", "--end-of-options", ref, accepted=(0, 1, 128)))


def _not_found(git: Git, wanted: _WantedRef) -> NotFound | Unavailable:
    if any(_ref_exists(git, ref) for ref in wanted.candidates):
        return Unavailable(f"the commit of {wanted.name!r} is missing in {git.place!r}; fetch again, or run `git fsck`")
    hint = _hint(wanted.name, _ref_names(git))
    return NotFound(f"branch, tag or commit {wanted.name!r} not found in {git.place!r}{hint}")


# -- at an origin ------------------------------------------------------------------------------------------------------

_PEELED = "^{}"  # suffix of the commit of an annotated tag
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# What git allows in a name, less what has another meaning in a fetch (`+`, `:`, `^`, `~`).
_NAME = re.compile(r"(?!-)(?!/)[^\x00-\x20\x7f~^:\\+]+(?<!/)(?<!\.lock)")


@dataclass(frozen=True)
class OriginRef:
    """A branch to fetch: its name, its ref at the origin, and its commit."""

    name: str
    ref: str
    commit: str

    @property
    def branch(self) -> Branch:
        return Branch(self.name, self.commit)


@dataclass(frozen=True)
class OriginRefs:
    """The refs of an origin with their commits, and the ref that HEAD points to, where the origin says so."""

    commits: Mapping[str, str]
    head: str = ""

    @property
    def branch_names(self) -> list[str]:
        return [ref.removeprefix(HEADS) for ref in self.commits if ref.startswith(HEADS)]


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, or HEAD if there are none. Invalid if git would reject one, or read it as something else."""
    for name in names:
        if not _NAME.fullmatch(name) or ".." in name or "@{" in name or len(name) > NAME_CHARS_MAX:
            raise Invalid(f"invalid branch {name[:50]!r}; use a branch or tag, or a pattern like release/*")
    return tuple(names) or (HEAD,)


def parse_ls_remote(output: bytes) -> OriginRefs:
    """Parses the output of `git ls-remote --symref`. Names that no branch can have are ignored."""
    commits: dict[str, str] = {}
    head = ""
    for line in output.decode(errors="surrogateescape").split("\n"):
        commit, _, ref = line.partition("\t")
        if ref == HEAD and commit.startswith("ref: "):
            # An annotated tag is listed twice; the peeled line has the commit, the other one the tag object.
            head = commit.removeprefix("ref: ")
        elif ref.endswith(_PEELED) and _COMMIT.fullmatch(commit):
            commits[ref.removesuffix(_PEELED)] = commit
        elif _COMMIT.fullmatch(commit) and (ref == HEAD or _NAME.fullmatch(ref)):
            # Not overwritten: the peeled line of a tag may have come before.
            commits.setdefault(ref, commit)
    is_branch = head.startswith(HEADS) and _NAME.fullmatch(head) is not None
    return OriginRefs(commits, head if is_branch else "")


def select_refs(url: str, names: Sequence[str], listed: OriginRefs) -> tuple[OriginRef, ...]:
    """The refs that the names mean, in their order, each once."""
    refs = {ref.name: ref for name in names for ref in _select(url, name, listed)}
    if len(refs) > BRANCHES_MAX:
        raise _too_many(len(refs), url)
    return tuple(refs.values())


def _select(url: str, name: str, listed: OriginRefs) -> list[OriginRef]:
    commits = listed.commits
    if not commits:
        raise NotFound(f"{url} is empty; push a first commit to it")
    hint = "; name another"
    if name == HEAD:
        if HEAD not in commits:
            raise NotFound(f"HEAD of {url} points to no branch{_hint(name, listed.branch_names, hint)}")
        return [OriginRef(listed.head.removeprefix(HEADS) or HEAD, listed.head or HEAD, commits[HEAD])]
    if _GLOB.search(name):
        found = _match_refs(name, HEADS, commits) or _match_refs(name, TAGS, commits)
    else:
        refs = [name] if name.startswith("refs/") else [HEADS + name, TAGS + name]
        found = [
            OriginRef(ref.removeprefix(HEADS).removeprefix(TAGS), ref, commits[ref]) for ref in refs if ref in commits
        ][:1]
    if not found:
        raise NotFound(f"branch {name!r} not found at {url}{_hint(name, listed.branch_names, hint)}")
    return found


def _match_refs(pattern: str, prefix: str, commits: Mapping[str, str]) -> list[OriginRef]:
    expression = re.compile(to_regex(pattern.encode(errors="surrogateescape")))
    names = sorted(ref.removeprefix(prefix) for ref in commits if ref.startswith(prefix))
    return [
        OriginRef(name, prefix + name, commits[prefix + name])
        for name in names
        if expression.fullmatch(name.encode(errors="surrogateescape"))
    ]
