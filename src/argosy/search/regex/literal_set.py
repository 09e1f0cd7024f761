r"""Recognizes patterns that are a small set of literals: `todo|fixme`, `\bfoo\b`, `return -E(NOMEM|INVAL);$`.

They are searched as literals, many times faster than RE2 returns matches. Literals are in RE2's order of preference, so
that of two at one position the first is the match.
"""

from dataclasses import dataclass

from argosy.search.regex.tree import Assertion, AssertionKind, Case, Choice, Class, Node, Range, Repeat, Sequence, Text

TEXTS_MAX = 12
_EDGES = frozenset({AssertionKind.LINE_START, AssertionKind.LINE_END, AssertionKind.WORD_BOUNDARY})


@dataclass(frozen=True, slots=True)
class LiteralSet:
    """Any of these texts, none empty, with what must hold where it begins and where it ends."""

    texts: tuple[str, ...]
    before: AssertionKind | None = None
    after: AssertionKind | None = None


def literal_set(node: Node) -> LiteralSet | None:
    """The texts the pattern stands for, if they are few, on one line, and ASCII.

    Other letters have cases that bytes do not tell, and in what is no UTF-8 a class or `?` means one of their bytes.
    """
    before, inner, after = _edges(node)
    texts = _texts(inner)
    if texts is None or not texts or not all(texts):
        return None
    if any("\n" in text or "\0" in text or not text.isascii() for text in texts):
        return None
    return LiteralSet(tuple(dict.fromkeys(texts)), before, after)


def _edges(node: Node) -> tuple[AssertionKind | None, Node, AssertionKind | None]:
    """An assertion at either end of a sequence, taken off it."""
    children = node.children if isinstance(node, Sequence) else (node,)
    before = after = None
    if len(children) > 1 and isinstance(children[0], Assertion) and children[0].place in _EDGES:
        before, children = children[0].place, children[1:]
    if len(children) > 1 and isinstance(children[-1], Assertion) and children[-1].place in _EDGES:
        after, children = children[-1].place, children[:-1]
    return before, Sequence(children), after


def _texts(node: Node) -> list[str] | None:
    match node:
        case Text(chars, Case.ASKED):
            return [chars]
        case Class(parts, False, Case.ASKED):
            return _members(parts)
        case Sequence(children):
            return _product([_texts(child) for child in children])
        case Choice(children):
            several = [_texts(child) for child in children]
            return _bounded([text for texts in several if texts is not None for text in texts], several)
        case Repeat(child, 0, 1, is_greedy):
            texts = _texts(child)
            return None if texts is None else _bounded([*texts, ""] if is_greedy else ["", *texts], [texts])
        case Repeat(child, least, most) if least == most:
            return _product([_texts(child)] * least)
        case _:
            return None


def _members(parts: tuple[object, ...]) -> list[str] | None:
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, Range) or part.high - part.low >= TEXTS_MAX:
            return None
        texts.extend(chr(code) for code in range(part.low, part.high + 1))
    return _bounded(texts, [texts])


def _product(several: list[list[str] | None]) -> list[str] | None:
    texts: list[str] | None = [""]
    for each in several:
        if each is None or texts is None:
            return None
        texts = _bounded([head + tail for head in texts for tail in each], [each])
    return texts


def _bounded(texts: list[str], parts: list[list[str] | None]) -> list[str] | None:
    return texts if len(texts) <= TEXTS_MAX and all(part is not None for part in parts) else None
