r"""Properties of a pattern, derived from its tree: is it literal text, how many lines can it span, can it be empty.

They decide how text can be split before matching. `\s` matches newlines, and users write it without thinking of lines.
A match of `int\s+main` still lies within two lines that are not blank, however many blank ones are between them: so
text need only be matched around the lines that contain a required literal.

Patterns that are a small set of literals (`todo|fixme`, `\bfoo\b`, `return -E(NOMEM|INVAL);$`) are searched as
literals, many times faster than RE2 returns matches. The literals are in RE2's order of preference, so that of two at
one position the first is the match.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.search.regex.charsets import charset, variants
from argosy.search.regex.tree import (
    Assertion,
    AssertionKind,
    CaseMode,
    Chars,
    Choice,
    Class,
    CodePoints,
    Named,
    Node,
    Opaque,
    Repeat,
    Sequence,
)

LITERAL_CHARS_MAX = 4096  # a pattern that is longer, by repetition, stays a pattern
_CAPITALS = frozenset({"[:upper:]", "Lu"})


def as_literal(node: Node) -> str | None:
    """The only text that the pattern matches, if there is just one and no flag in the pattern decides its case."""
    match node:
        # A text under `(?i)` differs from one under the search's own case mode, unless it has no letters.
        case Chars(chars, case) if (case is CaseMode.DEFAULT or _is_caseless(chars)) and not _has_surrogates(chars):
            return chars
        case Class((CodePoints(low, high),), False, case) if low == high:
            return as_literal(Chars(chr(low), case))
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
    r"""Whether the pattern has an upper-case letter that makes automatic case sensitivity case-sensitive.

    Text and the ends of ranges count as they are written, and so do `[:upper:]` and `\p{Lu}`. The capitals in `\w` or
    `\pL` do not, nor does a letter under an explicit `(?i)` or `(?-i)`.
    """
    return any(_spells_capital(leaf) for leaf in leaves(node))


def _spells_capital(leaf: Node) -> bool:
    match leaf:
        case Chars(chars, CaseMode.DEFAULT):
            return chars != chars.lower()
        case Class(parts, _, CaseMode.DEFAULT):
            return any(_names_capital(part) for part in parts)
        case _:
            return False


def _names_capital(part: CodePoints | Named) -> bool:
    if isinstance(part, Named):
        return part.name in _CAPITALS
    # The ends of a range are what the user typed; what lies between was not typed as a capital.
    ends = chr(part.low) + chr(part.high)
    return ends != ends.lower()


def can_span_lines(node: Node) -> bool:
    """Whether a match can contain a newline."""
    return any(_takes_newline(leaf) for leaf in leaves(node))


def _takes_newline(leaf: Node) -> bool:
    match leaf:
        case Chars(chars):
            return "\n" in chars
        case Class():
            return "\n" in charset(leaf, is_folded=False)  # a newline has no case
        case Opaque():
            return True
        case _:
            return False


def leaves(node: Node) -> Iterator[Chars | Class | Assertion | Opaque]:
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


LINE_SPAN_MAX = 8  # a pattern that spans more lines is matched against whole documents
_BLANK = sum(1 << ord(char) for char in "\t\n\v\f\r ")


def line_span(node: Node) -> int | None:
    """The number of line breaks a match can cross, not counting blank lines; None if unbounded."""
    reach = _span_of(node)
    return reach if reach is not None and reach <= LINE_SPAN_MAX else None


def _span_of(node: Node) -> int | None:
    match node:
        case Chars(chars):
            return chars.count("\n")
        case Class():
            return 1 if "\n" in charset(node, is_folded=False) else 0
        case Assertion():
            return 0
        case Sequence(children):
            return _sum_spans([_span_of(child) for child in children])
        case Choice(children):
            reaches = [_span_of(child) for child in children]
            known = [reach for reach in reaches if reach is not None]
            return max(known, default=0) if len(known) == len(reaches) else None
        case Repeat(child, _, most):
            return _repeat_span(child, most)
        case Opaque():
            return None


def _sum_spans(reaches: list[int | None]) -> int | None:
    known = [reach for reach in reaches if reach is not None]
    return sum(known) if len(known) == len(reaches) else None


def _repeat_span(child: Node, most: int | None) -> int | None:
    reach = _span_of(child)
    if reach == 0 or most == 0:
        return 0
    # Any number of blank lines counts as one line break, because blank lines are not counted.
    if isinstance(child, Class) and _is_blank(child):
        return 1
    return None if reach is None or most is None else reach * most


def _is_blank(node: Class) -> bool:
    members = charset(node, is_folded=False)
    return not members.wide and members.ascii & ~_BLANK == 0


def has_text_anchors(node: Node) -> bool:
    r"""Whether `\A` or `\z` ties a match to the ends of the whole text."""
    places = {leaf.place for leaf in leaves(node) if isinstance(leaf, Assertion)}
    return bool(places & {AssertionKind.TEXT_START, AssertionKind.TEXT_END}) or any(
        isinstance(leaf, Opaque) for leaf in leaves(node)
    )


def can_be_empty(node: Node) -> bool:
    """Whether a match can be empty."""
    match node:
        case Chars(chars):
            return not chars
        case Class():
            return False
        case Assertion() | Opaque():
            return True
        case Sequence(children):
            return all(can_be_empty(child) for child in children)
        case Choice(children):
            return any(can_be_empty(child) for child in children)
        case Repeat(child, least, _):
            return least == 0 or can_be_empty(child)


TEXTS_MAX = 12  # each literal is a scan of its own
_EDGES = frozenset({AssertionKind.LINE_START, AssertionKind.LINE_END, AssertionKind.WORD_BOUNDARY})


@dataclass(frozen=True, slots=True)
class LiteralSet:
    """Any of these texts, none empty, and the assertions at its beginning and end."""

    texts: tuple[str, ...]
    before: AssertionKind | None = None
    after: AssertionKind | None = None


def literal_set(node: Node) -> LiteralSet | None:
    """The texts that the pattern matches, if they are few, without newlines, and ASCII.

    Other letters have case variants that differ in more than a bit, and in text that is not UTF-8 a class or `?`
    applies to one of their bytes.
    """
    # Assertions at the ends are checked by looking at one byte; anywhere else they need RE2.
    before, inner, after = _edges(node)
    texts = _texts(inner)
    if texts is None or not texts or not all(texts):
        return None
    # A literal with a newline can span blocks, and a NUL is in no document.
    if any("\n" in text or "\0" in text or not text.isascii() for text in texts):
        return None
    return LiteralSet(tuple(dict.fromkeys(texts)), before, after)


def _edges(node: Node) -> tuple[AssertionKind | None, Node, AssertionKind | None]:
    """The assertions at the ends of a sequence, and the sequence without them."""
    children = node.children if isinstance(node, Sequence) else (node,)
    before = after = None
    # An assertion alone is no literal: it matches empty text.
    if len(children) > 1 and isinstance(children[0], Assertion) and children[0].place in _EDGES:
        before, children = children[0].place, children[1:]
    if len(children) > 1 and isinstance(children[-1], Assertion) and children[-1].place in _EDGES:
        after, children = children[-1].place, children[:-1]
    return before, Sequence(children), after


def _texts(node: Node) -> list[str] | None:
    match node:
        case Chars(chars, CaseMode.DEFAULT):
            return [chars]
        # Negated classes are left out, because they contain nearly everything.
        case Class(parts, False, CaseMode.DEFAULT):
            return _members(parts)
        case Sequence(children):
            return _product([_texts(child) for child in children])
        case Choice(children):
            several = [_texts(child) for child in children]
            return _if_few([text for texts in several if texts is not None for text in texts], several)
        # The order is RE2's preference: a greedy `?` tries the text first.
        case Repeat(child, 0, 1, is_greedy):
            texts = _texts(child)
            return None if texts is None else _if_few([*texts, ""] if is_greedy else ["", *texts], [texts])
        case Repeat(child, least, most) if least == most:
            return _product([_texts(child)] * least)
        case _:
            return None


def _members(parts: tuple[object, ...]) -> list[str] | None:
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, CodePoints) or part.high - part.low >= TEXTS_MAX:
            return None
        texts.extend(chr(code) for code in range(part.low, part.high + 1))
    return _if_few(texts, [texts])


def _product(several: list[list[str] | None]) -> list[str] | None:
    texts: list[str] | None = [""]
    for each in several:
        if each is None or texts is None:
            return None
        texts = _if_few([head + tail for head in texts for tail in each], [each])
    return texts


def _if_few(texts: list[str], parts: list[list[str] | None]) -> list[str] | None:
    return texts if len(texts) <= TEXTS_MAX and all(part is not None for part in parts) else None
