"""Queries as tokens, by zoekt's rules and in the two dialects where words are literal."""

import pytest

from argosy.search.query.fields import Field
from argosy.search.query.lex import NESTING_MAX, PatternType, QuerySyntaxError, declared_pattern_type, lex


def shown(query: str, pattern_type: PatternType = PatternType.REGEX) -> list[str]:
    """Tokens in short: words as `text`, fields as `FIELD=value`, marks as `<mark>`."""
    tokens = []
    for token in lex(query, pattern_type):
        if token.field:
            tokens.append(f"{token.field.name}{'.' + token.name if token.name else ''}={token.text}")
        else:
            tokens.append(f"<{token.kind.value}>" if token.kind.value != "text" else token.text)
    return tokens


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        # zoekt's own set
        ("file:bla", ["FILE=bla"]),
        ("file:bla ", ["FILE=bla"]),
        ("f:bla ", ["FILE=bla"]),
        ("(abc def) ", ["<(>", "abc", "def", "<)>"]),
        ("(abcdef)", ["(abcdef)"]),
        ("(abc)(de)", ["(abc)(de)"]),
        ("(ab(c)def) ", ["(ab(c)def)"]),
        (r"(ab\ def) ", [r"(ab\ def)"]),
        (") ", ["<)>"]),
        ("a(bc))", ["a(bc)", "<)>"]),
        ("abc) ", ["abc", "<)>"]),
        ('file:"bla"', ["FILE=bla"]),
        ('"file:bla"', ["file:bla"]),
        ('o"r" bla', ["or", "bla"]),
        ("or bla", ["<or>", "bla"]),
        ("ar bla", ["ar", "bla"]),
        # and what follows from its rules
        ("", []),
        (" \t\n\r\f\v", []),
        ("a\nb\tc\r\nd", ["a", "b", "c", "d"]),
        ("sub-pixel", ["sub-pixel"]),
        ("-a --b - c", ["<->", "a", "<->", "<->", "b", "<->", "c"]),
        ("-file:-x", ["<->", "FILE=-x"]),
        ('fi"le:bla"', ["file:bla"]),
        ('a"b c"d', ["ab cd"]),
        (r'"a\"b\\c\d"', [r'a"b\cd']),
        (r"a\"b", [r"a\"b"]),
        (r"\(a b", [r"\(a", "b"]),
        ('""', [""]),
        ('"" a', ["", "a"]),
        ('file:"" a', ["FILE=", "a"]),
        ("file: a", ["FILE=", "a"]),
        ("( )", ["<(>", "<)>"]),
        ("(", ["<(>"]),
        ('"("', ["("]),
        ("((x) ora b(z(d)))", ["<(>", "(x)", "ora", "b(z(d))", "<)>"]),
        ("a(b c)", ["a(b", "c", "<)>"]),
        ("((a or b))", ["<(>", "<(>", "a", "<or>", "b", "<)>", "<)>"]),
        ("(a b)c", ["<(>", "a", "b", "<)>", "c"]),
        ('("a b")', ["(a b)"]),
        ("(file:x)", ["(file:x)"]),
        ("or OR Or oR AND And and NOT not", ["<or>", "<or>", "Or", "oR", "<and>", "And", "and", "NOT", "not"]),
        ('"or" "AND"', ["or", "AND"]),
        ("File:a LANG:b Repo:c", ["FILE=a", "LANGUAGE=b", "REPO=c"]),
        ("c:a C:a t:a T: where", ["CONTENT=a", "C:a", "TYPE=a", "T:", "where"]),
        ("abccase:yes url:x ::x", ["abccase:yes", "url:x", "::x"]),
        ("meta.x:y META.Team:z", ["META.x=y", "META.Team=z"]),
        ('meta."a b":"c d" meta."\\"":e', ["META.a b=c d", 'META."=e']),
        ("meta.json meta.:x meta.a(b:c", ["meta.json", "meta.:x", "meta.a(b:c"]),
    ],
)
def test_a_query_is_cut_as_zoekt_cuts_it(query: str, tokens: list[str]) -> None:
    assert shown(query) == tokens


@pytest.mark.parametrize("name", [name for field in Field for name in field.names if field is not Field.META])
def test_every_name_of_a_field_is_known(name: str) -> None:
    (token,) = lex(f"{name}:x")
    assert token.field is not None
    assert name in token.field.names
    assert token.text == "x"


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("foo(bar, baz)", ["foo(bar,", "baz)"]),
        (r"C:\dir\ foo", ["C:\\dir\\", "foo"]),
        ("a\\", ["a\\"]),
        (r"say \"hi\"", ["say", r"\"hi\""]),
        (r'"a \"b\" c"', ['a "b" c']),
        ("(a or b) -c", ["<(>", "a", "<or>", "b", "<)>", "<->", "c"]),
        ("(a foo())", ["<(>", "a", "foo()", "<)>"]),
        ("a ) b", ["a", ")", "b"]),
        (r"file:a\ b c", [r"FILE=a\ b", "c"]),
        (r"content:a\ b c", ["CONTENT=a\\", "b", "c"]),
    ],
)
def test_literal_words_keep_their_punctuation(query: str, tokens: list[str]) -> None:
    assert shown(query, PatternType.LITERAL) == tokens


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("(a or b) -c AND", ["(a", "or", "b)", "-c", "AND"]),
        ("-file:x -lang:go - --", ["<->", "FILE=x", "<->", "LANGUAGE=go", "-", "--"]),
        ('foo( "a b"', ["foo(", "a b"]),
        ("f:(a|b)", ["FILE=(a|b)"]),
    ],
)
def test_in_keyword_queries_only_quotes_and_fields_mean_anything(query: str, tokens: list[str]) -> None:
    assert shown(query, PatternType.KEYWORD) == tokens


def test_each_character_has_its_position() -> None:
    query = r'a file:x"y\"z"\.'
    word, field = lex(query)
    assert field.text == r'xy"z\.'
    assert [query[field.place(offset)] for offset in range(len(field.text))] == list(field.text)
    assert (word.start, word.end, field.start, field.end) == (0, 1, 2, len(query))
    assert field.place(0) == query.index("x")
    assert field.place(99) == len(query)


@pytest.mark.parametrize(
    ("query", "position"),
    [('"abc', 0), ('"a\\', 0), ('ab "c', 3), ('"', 0), ("\\", 0), ("ab\\", 2), ("file:a\\", 6)],
)
def test_an_unpaired_character_is_reported_with_its_position(query: str, position: int) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        lex(query)
    assert caught.value.position == position


def test_the_depth_of_groups_is_bounded() -> None:
    assert len(lex("( " * NESTING_MAX + ")" * NESTING_MAX)) == 2 * NESTING_MAX
    with pytest.raises(QuerySyntaxError, match="nested more than 50 deep") as caught:
        lex("( " * 4000)
    assert caught.value.position == 2 * NESTING_MAX


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("foo", None),
        ("patterntype:literal", "literal"),
        ("foo( PatternType:Keyword bar", "Keyword"),
        ('patterntype:"literal" x', "literal"),
        ("patterntype:regex patterntype:literal", "literal"),
        ('"a patterntype:literal"', None),
        (r"\"a patterntype:literal", "literal"),
        ("xpatterntype:literal", None),
        ("(patterntype:literal a)", None),
        ("C:\\ patterntype:literal", "literal"),
        ("patterntype:", ""),
    ],
)
def test_the_pattern_type_is_found_before_anything_else(query: str, value: str | None) -> None:
    assert declared_pattern_type(query) == value
