"""Letters are equal up to case if RE2 matches them so."""

import pytest

from argosy.search.regex import Pattern
from argosy.search.regex.charsets import _CASED_RANGES, variants


@pytest.mark.parametrize(
    ("char", "expected"),
    [
        ("a", "Aa"),
        ("K", "Kk"),  # the Kelvin sign is handled elsewhere
        ("1", "1"),
        ("中", "中"),
        ("ж", "Жж"),
        ("å", "Åå\u212b"),
        ("в", "Вв\u1c80"),
        ("ß", "ßẞ"),
        ("σ", "Σςσ"),
        ("\u212a", "Kk\u212a"),
        ("ſ", "Ssſ"),
        ("ı", "ı"),  # locales are not folded
    ],
)
def test_variants(char: str, expected: str) -> None:
    assert variants(char) == tuple(expected)


def test_variants_are_mutual() -> None:
    for code in [*range(0x80, 0x600), *range(0x1C80, 0x1C90), *range(0x1F00, 0x2000)]:
        char = chr(code)
        assert char in variants(char)
        assert all(char in variants(other) for other in variants(char) if not other.isascii()), char


def test_nothing_folds_into_or_out_of_the_ranges_that_have_case() -> None:
    cased = "".join(f"\\x{{{low:x}}}-\\x{{{high - 1:x}}}" for low, high in _CASED_RANGES)
    others = "".join(chr(c) for c in range(0x110000) if not is_cased(c) and not 0xD800 <= c < 0xE000)
    inside = "".join(chr(c) for low, high in _CASED_RANGES for c in range(low, high))
    assert not Pattern.compile(f"[{cased}]", is_case_sensitive=False).matches(others.encode())
    assert not Pattern.compile(f"[^{cased}]", is_case_sensitive=False).matches(inside.encode())
    assert others == others.lower() == others.upper()


def is_cased(code: int) -> bool:
    return any(low <= code < high for low, high in _CASED_RANGES)
