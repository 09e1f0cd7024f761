"""Which characters are one letter when case is ignored.

RE2 is asked, because what it folds is what matters, and its Unicode tables are not those of this Python. The two
characters beyond ASCII that fold to ASCII letters, the Kelvin sign and the long s, are left out of the variants of k
and s: an index marks the documents that hold them, and such documents are looked at whatever a pattern requires.
"""

from functools import cache, lru_cache

from argosy.search.regex.engine import Pattern

KELVIN_SIGN = 0x212A
LONG_S = 0x017F
ODD_FOLDS = {KELVIN_SIGN: "kK", LONG_S: "sS"}

# Where scripts with two cases live. Between them lie Han, Hangul, Yi and private use, none of which has case.
_CASED_RANGES = ((0x00, 0x3000), (0xA640, 0xAC00), (0xF900, 0x10000), (0x10000, 0x12000), (0x16A00, 0x1F200))
_VARIANTS_CACHED_MAX = 4096  # of some 2,900 letters that have variants


@cache
def _cased_text() -> bytes:
    return "".join(chr(code) for low, high in _CASED_RANGES for code in range(low, high)).encode()


@lru_cache(maxsize=_VARIANTS_CACHED_MAX)
def variants(char: str) -> tuple[str, ...]:
    """The characters that `char` matches when case is ignored, itself included."""
    if char.isascii():
        return tuple(sorted({char, char.lower(), char.upper()}))
    code = ord(char)
    if not any(low <= code < high for low, high in _CASED_RANGES):
        return (char,)
    text = _cased_text()
    spans = Pattern.compile(rf"\x{{{code:x}}}", is_case_sensitive=False).find_all(text)
    return tuple(sorted(text[start:end].decode() for start, end in spans)) or (char,)
