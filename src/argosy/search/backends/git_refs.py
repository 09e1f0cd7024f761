"""Which commits are meant: names, patterns and ids of what to read, looked up in a repository.

`HEAD` is the branch that is checked out, under its own name. A plain name is a branch here, else one of the remote
`origin` (a fresh clone has only one of its own), else a tag. A name with `*`, `?` or `[` stands for all branches that
match, or else all tags; `*` stops at a slash and `**` does not. Anything else may be what git itself takes for a
commit: an id, `main~3`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.search.backends.git_program import Git
from argosy.search.model import BRANCHES_MAX, Branch

REF_LENGTH_MAX = 1000
NAMES_TOLD_MAX = 5  # in an error
_BRANCHES = ("refs/heads/", "refs/remotes/origin/")
_TAGS = "refs/tags/"
_PREFIXES = (*_BRANCHES, _TAGS)
_HEAD = "HEAD"


@dataclass(frozen=True)
class _Wish:
    """One thing to read: what it will be called, and where to look for it, best first."""

    name: str
    places: tuple[str, ...]


def branches_of(git: Git, refs: Sequence[str]) -> tuple[Branch, ...]:
    """The branches meant, in the order asked for, each once. A repository without any commit has none."""
    wishes = list({wish.name: wish for ref in refs for wish in _wishes(git, _checked(ref))}.values())
    if len(wishes) > BRANCHES_MAX:
        raise Invalid(f"{len(wishes)} branches of {git.place!r} were asked for: name at most {BRANCHES_MAX}")
    commits = _commits(git, [place for wish in wishes for place in wish.places])
    found = [(wish, next((commits[p] for p in wish.places if commits[p]), "")) for wish in wishes]
    missing = [wish for wish, commit in found if not commit]
    if missing and _is_empty(git):
        return ()
    if missing:
        raise _not_found(git, missing[0])
    return tuple(Branch(wish.name, commit) for wish, commit in found)


def _checked(ref: str) -> str:
    if not ref or not ref.isprintable() or len(ref) > REF_LENGTH_MAX:
        raise Invalid(f"{ref[:50]!r} is no branch, tag or commit: name one, or a pattern like release/*")
    return ref


def _wishes(git: Git, ref: str) -> Iterator[_Wish]:
    if ref == _HEAD:
        yield _Wish(current_branch(git), (_HEAD,))
    elif any(letter in ref for letter in "*?["):
        yield from _matching(git, ref)
    elif ref.startswith("refs/"):
        yield _Wish(_short(ref), (ref,))
    else:
        yield _Wish(ref, (*(prefix + ref for prefix in _PREFIXES), ref))


def current_branch(git: Git) -> str:
    """The name of the branch that is checked out, HEAD where it is none but a single commit."""
    answer = git.run("symbolic-ref", "--quiet", _HEAD, accepted=(0, 1))
    return _short(answer.decode(errors="surrogateescape").rstrip("\n")) or _HEAD


def _matching(git: Git, pattern: str) -> Iterator[_Wish]:
    if pattern.startswith("refs/"):
        refs = _listed(git, pattern)
    else:
        refs = _listed(git, *(prefix + pattern for prefix in _BRANCHES)) or _listed(git, _TAGS + pattern)
    # A branch may be here and at the origin: the one here comes first, by the order of their full names.
    wishes = {_short(ref): _Wish(_short(ref), (ref,)) for ref in reversed(refs) if not ref.endswith(f"/{_HEAD}")}
    if not wishes and not _is_empty(git):
        raise NotFound(f"no branch or tag of {git.place!r} matches {pattern!r}{_hint(git, pattern)}")
    yield from (wishes[name] for name in sorted(wishes))


def _listed(git: Git, *patterns: str) -> list[str]:
    return git.run("for-each-ref", "--format=%(refname)", *patterns).decode(errors="surrogateescape").splitlines()


def _short(ref: str) -> str:
    prefix = next((prefix for prefix in _PREFIXES if ref.startswith(prefix)), "refs/")
    return ref.removeprefix(prefix)


def _commits(git: Git, places: Sequence[str]) -> dict[str, str]:
    """The commit each leads to, tags followed; empty where there is none."""
    if not places:
        return {}
    feed = "".join(f"{place}^{{commit}}\n" for place in places).encode(errors="surrogateescape")
    answer = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", feed=feed)
    lines = answer.decode(errors="surrogateescape").splitlines()
    return {p: line.split()[0] if line.endswith(" commit") else "" for p, line in zip(places, lines, strict=True)}


def _is_empty(git: Git) -> bool:
    return not _listed(git, "--count=1") and not _stands(git, _HEAD)


def _stands(git: Git, place: str) -> bool:
    """Whether there is such a ref, be its commit there or not."""
    if place != _HEAD and not place.startswith("refs/"):
        return False
    return bool(git.run("rev-parse", "--verify", "--quiet", "--end-of-options", place, accepted=(0, 1, 128)))


def _not_found(git: Git, wish: _Wish) -> NotFound | Unavailable:
    if any(_stands(git, place) for place in wish.places):
        return Unavailable(
            f"{wish.name!r} of {git.place!r} leads to no commit that is there: fetch it anew, or run `git fsck`"
        )
    return NotFound(f"{git.place!r} has no branch, tag or commit {wish.name!r}{_hint(git, wish.name)}")


def _hint(git: Git, name: str) -> str:
    names = [_short(ref) for ref in _listed(git, *_PREFIXES)]
    close = get_close_matches(name, names, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    told = ", ".join(names[:NAMES_TOLD_MAX])
    return f": there is {told}{', …' if len(names) > NAMES_TOLD_MAX else ''}" if told else ""
