r"""Derives the substrings that every match of a pattern contains, so that RE2 reads little of the text.

The result is valid for matches by characters in valid UTF-8; `holds_for_bytes` says whether it is also valid for text
matched byte by byte. It is conservative: anything uncertain is not required.

The algebra is that of RE2's `prefilter.h`. For every part of a pattern, as long as sets stay small, it has the set of
strings that the part matches exactly, those that it begins and ends with, and clauses: sets of strings of which each
match contains at least one. Concatenation joins the ends of the first part with the beginnings of the second, so that
`foo(bar|baz)\d` requires `foobar` or `foobaz`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from argosy.search.regex.analysis import can_span_lines, leaves
from argosy.search.regex.byte_runs import byte_runs
from argosy.search.regex.charsets import ODD_FOLDS, ByteSets, CharSet, charset, utf8, variants
from argosy.search.regex.tree import Assertion, Chars, Choice, Class, CodePoints, Node, Repeat, Sequence

PRODUCT_MAX = 16  # strings of the product of two sets, unless one of them has just one
STRINGS_MAX = 200  # strings of one set: a long alternation is still worth a lookup each
STRINGS_BYTES_MAX = 8192  # of one set, all together
CLAUSES_MAX = 16  # of the whole pattern, the rarest
COMPARED_MAX = 1024  # pairs of strings compared to drop a clause that another implies
COMMON_BYTES_MIN = 3  # shorter ones have no trigram
UNROLLED_MAX = 32  # copies of a repeated part
_RARITY_BYTES_MAX = 20  # longer strings are all equally rare


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes that a match contains; folded ones are in lower case and compared ignoring ASCII case."""

    text: bytes
    is_folded: bool = False

    def __add__(self, other: "Literal") -> "Literal":
        # Joined with a folded literal, the other one is compared ignoring case, too: less selective, never wrong.
        is_folded = self.is_folded or other.is_folded
        text = self.text + other.text
        return Literal(text.lower() if is_folded else text, is_folded)

    def holds(self, other: "Literal") -> bool:
        """Whether text that contains this literal contains the other too."""
        if other.is_folded:
            return other.text in self.text.lower()
        # A folded literal can occur in the other case, so it guarantees no letter in its exact case.
        if self.is_folded and other.text.lower() != other.text.upper():
            return False
        return other.text in self.text


Strings: TypeAlias = tuple[Literal, ...]

NOTHING: Strings = (Literal(b""),)


@dataclass(frozen=True, slots=True)
class StringInfo:
    """The strings of a part of a pattern (`Prefilter::Info` in RE2); `exact` is None unless they are few."""

    exact: Strings | None
    prefixes: Strings = NOTHING
    suffixes: Strings = NOTHING
    clauses: tuple[Strings, ...] = ()

    def all_clauses(self) -> list[Strings]:
        """All of it as clauses."""
        ends = (self.prefixes, self.suffixes) if self.exact is None else (self.exact,)
        return [strings for strings in (*self.clauses, *ends) if is_informative(strings)]


UNKNOWN = StringInfo(None)


def exactly(strings: Iterable[Literal]) -> StringInfo:
    """Exactly one of these strings, if they are not too many."""
    unique = tuple(dict.fromkeys(strings))
    return StringInfo(unique, unique, unique) if _is_small(unique) else UNKNOWN


def is_informative(strings: Strings) -> bool:
    return bool(strings) and all(literal.text for literal in strings)


def commonness(strings: Strings) -> float:
    """The share of text that is expected to contain one of them; only meaningful in comparisons."""
    return float(sum(8.0 ** -min(len(literal.text), _RARITY_BYTES_MAX) for literal in strings))


def concat(first: StringInfo, second: StringInfo) -> StringInfo:
    """The first part followed by the second."""
    if first.exact is not None and second.exact is not None:
        product = _product(first.exact, second.exact)
        if product is not None:
            return StringInfo(product, product, product)
        return StringInfo(None, first.exact, second.exact)
    clauses = [*first.clauses, *second.clauses]
    prefixes, suffixes = first.prefixes, second.suffixes
    middle = _product(first.suffixes, second.prefixes)
    # A part that is known exactly extends the beginnings (or ends) of the other one; otherwise the text where both meet
    # is a clause of its own.
    if first.exact is not None and middle is not None:
        prefixes = middle
    elif second.exact is not None and middle is not None:
        suffixes = middle
    else:
        ends = (first.suffixes, second.prefixes) if middle is None else (middle,)
        clauses += [strings for strings in ends if is_informative(strings)]
    return StringInfo(None, prefixes, suffixes, _rarest(clauses))


def any_of(parts: list[StringInfo]) -> StringInfo:
    """One of the parts. The choice requires one of the best clauses of its parts."""
    exacts = [part.exact for part in parts if part.exact is not None]
    if len(exacts) == len(parts):
        known = exactly(literal for strings in exacts for literal in strings)
        if known.exact is not None:
            return known
    # A match takes one part, which contains one string of that part's clause: so it contains one string of their union.
    best = [min(part.all_clauses(), key=commonness, default=NOTHING) for part in parts]
    clause = _union(best)
    return StringInfo(
        None,
        _union([part.prefixes for part in parts]),
        _union([part.suffixes for part in parts]),
        (clause,) if is_informative(clause) else (),
    )


def repeat(part: StringInfo, least: int, most: int | None) -> StringInfo:
    if most == 0:
        return exactly(NOTHING)
    if least == 0:
        # The strings of `x?` are known exactly: those of `x`, and none.
        is_optional = most == 1 and part.exact is not None
        return exactly((*NOTHING, *(part.exact or ()))) if is_optional else UNKNOWN
    # Fewer copies than the pattern requires are still required.
    copies = min(least, UNROLLED_MAX)
    known = part
    for _ in range(copies - 1):
        known = concat(known, part)
    if copies == most:
        return known
    return StringInfo(None, known.prefixes, known.suffixes, known.clauses)


def simplify_clauses(clauses: list[Strings]) -> tuple[Strings, ...]:
    """The clauses without what others imply, the rarest first.

    If all strings of a clause share a beginning or an end, that is a clause too: implied, but faster to search for.
    """
    strongest: list[Strings] = []
    # Rarest first, so that CLAUSES_MAX drops the clauses that would select least.
    for clause in _rarest(map(_shortest, clauses)):
        if not any(_implies(stronger, clause) for stronger in strongest):
            strongest = [weaker for weaker in strongest if not _implies(clause, weaker)]
            strongest.append(clause)
    return _rarest([*strongest, *(end for clause in strongest for end in _common_ends(clause))])


def _common_ends(strings: Strings) -> list[Strings]:
    """The common beginning and the common end of the strings, if long enough to search for."""
    if len(strings) < 2 or len({literal.is_folded for literal in strings}) > 1:
        return []
    texts = [literal.text for literal in strings]
    beginning = _common_beginning(texts)
    ending = _common_beginning([text[::-1] for text in texts])[::-1]
    is_folded = strings[0].is_folded
    return [(Literal(text, is_folded),) for text in (beginning, ending) if len(text) >= COMMON_BYTES_MIN]


def _common_beginning(texts: list[bytes]) -> bytes:
    first, last = min(texts), max(texts)  # all others sort between these two and share their common beginning
    differing = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differing, len(first))]


def _rarest(clauses: Iterable[Strings]) -> tuple[Strings, ...]:
    unique = tuple(dict.fromkeys(clauses))
    return tuple(sorted(unique, key=commonness)[:CLAUSES_MAX])


def _shortest(strings: Strings) -> Strings:
    """The set without the strings that contain another of it."""
    shortest: list[Literal] = []
    for literal in sorted(strings, key=lambda each: (len(each.text), not each.is_folded, each.text)):
        if not any(literal.holds(shorter) for shorter in shortest):
            shortest.append(literal)
    return tuple(shortest)


def _implies(stronger: Strings, weaker: Strings) -> bool:
    if len(stronger) * len(weaker) > COMPARED_MAX:
        return False  # keeping both is always correct
    return all(any(literal.holds(other) for other in weaker) for literal in stronger)


def _union(sets: list[Strings]) -> Strings:
    unique = tuple(dict.fromkeys(literal for strings in sets for literal in strings))
    # Too many strings are the same as no information.
    return unique if _is_small(unique) else NOTHING


def _product(first: Strings, second: Strings) -> Strings | None:
    size = len(first) * len(second)
    if size > PRODUCT_MAX and len(first) > 1 and len(second) > 1:
        return None
    if size > STRINGS_MAX or _bytes(first) * len(second) + _bytes(second) * len(first) > STRINGS_BYTES_MAX:
        return None
    return tuple(dict.fromkeys(a + b for a in first for b in second))


def _is_small(strings: Strings) -> bool:
    return len(strings) <= STRINGS_MAX and (len(strings) <= 1 or _bytes(strings) <= STRINGS_BYTES_MAX)


def _bytes(strings: Strings) -> int:
    return sum(len(literal.text) for literal in strings)


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
    # Twice the limit, because both cases of a letter become one folded literal.
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
