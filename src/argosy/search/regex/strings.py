"""Strings of which every match must hold one: the algebra behind `prefilter`.

For every part of a pattern is kept, as far as sets stay small, the strings it is exactly one of, those it begins and
ends with, and clauses: sets of strings of which each match holds at least one. Joining two parts joins the end of the
first with the beginning of the second, so that `foo(bar|baz)\\d` is known to hold `foobar` or `foobaz`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

PRODUCT_MAX = 16  # strings that joining two sets may make, unless one of them has just one
STRINGS_MAX = 200  # strings of one set: a long alternation is still worth a look-up each
STRINGS_BYTES_MAX = 8192  # of one set, all together
CLAUSES_MAX = 16  # kept for the whole pattern, the rarest
COMPARED_MAX = 1024  # pairs of strings looked at to drop a clause that another implies
COMMON_BYTES_MIN = 3  # an index knows nothing of shorter ones
UNROLLED_MAX = 32  # copies of what is repeated that are written out
_RARITY_BYTES_MAX = 20  # longer strings are all equally rare


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes a match holds; folded ones are in ASCII lower case and compared up to ASCII case."""

    text: bytes
    is_folded: bool = False

    def __add__(self, other: "Literal") -> "Literal":
        is_folded = self.is_folded or other.is_folded
        text = self.text + other.text
        return Literal(text.lower() if is_folded else text, is_folded)

    def holds(self, other: "Literal") -> bool:
        """Whether text that holds this one holds the other, too."""
        if other.is_folded:
            return other.text in self.text.lower()
        if self.is_folded and other.text.lower() != other.text.upper():
            return False
        return other.text in self.text


Strings: TypeAlias = tuple[Literal, ...]

NOTHING: Strings = (Literal(b""),)


@dataclass(frozen=True, slots=True)
class StringInfo:
    """What is known of a part of a pattern; `exact` is None where the part is not one of a few strings."""

    exact: Strings | None
    prefixes: Strings = NOTHING
    suffixes: Strings = NOTHING
    clauses: tuple[Strings, ...] = ()

    def all_clauses(self) -> list[Strings]:
        """Everything that is known, as clauses."""
        ends = (self.prefixes, self.suffixes) if self.exact is None else (self.exact,)
        return [strings for strings in (*self.clauses, *ends) if is_informative(strings)]


UNKNOWN = StringInfo(None)


def exactly(strings: Iterable[Literal]) -> StringInfo:
    """One of these strings, if they are not too many."""
    unique = tuple(dict.fromkeys(strings))
    return StringInfo(unique, unique, unique) if _is_small(unique) else UNKNOWN


def is_informative(strings: Strings) -> bool:
    return bool(strings) and all(literal.text for literal in strings)


def commonness(strings: Strings) -> float:
    """How much text is expected to hold one of them: only good for comparing."""
    return float(sum(8.0 ** -min(len(literal.text), _RARITY_BYTES_MAX) for literal in strings))


def concat(first: StringInfo, second: StringInfo) -> StringInfo:
    """The second part right after the first."""
    if first.exact is not None and second.exact is not None:
        product = _product(first.exact, second.exact)
        if product is not None:
            return StringInfo(product, product, product)
        return StringInfo(None, first.exact, second.exact)
    clauses = [*first.clauses, *second.clauses]
    prefixes, suffixes = first.prefixes, second.suffixes
    middle = _product(first.suffixes, second.prefixes)
    if first.exact is not None and middle is not None:
        prefixes = middle
    elif second.exact is not None and middle is not None:
        suffixes = middle
    else:
        ends = (first.suffixes, second.prefixes) if middle is None else (middle,)
        clauses += [strings for strings in ends if is_informative(strings)]
    return StringInfo(None, prefixes, suffixes, _rarest(clauses))


def any_of(parts: list[StringInfo]) -> StringInfo:
    """One of the parts: of each, the best clause is what the choice can promise."""
    exacts = [part.exact for part in parts if part.exact is not None]
    if len(exacts) == len(parts):
        known = exactly(literal for strings in exacts for literal in strings)
        if known.exact is not None:
            return known
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
        is_optional = most == 1 and part.exact is not None
        return exactly((*NOTHING, *(part.exact or ()))) if is_optional else UNKNOWN
    copies = min(least, UNROLLED_MAX)
    known = part
    for _ in range(copies - 1):
        known = concat(known, part)
    if copies == most:
        return known
    return StringInfo(None, known.prefixes, known.suffixes, known.clauses)


def simplify_clauses(clauses: list[Strings]) -> tuple[Strings, ...]:
    """The clauses without what others imply, the rarest first.

    Where all strings of a clause share an end, that end is a clause, too: implied, but quicker to look for.
    """
    kept: list[Strings] = []
    for clause in _rarest(map(_shortest, clauses)):
        if not any(_implies(stronger, clause) for stronger in kept):
            kept = [weaker for weaker in kept if not _implies(clause, weaker)]
            kept.append(clause)
    return _rarest([*kept, *(end for clause in kept for end in _common_ends(clause))])


def _common_ends(strings: Strings) -> list[Strings]:
    """What all the strings begin with, and what they end with, if that is worth looking for alone."""
    if len(strings) < 2 or len({literal.is_folded for literal in strings}) > 1:
        return []
    texts = [literal.text for literal in strings]
    beginning = _common_beginning(texts)
    ending = _common_beginning([text[::-1] for text in texts])[::-1]
    is_folded = strings[0].is_folded
    return [(Literal(text, is_folded),) for text in (beginning, ending) if len(text) >= COMMON_BYTES_MIN]


def _common_beginning(texts: list[bytes]) -> bytes:
    first, last = min(texts), max(texts)  # what these two share, all between them share
    differing = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differing, len(first))]


def _rarest(clauses: Iterable[Strings]) -> tuple[Strings, ...]:
    unique = tuple(dict.fromkeys(clauses))
    return tuple(sorted(unique, key=commonness)[:CLAUSES_MAX])


def _shortest(strings: Strings) -> Strings:
    """Without the strings that hold another of the set."""
    kept: list[Literal] = []
    for literal in sorted(strings, key=lambda each: (len(each.text), not each.is_folded, each.text)):
        if not any(literal.holds(shorter) for shorter in kept):
            kept.append(literal)
    return tuple(kept)


def _implies(stronger: Strings, weaker: Strings) -> bool:
    if len(stronger) * len(weaker) > COMPARED_MAX:
        return False  # both are kept, which is never wrong
    return all(any(literal.holds(other) for other in weaker) for literal in stronger)


def _union(sets: list[Strings]) -> Strings:
    unique = tuple(dict.fromkeys(literal for strings in sets for literal in strings))
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
