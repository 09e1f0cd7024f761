r"""Determines how many lines a match can span, and other properties that decide how text can be split before matching.

`\s` takes newlines, and users write it without thinking of lines. A match of `int\s+main` still lies
within two lines that are not blank, however many blank ones stand between them: so text need only be matched around the
lines that hold a required literal.
"""

from argosy.search.regex.analysis import leaves
from argosy.search.regex.charsets import charset
from argosy.search.regex.tree import Assertion, AssertionKind, Choice, Class, Node, Opaque, Repeat, Sequence, Text

LINE_SPAN_MAX = 8  # a pattern that spans more lines is matched against whole documents
_BLANK = sum(1 << ord(char) for char in "\t\n\v\f\r ")


def line_span(node: Node) -> int | None:
    """The number of line breaks a match can cross, not counting blank lines; None if unbounded."""
    reach = _reach(node)
    return reach if reach is not None and reach <= LINE_SPAN_MAX else None


def _reach(node: Node) -> int | None:
    match node:
        case Text(chars):
            return chars.count("\n")
        case Class():
            return 1 if "\n" in charset(node, is_folded=False) else 0
        case Assertion():
            return 0
        case Sequence(children):
            return _total([_reach(child) for child in children])
        case Choice(children):
            reaches = [_reach(child) for child in children]
            known = [reach for reach in reaches if reach is not None]
            return max(known, default=0) if len(known) == len(reaches) else None
        case Repeat(child, _, most):
            return _repeated(child, most)
        case Opaque():
            return None


def _total(reaches: list[int | None]) -> int | None:
    known = [reach for reach in reaches if reach is not None]
    return sum(known) if len(known) == len(reaches) else None


def _repeated(child: Node, most: int | None) -> int | None:
    reach = _reach(child)
    if reach == 0 or most == 0:
        return 0
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
    """Whether a match may hold no text at all."""
    match node:
        case Text(chars):
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
