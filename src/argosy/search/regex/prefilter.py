"""Derives the substrings that every match of a pattern contains, so that RE2 reads little of the text.

The result is valid for matches by characters in valid UTF-8; `holds_for_bytes` says whether it is also valid for text
matched byte by byte. It is conservative: anything uncertain is not required.
"""

from dataclasses import dataclass, replace

from argosy.search.regex.analysis import can_span_lines, leaves
from argosy.search.regex.byte_runs import byte_runs
from argosy.search.regex.charsets import ODD_FOLDS, ByteSets, CharSet, charset, utf8, variants
from argosy.search.regex.strings import (
    NOTHING,
    UNKNOWN,
    Literal,
    StringInfo,
    Strings,
    any_of,
    concat,
    exactly,
    repeat,
    simplify_clauses,
)
from argosy.search.regex.tree import Assertion, Chars, Choice, Class, CodePoints, Node, Repeat, Sequence

CLASS_STRINGS_MAX = 3  # a class of more characters multiplies the strings; the byte runs cover it


@dataclass(frozen=True, slots=True)
class Prefilter:
    """The required substrings of a pattern."""

    clauses: tuple[Strings, ...] = ()  # every match contains at least one literal of each; the rarest clause first
    runs: tuple[ByteSets, ...] = ()  # every match contains each of them: consecutive bytes, each in its set
    can_span_lines: bool = True  # a match can contain a newline
    holds_for_bytes: bool = True  # also valid for matches in text that is not valid UTF-8
    # A match can have a Kelvin sign or long s where a k or s is required: documents with them need not meet this.
    has_odd_folds: bool = False


def prefilter(node: Node, *, is_case_sensitive: bool) -> Prefilter:
    """The prefilter of a pattern."""
    return Prefilter(
        clauses=simplify_clauses(_info(node, is_case_sensitive).all_clauses()),
        runs=byte_runs(node, is_case_sensitive=is_case_sensitive),
        can_span_lines=can_span_lines(node),
        holds_for_bytes=not any(_names_wide(leaf) for leaf in leaves(node)),
        has_odd_folds=any(_folds_oddly(leaf, is_case_sensitive) for leaf in leaves(node)),
    )


def prefilter_of_text(text: str, *, is_case_sensitive: bool) -> Prefilter:
    """The prefilter of a literal; less than the literal itself only if case is ignored beyond ASCII."""
    found = prefilter(Chars(text), is_case_sensitive=is_case_sensitive)
    return replace(found, holds_for_bytes=is_case_sensitive or text.isascii())  # the text is its bytes


def _info(node: Node, is_case_sensitive: bool) -> StringInfo:
    match node:
        case Chars(chars, case):
            is_folded = case.is_folded(is_case_sensitive=is_case_sensitive)
            return _info_of_text(chars) if is_folded else exactly([Literal(utf8(chars))])
        case Class(_, _, case):
            return _info_of_class(charset(node, is_folded=case.is_folded(is_case_sensitive=is_case_sensitive)))
        case Assertion():
            return exactly(NOTHING)
        case Sequence(children):
            known = exactly(NOTHING)
            for child in children:
                known = concat(known, _info(child, is_case_sensitive))
            return known
        case Choice(children):
            return any_of([_info(child, is_case_sensitive) for child in children])
        case Repeat(child, least, most):
            return repeat(_info(child, is_case_sensitive), least, most)
        case _:
            return UNKNOWN


def _info_of_text(chars: str) -> StringInfo:
    """Text whose case is ignored, in pieces between the letters beyond ASCII that have another case.

    The scan ignores ASCII case only, and the forms of other letters can differ in length, so those letters are not
    required.
    """
    known = exactly(NOTHING)
    piece: list[str] = []
    for char in chars:
        if char.isascii() or len(variants(char)) == 1:
            piece.append(char)
        else:
            known = concat(concat(known, exactly([_fold("".join(piece))])), UNKNOWN)
            piece = []
    return concat(known, exactly([_fold("".join(piece))]))


def _fold(chars: str) -> Literal:
    text = utf8(chars)
    is_folded = text.lower() != text.upper()
    return Literal(text.lower() if is_folded else text, is_folded)


def _info_of_class(chars: CharSet) -> StringInfo:
    if not 0 < chars.count() <= 2 * CLASS_STRINGS_MAX:
        return UNKNOWN
    literals = [_ascii_literal(code, chars) for code in chars.ascii_codes()]
    literals += [Literal(utf8(chr(code))) for low, high in chars.wide for code in range(low, high + 1)]
    known = exactly(literals)
    return known if len(known.exact or ()) <= CLASS_STRINGS_MAX else UNKNOWN


def _ascii_literal(code: int, chars: CharSet) -> Literal:
    """One folded literal for both cases of a letter, if the class has both."""
    char = chr(code)
    return _fold(char) if char.swapcase() in chars else Literal(char.encode())


def _names_wide(leaf: Node) -> bool:
    """Whether the leaf has a character beyond ASCII, which is several characters when text is matched byte by byte."""
    match leaf:
        case Chars(chars):
            return not chars.isascii()
        case Class(parts):
            return any(isinstance(part, CodePoints) and part.high >= 0x80 for part in parts)
        case _:
            return False


def _folds_oddly(leaf: Node, is_case_sensitive: bool) -> bool:
    match leaf:
        case Chars(chars, case) if case.is_folded(is_case_sensitive=is_case_sensitive):
            return any(letter in chars for letters in ODD_FOLDS.values() for letter in letters)
        case Class(_, _, case) if case.is_folded(is_case_sensitive=is_case_sensitive):
            taken = charset(leaf, is_folded=True)
            return any(letters[0] in taken and chr(odd) not in taken for odd, letters in ODD_FOLDS.items())
        case _:
            return False
