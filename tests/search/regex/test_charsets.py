"""Character classes: exact within ASCII, a superset beyond it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.regex import Pattern, RegexError, parse_regex
from argosy.search.regex.charsets import LONG_S, CharSet, charset, utf8_length
from argosy.search.regex.tree import Class
from tests.search.regex.patterns import CHARS

ASCII = bytes(range(128))
ODDITIES = [0x1C80, 0x1E9E, 0x2028, 0x212A, 0x212B, 0x4E2D, 0xFFFD, 0x10400, 0x1F600]
WIDE = "".join(map(chr, [*range(0x80, 0x600), *ODDITIES]))
SCRIPTS = ["Latin", "Common", "Greek", "Cyrillic", "Han", "Inherited", "Hiragana", "Arabic", "Hebrew", "Thai"]
CATEGORIES = [
    "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd",
    "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs", "Any",
]  # fmt: skip
POSIX = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
]  # fmt: skip
SETS = [
    r"\d",
    r"\D",
    r"\s",
    r"\S",
    r"\w",
    r"\W",
    r"\pL",
    r"\PL",
    r"\p{Lu}",
    r"\P{Ll}",
    "[:alpha:]",
    "[:^upper:]",
]

members = st.one_of(
    st.sampled_from(SETS),
    st.sampled_from(CHARS + "{~").map(lambda char: f"\\x{{{ord(char):x}}}"),
    st.tuples(st.sampled_from(CHARS), st.sampled_from(CHARS)).map(
        lambda ends: f"\\x{{{ord(min(ends)):x}}}-\\x{{{ord(max(ends)):x}}}"
    ),
)


def checked(source: str, *, is_folded: bool) -> CharSet:
    """The set of the class, after comparing it with what RE2 takes."""
    tree = parse_regex(source)
    assert isinstance(tree, Class)
    chars = charset(tree, is_folded=is_folded)
    pattern = Pattern.compile(f"(?:{source}){{1}}", is_case_sensitive=not is_folded)
    taken = {ASCII[start:end] for start, end in pattern.find_all(ASCII)}
    assert {bytes([code]) for code in chars.ascii_codes()} == taken
    text = WIDE.encode()
    found = {text[start:end].decode() for start, end in pattern.find_all(text)}
    missed = found - {char for char in WIDE if char in chars}
    # Only what folds to ASCII is left to others, and only if it is not named.
    assert missed <= ({"ſ", "\u212a"} if is_folded else set())
    return chars


@settings(max_examples=150, deadline=None)
@given(st.lists(members, min_size=1, max_size=4), st.booleans(), st.booleans())
def test_a_class_matches_the_characters_that_re2_matches(parts: list[str], is_negated: bool, is_folded: bool) -> None:
    source = f"[{'^' if is_negated else ''}{''.join(parts)}]"
    try:
        Pattern.compile(source)
    except RegexError:  # a hyphen between two sets
        source = source.replace("-", "")
    assert checked(source, is_folded=is_folded)


@pytest.mark.parametrize("name", [*SCRIPTS, *CATEGORIES])
@pytest.mark.parametrize("is_folded", [False, True])
def test_unicode_groups_are_known_within_ascii(name: str, is_folded: bool) -> None:
    positive, negative = (checked(rf"\{sign}{{{name}}}", is_folded=is_folded) for sign in "pP")
    assert positive.ascii ^ negative.ascii == (1 << 128) - 1


@pytest.mark.parametrize("name", POSIX)
def test_posix_sets_are_known(name: str) -> None:
    assert checked(f"[[:{name}:]]", is_folded=False).wide == ()


def test_re2_knows_no_properties_that_are_neither_category_nor_script() -> None:
    for name in ["Alphabetic", "L&", "ASCII", "Emoji", "IsGreek", "alpha", "digit"]:
        with pytest.raises(RegexError):
            Pattern.compile(rf"\p{{{name}}}")


@pytest.mark.parametrize(
    ("source", "sets"),
    [
        ("[a-c]", [b"abc"]),
        ("[ж]", [b"\xd0", b"\xb6"]),
        ("[а-я]", [b"\xd0\xd1", bytes(range(0x80, 0xC0))]),
        ("[а-п]", [b"\xd0", bytes(range(0xB0, 0xC0))]),
        ("[中-丯]", [b"\xe4", b"\xb8", bytes(range(0xAD, 0xB0))]),
        ("[aж]", None),
        ("[ж中]", None),
        ("[^a]", None),
        (r"\pL", None),
        (r"[^\x00-\x{10ffff}]", None),
        (r"[\x{d800}-\x{d801}]", [b"\xed", b"\xa0", b"\x80\x81"]),
    ],
)
def test_bytes_of_a_class_are_known_where_its_members_are_equally_long(source: str, sets: list[bytes] | None) -> None:
    tree = parse_regex(source)
    assert isinstance(tree, Class)
    expected = None if sets is None else tuple(map(frozenset, sets))
    assert charset(tree, is_folded=False).byte_sets() == expected


def test_lengths_in_utf8() -> None:
    for code in [0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF]:
        assert utf8_length(code) == len(chr(code).encode())


def test_a_long_s_brings_its_ascii_letters_with_it() -> None:
    tree = parse_regex(f"[\\x{{{LONG_S:x}}}]")
    assert isinstance(tree, Class)
    assert set(charset(tree, is_folded=True).ascii_codes()) == set(b"sS")
    assert set(charset(tree, is_folded=False).ascii_codes()) == set()
