"""What can be said of a pattern by looking at it: is it plain text, does it name capitals, can it cross lines."""

from collections.abc import Iterator

from argosy.search.regex.charsets import charset
from argosy.search.regex.folding import variants
from argosy.search.regex.tree import (
    Assertion,
    Case,
    Choice,
    Class,
    Named,
    Node,
    Opaque,
    Range,
    Repeat,
    Sequence,
    Text,
)

LITERAL_CHARS_MAX = 4096  # a pattern that spells out more, by repetition, stays a pattern
_CAPITALS = frozenset({"[:upper:]", "Lu"})


def as_literal(node: Node) -> str | None:
    """The one text that the pattern stands for, if it is just that; its case is to be treated as the search asks."""
    match node:
        case Text(chars, case) if (case is Case.ASKED or _is_caseless(chars)) and not _has_surrogates(chars):
            return chars
        case Class((Range(low, high),), False, case) if low == high:
            return as_literal(Text(chr(low), case))
        case Sequence(children):
            return _concat([as_literal(child) for child in children])
        case Repeat(_, 0, 0):
            return ""
        case Repeat(child, least, most) if least == most:
            text = as_literal(child)
            return text * least if text is not None and len(text) * least <= LITERAL_CHARS_MAX else None
        case _:
            return None


def _concat(texts: list[str | None]) -> str | None:
    known = [text for text in texts if text is not None]
    return "".join(known) if len(known) == len(texts) else None


def _is_caseless(chars: str) -> bool:
    return all(len(variants(char)) == 1 for char in chars)


def _has_surrogates(chars: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in chars)


def has_upper_case(node: Node) -> bool:
    r"""Whether the pattern spells a capital whose case is the search's to choose, so that an automatic choice heeds it.

    Text and the ends of ranges count as they are written, and so do `[:upper:]` and `\p{Lu}`; a capital among what `\w`
    or `\pL` takes does not, nor does one under an explicit `(?i)` or `(?-i)`.
    """
    return any(_spells_capital(leaf) for leaf in leaves(node))


def _spells_capital(leaf: Node) -> bool:
    match leaf:
        case Text(chars, Case.ASKED):
            return chars != chars.lower()
        case Class(parts, _, Case.ASKED):
            return any(_names_capital(part) for part in parts)
        case _:
            return False


def _names_capital(part: Range | Named) -> bool:
    if isinstance(part, Named):
        return part.name in _CAPITALS
    ends = chr(part.low) + chr(part.high)
    return ends != ends.lower()


def can_span_lines(node: Node) -> bool:
    """Whether a match may hold a newline."""
    return any(_takes_newline(leaf) for leaf in leaves(node))


def _takes_newline(leaf: Node) -> bool:
    match leaf:
        case Text(chars):
            return "\n" in chars
        case Class():
            return "\n" in charset(leaf, is_folded=False)  # a newline has no case
        case Opaque():
            return True
        case _:
            return False


def leaves(node: Node) -> Iterator[Text | Class | Assertion | Opaque]:
    """Every leaf that can take part in a match."""
    match node:
        case Sequence(children) | Choice(children):
            for child in children:
                yield from leaves(child)
        case Repeat(child, _, most):
            if most != 0:
                yield from leaves(child)
        case _:
            yield node
