"""What a language's definitions look like: one pattern, what its groups mean, and how to see what lies in what.

A pattern runs over the prepared text (comments and strings blank, for braces the outline) and each of its groups is the
name of one sort of definition. The kind may depend on the context, what the innermost brace belongs to: a declaration
in a struct is a field, in an enum an enumerator. A group without a kind there is no definition; a match without any
group is passed over, which is how a pattern says "not this".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from argosy.search.regex.scanner import Scanner
from argosy.search.symbols.lexical_rules import Lexis
from argosy.search.symbols.words import Words


class Nest(Enum):
    """How one sees that a definition lies in another."""

    NONE = "none"
    OUTLINE = "outline"  # by braces, bodies being blanked first
    BRACES = "braces"  # by braces, bodies being searched too
    PYTHON = "python"  # by indentation, bodies of functions being blanked first
    INDENT = "indent"  # by indentation
    LEVELS = "levels"  # by kind: a section lies in the chapter before it


# A kind, or the kind in each context where there is one.
Kinds: TypeAlias = str | Mapping[int, str]
# An alternative of a pattern with what its groups are; without groups it is there to be passed over.
Form: TypeAlias = tuple[bytes, *tuple[Kinds, ...]]

OWNER = "owner"  # the group names the type to which the definition in the next group belongs
NAME = "name"  # the group is the name, and the next that matches says by what follows what it is


@dataclass(frozen=True, eq=False)
class Grammar:
    """Everything about one language."""

    pattern: Scanner
    kinds: tuple[Kinds, ...]  # one for each group
    lexis: Lexis | None = None
    nest: Nest = Nest.NONE
    words: Words | None = None  # which words open which frames
    reads: int = 0  # flags of `outline.py`
    refused: frozenset[bytes] = frozenset()  # what a pattern may take for a name: `if (x) {`
    inner: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # kind, parent's kind: the kind it is then
    levels: tuple[str, ...] = ()  # kinds from the outermost in, where a kind is a level

    has_owners: bool = False
    owns: tuple[bool, ...] = ()  # for each group, whether what it names may hold others


def grammar(
    *forms: Form,
    lexis: Lexis | None = None,
    nest: Nest = Nest.NONE,
    words: Words | None = None,
    reads: int = 0,
    refused: str = "",
    inner: Mapping[str, Mapping[str, str]] | None = None,
    levels: tuple[str, ...] = (),
) -> Grammar:
    """The grammar of these forms; the first that matches at a place counts. `%` in a form stands for a name."""
    parts = [form[0].replace(b"%", WORD) for form in forms]
    return Grammar(
        pattern=Scanner(b"(?:" + b"|".join(parts) + b")"),
        kinds=tuple(kind for form in forms for kind in form[1:]),
        lexis=lexis,
        nest=nest,
        words=words,
        reads=reads,
        refused=frozenset(refused.encode().split()),
        inner=inner or {},
        levels=levels,
        has_owners=any(OWNER in form[1:] for form in forms),
        owns=tuple(nest is Nest.BRACES or _may_own(kind) for form in forms for kind in form[1:]),
    )


_BRACELESS = {"field", "variable", "constant", "enumerator"}


def _may_own(kind: Kinds) -> bool:
    kinds = {kind} if isinstance(kind, str) else set(kind.values())
    return not kinds or bool(kinds - _BRACELESS)


WORD = rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*"


def each(kind: str, contexts: Iterable[int]) -> dict[int, str]:
    """The same kind in several contexts."""
    return dict.fromkeys(contexts, kind)
