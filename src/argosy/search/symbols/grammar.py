"""The grammar of a language: a pattern for its definitions, the meaning of its groups, and how definitions nest.

The pattern runs over the prepared text (comments and strings blanked; for languages with braces, the outline). Each
group is the name of one sort of definition. Its kind can depend on the context, which is what the innermost brace
belongs to: a declaration in a struct is a field, in an enum an enumerator. A group without a kind in its context is not
a definition. A match without a group is skipped, which is how a pattern excludes text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from argosy.search.regex.engine import Scanner
from argosy.search.symbols.lexical_rules import LexicalRules, Words


class Nest(Enum):
    """How the parent of a definition is determined."""

    NONE = "none"
    OUTLINE = "outline"  # by braces, after blanking bodies
    BRACES = "braces"  # by braces, with bodies searched too
    PYTHON = "python"  # by indentation, after blanking function bodies
    INDENT = "indent"  # by indentation
    LEVELS = "levels"  # by kind: a section belongs to the preceding chapter


# A kind, or a kind per context.
Kinds: TypeAlias = str | Mapping[int, str]
# An alternative of the pattern with the kinds of its groups; one without groups is skipped.
Form: TypeAlias = tuple[bytes, *tuple[Kinds, ...]]

OWNER = "owner"  # the group names the type to which the definition in the next group belongs
NAME = "name"  # the group is the name; the next group that matches determines its kind from what follows


@dataclass(frozen=True, eq=False)
class Grammar:
    """Everything about one language."""

    pattern: Scanner
    kinds: tuple[Kinds, ...]  # one for each group
    lexical: LexicalRules | None = None
    nest: Nest = Nest.NONE
    words: Words | None = None  # the words that open scopes
    reads: int = 0  # flags of `outline.py`
    reserved: frozenset[bytes] = frozenset()  # words that a pattern can mistake for a name: `if (x) {`
    inner: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # kind, kind of the parent: resulting kind
    levels: tuple[str, ...] = ()  # kinds from outermost to innermost, if nesting is by kind

    has_owners: bool = False
    owns: tuple[bool, ...] = ()  # for each group, whether its definitions can contain others


def grammar(
    *forms: Form,
    lexical: LexicalRules | None = None,
    nest: Nest = Nest.NONE,
    words: Words | None = None,
    reads: int = 0,
    reserved: str = "",
    inner: Mapping[str, Mapping[str, str]] | None = None,
    levels: tuple[str, ...] = (),
) -> Grammar:
    """The grammar of these forms; the first form that matches at a position wins. `%` in a form stands for a name."""
    parts = [form[0].replace(b"%", WORD) for form in forms]
    return Grammar(
        # One pattern for all forms, because RE2 then reads the text once.
        pattern=Scanner(b"(?:" + b"|".join(parts) + b")"),
        kinds=tuple(kind for form in forms for kind in form[1:]),
        lexical=lexical,
        nest=nest,
        words=words,
        reads=reads,
        reserved=frozenset(reserved.encode().split()),
        inner=inner or {},
        levels=levels,
        has_owners=any(OWNER in form[1:] for form in forms),
        # With `BRACES` anything can own a scope: in JavaScript `const f = () => {` is a variable.
        owns=tuple(nest is Nest.BRACES or _may_own(kind) for form in forms for kind in form[1:]),
    )


_BRACELESS = {"field", "variable", "constant", "enumerator"}


def _may_own(kind: Kinds) -> bool:
    kinds = {kind} if isinstance(kind, str) else set(kind.values())
    return not kinds or bool(kinds - _BRACELESS)


# Patterns are Latin-1, so a byte above 0x7F is part of a name: it belongs to a letter of UTF-8, as all code but
# comments and strings has it.
WORD = rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*"


def each(kind: str, contexts: Iterable[int]) -> dict[int, str]:
    """The same kind in several contexts."""
    return dict.fromkeys(contexts, kind)
