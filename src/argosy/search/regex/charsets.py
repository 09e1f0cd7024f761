r"""The characters that a class matches, and the case variants of a character.

The ASCII part of a class is exact. The rest may be too large, never too small: without Unicode's tables `\pL` stands
for any character beyond ASCII, which is enough for reasoning about bytes.

RE2 itself supplies the case variants, because its folding is the one that counts, and its Unicode tables are not those
of this Python. The two characters beyond ASCII that fold to ASCII letters, the Kelvin sign and the long s, are not
among the variants of k and s: an index marks the documents that contain them, and such documents are searched whatever
a pattern requires.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias
from unicodedata import category

from argosy.search.regex.engine import Pattern
from argosy.search.regex.tree import CODE_POINT_MAX, Class, CodePoints, Named

KELVIN_SIGN = 0x212A
LONG_S = 0x017F
ODD_FOLDS = {KELVIN_SIGN: "kK", LONG_S: "sS"}

# The blocks of scripts with two cases. Han, Hangul, Yi and private use, which have no case, are left out: they are most
# of the characters, and RE2 reads this text once per letter.
_CASED_RANGES = ((0x00, 0x3000), (0xA640, 0xAC00), (0xF900, 0x10000), (0x10000, 0x12000), (0x16A00, 0x1F200))
_VARIANTS_CACHED_MAX = 4096  # about 2,900 letters have variants


@cache
def _text_with_case_variants() -> bytes:
    return "".join(chr(code) for low, high in _CASED_RANGES for code in range(low, high)).encode()


@lru_cache(maxsize=_VARIANTS_CACHED_MAX)
def variants(char: str) -> tuple[str, ...]:
    """The characters that `char` matches when case is ignored, including itself."""
    if char.isascii():
        return tuple(sorted({char, char.lower(), char.upper()}))
    code = ord(char)
    if not any(low <= code < high for low, high in _CASED_RANGES):
        return (char,)
    # Which characters fold to this one is what RE2 finds in a text of all that have case.
    text = _text_with_case_variants()
    spans = Pattern.compile(rf"\x{{{code:x}}}", is_case_sensitive=False).find_all(text)
    return tuple(sorted(text[start:end].decode() for start, end in spans)) or (char,)


Ranges: TypeAlias = tuple[tuple[int, int], ...]
ByteSets: TypeAlias = tuple[frozenset[int], ...]

# Classes of more characters beyond ASCII are approximated by all characters beyond ASCII when case is ignored, because
# the variants of each would have to be looked up.
FOLDED_CHARS_MAX = 256
CLASSES_CACHED_MAX = 1024  # several analyses of one pattern need each of its classes

_ASCII = (1 << 128) - 1
_WIDE: Ranges = ((0x80, CODE_POINT_MAX),)
_LENGTH_STARTS = (0x00, 0x80, 0x800, 0x10000, CODE_POINT_MAX + 1)  # from each on, UTF-8 takes one more byte
_CONTINUATION = frozenset(range(0x80, 0xC0))
_SPACE = "\t\n\f\r "


@dataclass(frozen=True, slots=True)
class CharSet:
    """The ASCII characters by bit, exactly, and ranges that cover all others."""

    ascii: int
    wide: Ranges = ()

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        return bool(self.ascii >> code & 1) if code < 0x80 else any(low <= code <= high for low, high in self.wide)

    def ascii_codes(self) -> Iterator[int]:
        return (code for code in range(0x80) if self.ascii >> code & 1)

    def count(self) -> int:
        return self.ascii.bit_count() + sum(high - low + 1 for low, high in self.wide)

    def byte_sets(self) -> ByteSets | None:
        """The possible values of each byte of a member's UTF-8 form, if all members have the same number of bytes."""
        if not self.wide:
            return (frozenset(self.ascii_codes()),) if self.ascii else None
        low, high = self.wide[0][0], self.wide[-1][1]
        length = utf8_length(low)
        # Members of different lengths would shift every byte after them.
        if self.ascii or utf8_length(high) != length:
            return None
        sets: list[set[int]] = [set() for _ in range(length)]
        for low, high in self.wide:
            for position, members in enumerate(_range_bytes(low, high)):
                sets[position] |= members
        return tuple(frozenset(members) for members in sets)


def utf8_length(code: int) -> int:
    return sum(code >= start for start in _LENGTH_STARTS)


def utf8(char: str) -> bytes:
    """The UTF-8 form. RE2 accepts half a surrogate pair as a character; no text contains one."""
    return char.encode(errors="surrogatepass")


def _range_bytes(low: int, high: int) -> Iterator[set[int] | frozenset[int]]:
    """The range of each byte, for forms of equal length.

    After a byte that varies, a later byte is approximated by all continuation bytes.
    """
    is_settled = True
    for first, last in zip(utf8(chr(low)), utf8(chr(high)), strict=True):
        yield set(range(first, last + 1)) if is_settled else _CONTINUATION
        is_settled = is_settled and first == last


@lru_cache(maxsize=CLASSES_CACHED_MAX)
def charset(node: Class, *, is_folded: bool) -> CharSet:
    """The characters that the class matches, with their other case if case is ignored."""
    mask = 0
    wide: list[tuple[int, int]] = []
    # Whether `wide` is exact and not a superset: the complement of a superset would be too small.
    is_exact = True
    for part in node.parts:
        if isinstance(part, Named):
            part_mask, has_wide, is_part_exact = _set_of_name(part, is_folded=is_folded)
            wide += _WIDE if has_wide else ()
        else:
            part_mask, part_wide, is_part_exact = _range(part, is_folded=is_folded)
            wide += part_wide
        mask |= part_mask
        is_exact = is_exact and is_part_exact
    if node.is_negated:
        return CharSet(_ASCII & ~mask, _complement(_merge(wide)) if is_exact else _WIDE)
    return CharSet(mask, _merge(wide))


def _range(part: CodePoints, *, is_folded: bool) -> tuple[int, list[tuple[int, int]], bool]:
    mask = _bits(part.low, min(part.high, 0x7F))
    low = max(part.low, 0x80)
    if low > part.high:
        return (_with_other_case(mask) if is_folded else mask), [], True
    wide = [(low, part.high)]
    if not is_folded:
        return mask, wide, True
    # A range that contains the Kelvin sign or the long s also matches the ASCII letter it folds to.
    for odd, letters in ODD_FOLDS.items():
        if low <= odd <= part.high:
            mask |= _mask(letters)
    if part.high - low >= FOLDED_CHARS_MAX:
        return _with_other_case(mask), list(_WIDE), False
    folded = {ord(each) for code in range(low, part.high + 1) for each in variants(chr(code))}
    return _with_other_case(mask), wide + [(code, code) for code in folded if code >= 0x80], False


def _set_of_name(part: Named, *, is_folded: bool) -> tuple[int, bool, bool]:
    """The ASCII part, whether there are other characters, and whether those are exactly all (or none).

    Case is folded before a set is negated, as in RE2.
    """
    mask = _ascii_of_name(part.name)
    if is_folded:
        mask = _with_other_case(mask)
    is_ascii_only = part.name.startswith(("\\", "["))
    if part.is_negated:
        return _ASCII & ~mask, True, is_ascii_only and not is_folded
    # Folded sets are not exact, because letters beyond ASCII can fold into them.
    return mask, not is_ascii_only, is_ascii_only and not is_folded


@cache
def _ascii_of_name(name: str) -> int:
    if name in _ASCII_SETS:
        return _ASCII_SETS[name]
    if name == "Any":
        return _ASCII
    if name == "Latin":
        return _mask(filter(str.isalpha, map(chr, range(0x80))))
    if name == "Common":
        return _ASCII & ~_ascii_of_name("Latin")
    # A general category: one letter, or two for a part of it.
    if len(name) <= 2:
        return _mask(char for char in map(chr, range(0x80)) if category(char).startswith(name))
    return 0  # any other script: ASCII is Latin or common


def _mask(chars: "Iterator[str] | filter[str] | str") -> int:
    return sum(1 << ord(char) for char in set(chars))


def _bits(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low) if low <= high else 0


def _with_other_case(mask: int) -> int:
    upper, lower = _bits(0x41, 0x5A), _bits(0x61, 0x7A)
    return mask | (mask & upper) << 32 | (mask & lower) >> 32


def _merge(ranges: list[tuple[int, int]]) -> Ranges:
    """The ranges in order, overlapping and adjacent ones merged."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(ranges: Ranges) -> Ranges:
    """The characters beyond ASCII that are in none of the ranges."""
    bounds = [0x7F, *(bound for each in ranges for bound in each), CODE_POINT_MAX + 1]
    gaps = zip(bounds[::2], bounds[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in gaps if high - low > 1)


def _posix_sets() -> Iterator[tuple[str, int]]:
    digit, upper, lower = _bits(0x30, 0x39), _bits(0x41, 0x5A), _bits(0x61, 0x7A)
    alnum = digit | upper | lower
    graph = _bits(0x21, 0x7E)
    yield "alnum", alnum
    yield "alpha", upper | lower
    yield "ascii", _ASCII
    yield "blank", _mask("\t ")
    yield "cntrl", _bits(0x00, 0x1F) | 1 << 0x7F
    yield "digit", digit
    yield "graph", graph
    yield "lower", lower
    yield "print", graph | 1 << 0x20
    yield "punct", graph & ~alnum
    yield "space", _mask(_SPACE + "\v")
    yield "upper", upper
    yield "word", alnum | _mask("_")
    yield "xdigit", digit | _mask("abcdefABCDEF")


_ASCII_SETS = {f"[:{name}:]": mask for name, mask in _posix_sets()}
# RE2's `\s` lacks the vertical tab that `[:space:]` has.
_ASCII_SETS |= {r"\d": _ASCII_SETS["[:digit:]"], r"\w": _ASCII_SETS["[:word:]"], r"\s": _mask(_SPACE)}
