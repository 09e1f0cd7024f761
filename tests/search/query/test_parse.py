"""Queries become trees: zoekt's conformance set, our corrections of it, and our additions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.search.query.format import format_query
from argosy.search.query.lex import MESSAGE_CHARACTERS_MAX, PatternType, QuerySyntaxError
from argosy.search.query.parse import ATOMS_MAX, COUNT_ALL, QUERY_CHARACTERS_MAX, ParsedQuery, parse
from argosy.search.query.tree import (
    FALSE,
    TRUE,
    Alias,
    Flag,
    Language,
    Meta,
    OnBranch,
    Query,
    Repo,
    ResultKind,
    Scope,
    Symbol,
    Type,
)
from tests.search.query.trees import both, content, either, name, no, regex, text

CONFORMANCE: list[tuple[str, Query]] = [
    (r"\bword\b", regex(r"\bword\b")),
    ('fi"le:bla"', text("file:bla")),
    ("abc or def", either(text("abc"), text("def"))),
    ("(abc or def)", either(text("abc"), text("def"))),
    ("(ppp qqq or rrr sss)", either(both(text("ppp"), text("qqq")), both(text("rrr"), text("sss")))),
    ("((x) ora b(z(d)))", both(text("x"), text("ora"), text("bzd"))),
    ("( )", TRUE),
    ("(abc)(de)", text("abcde")),
    ("sub-pixel", text("sub-pixel")),
    ("abc", text("abc")),
    ("ABC", text("ABC", cased=True)),
    ('"abc bcd"', text("abc bcd")),
    ("abc bcd", both(text("abc"), text("bcd"))),
    ("f:fs", name("fs")),
    ("fs", text("fs")),
    ("-abc", no(text("abc"))),
    ("abccase:yes", text("abccase:yes")),
    ("file:abc", name("abc")),
    ("branch:pqr", OnBranch("pqr")),
    ("((x|y) )", regex("(x|y)")),
    ("archived:yes", Flag("archived", True)),
    ("archived:no", Flag("archived", False)),
    ("fork:yes", Flag("fork", True)),
    ("fork:no", Flag("fork", False)),
    ("public:yes", Flag("public", True)),
    ("public:no", Flag("public", False)),
    (r"file:helpers\.go byte", both(name("helpers.go"), text("byte"))),
    ("(abc def)", both(text("abc"), text("def"))),
    ("regex:abc[p-q]", regex("abc[p-q]")),
    ("aBc[p-q]", regex("aBc[p-q]", cased=True)),
    ("aBc[p-q] case:auto", regex("aBc[p-q]", cased=True)),
    ("repo:go", Repo("go")),
    ("repo:.*", Repo(".*")),
    ('file:""', TRUE),
    ("abc.*def", regex("abc.*def")),
    (r"abc\.\*def", text("abc.*def")),
    ("(abc)", text("abc")),
    ("c:abc", content("abc")),
    ("content:abc", content("abc")),
    ("lang:c++", Language("C++")),
    ("lang:cpp", Language("C++")),
    ("sym:pqr", Symbol(text("pqr"))),
    ("sym:Pqr", Symbol(text("Pqr", cased=True))),
    ("sym:.*", Symbol(regex(".*"))),
    ("sym:a(b|d)e", Symbol(regex("a(b|d)e"))),
    ("abc case:yes", text("abc", cased=True)),
    ("abc case:auto", text("abc")),
    ("ABC case:auto", text("ABC", cased=True)),
    ('ABC case:"auto"', text("ABC", cased=True)),
    ("abc -f:def case:yes", both(text("abc", cased=True), no(name("def", cased=True)))),
    ("(foo case:yes) bar", both(text("foo", cased=True), text("bar"))),
    ("case:yes (foo case:no) bar", both(text("foo"), text("bar", cased=True))),
    ("type:repo abc", Type(ResultKind.REPO, text("abc"))),
    ("type:file abc def", Type(ResultKind.FILE_NAME, both(text("abc"), text("def")))),
    ("type:repo foo or bar", Type(ResultKind.REPO, either(text("foo"), text("bar")))),
    ("(type:repo abc) def", both(Type(ResultKind.REPO, text("abc")), text("def"))),
    ("meta.license:Apache-.*", Meta("license", "Apache-.*")),
    ("", TRUE),
]
REFUSED = [
    # query, position, a part of the message
    ("--", 1, "nothing to negate"),
    ('"abc', 0, "unclosed quote"),
    ('"a\\', 0, "unclosed quote"),
    ("case:foo", 5, "case: takes yes, no or auto, not 'foo'"),
    ("sym:", 4, "sym: needs a value"),
    ("abc or", 4, "'or' has no right operand"),
    ("or abc", 0, "'or' has no left operand"),
    ("def or or abc", 7, "'or' has no left operand"),
    ("(", 0, "unclosed parenthesis"),
    (")", 0, "unmatched parenthesis"),
    ("foo)", 3, "unmatched parenthesis"),
    ("(foo", 0, r"missing \)"),
    ("(foo))", 5, "unmatched parenthesis"),
    ("meta.x:(", 7, r"missing \)"),
    ("(abc def", 0, "unclosed parenthesis"),
    # not in zoekt's set
    ("-", 0, "nothing to negate"),
    ("a -", 2, "nothing to negate"),
    ("(a -)", 3, "nothing to negate"),
    ("a - or b", 2, "nothing to negate"),
    ("(a (b c)", 0, "unclosed parenthesis"),
    ("a (or b)", 3, "'or' has no left operand"),
    ("(a or) b", 3, "'or' has no right operand"),
    ("a or case:yes", 2, "'or' has no right operand"),
    ("type:repo or a", 10, "'or' has no left operand"),
    ("a AND", 2, "'AND' has no right operand"),
    ("AND a", 0, "'AND' has no left operand"),
    ("a AND AND b", 6, "'AND' has no left operand"),
    ("a OR AND b", 5, "'AND' has no left operand"),
    ("a AND OR b", 6, "'OR' has no left operand"),
    ("type:commit a", 5, "type: takes filematch, filename, file or repo, not 'commit'"),
    ("archived:maybe", 9, "archived: takes yes or no, not 'maybe'"),
    ("case:", 5, "case: takes yes, no or auto, not ''"),
    ("alias:", 6, "alias: needs a value"),
    ('sym:""', 6, "sym: needs a value"),
    ("-case:yes a", 0, "case: cannot be negated"),
    ("a -type:repo", 2, "type: cannot be negated"),
    ("count:0 a", 6, "count: takes a number from 1 to 1000000000, or all, not '0'"),
    ("count:-1 a", 6, "count: takes"),
    ("count:1e3 a", 6, "count: takes"),
    ("count:٣ a", 6, "count: takes"),
    ("count:99999999999999999999", 6, "count: takes"),
    ("count:5 a count:6", 10, "count: has two different values"),
    ("(a count:5)", 3, "count: applies to the whole query"),
    ("(a patterntype:literal)", 3, "patterntype: applies to the whole query"),
    ("-patterntype:literal a", 0, "patterntype: cannot be negated"),
    ("a patterntype:glob", 14, "patterntype: takes regex, literal or keyword, not 'glob'"),
    ("patterntype:regex a patterntype:literal", 0, "patterntype: is repeated"),
    ("(a b)patterntype:literal", 5, "patterntype: is repeated, or not after a blank"),
    ("(a b patterntype:literal", 5, "patterntype: applies to the whole query"),
    ("a (b patterntype:literal c", 5, "patterntype: applies to the whole query"),
    ("patterntype:literal (b c", 20, "unclosed parenthesis; close it, or quote it"),
    (r"a\8", 0, "back-references are not supported"),
    ("a(?=b)", 0, "look-around"),
    ("file:a{1001}", 5, "repeat at most 1000"),
    (r"\pL{50} " * 5, 24, "too large together"),
    (r"a patterntype:literal" + r" file:\pL{90}" * 3, 53, "too large together"),
    ("x" * (QUERY_CHARACTERS_MAX + 1), 0, f"limit {QUERY_CHARACTERS_MAX}"),
    ("a b \ud800", 4, "half of a surrogate pair"),
    ("a " * (ATOMS_MAX + 1), 2 * ATOMS_MAX, f"more than {ATOMS_MAX} words and fields"),
]


@pytest.mark.parametrize(("query", "tree"), CONFORMANCE)
def test_a_query_means_the_same_as_in_zoekt(query: str, tree: Query) -> None:
    assert parse(query).query == tree


@pytest.mark.parametrize(("query", "position", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_syntax_error_is_reported_with_its_position(query: str, position: int, message: str) -> None:
    with pytest.raises(QuerySyntaxError, match=message) as caught:
        parse(query)
    assert (caught.value.text, caught.value.position) == (query, position)
    assert str(caught.value).endswith(f", at column {position + 1}")


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("a\nb\r\nc", both(text("a"), text("b"), text("c"))),
        ("(a\nb)", both(text("a"), text("b"))),
        ("type:filematch foo", text("foo")),
        ("type:repo type:filematch foo", text("foo")),
        (r"foo\w+", regex(r"foo\w+")),
        (r"foo\S\W\D\B\pL", regex(r"foo\S\W\D\B\pL")),
        ("[A-Z]oo", regex("[A-Z]oo", cased=True)),
        ("File:Abc LANG:PYTHON Lang:py", both(name("Abc", cased=True), Language("Python"), Language("Python"))),
        ("Case:YES abc TYPE:Repo", Type(ResultKind.REPO, text("abc", cased=True))),
        ("a OR b AND c", either(text("a"), both(text("b"), text("c")))),
        ("case:yes AND a AND lang:go", both(text("a", cased=True), Language("Go"))),
        ("NOT NULL", both(text("NOT", cased=True), text("NULL", cased=True))),
        ('"" a', text("a")),
        ("()", TRUE),
        ("meta.json", regex("meta.json")),
        ("lang:klingon", Language(None)),
        ("lang:", Language(None)),
    ],
)
def test_known_errors_of_zoekt_are_corrected(query: str, tree: Query) -> None:
    assert parse(query).query == tree


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("-(a b)", no(both(text("a"), text("b")))),
        ("--a", text("a")),
        ("---a", no(text("a"))),
        ("- a", no(text("a"))),
        ("-(a or -b) c", both(no(either(text("a"), no(text("b")))), text("c"))),
        ('-""', FALSE),
        ('a or ""', TRUE),
        ('a -""', FALSE),
        ("repo:", TRUE),
        ("branch:", TRUE),
        ("-repo:a", no(Repo("a"))),
        ("sym:()", Symbol(regex("()"))),
        ('meta."my team":x', Meta("my team", "x")),
        ("meta.x:", Meta("x", "")),
        ("alias:Payments", Alias("Payments")),
        (r"branch:a\.b", OnBranch(r"a\.b")),
        ("type:repo", Type(ResultKind.REPO, TRUE)),
        ('(type:repo "")', Type(ResultKind.REPO, TRUE)),
        ("(type:repo ) a", text("a")),
        ("type:repo type:file a", Type(ResultKind.FILE_NAME, text("a"))),
        ("type:repo (type:file a)", Type(ResultKind.REPO, Type(ResultKind.FILE_NAME, text("a")))),
        ("case:yes ((a b) c) case:no", both(text("a"), text("b"), text("c"))),
        ("case:yes ((a b) or sym:c)", either(
            both(text("a", cased=True), text("b", cased=True)), Symbol(text("c", cased=True)))),
        ("case:yes (case:auto a) b", both(text("a"), text("b", cased=True))),
        ("-(a case:yes) b", both(no(text("a", cased=True)), text("b"))),
        ("case:no Abc[A-Z]", regex("Abc[A-Z]")),
        ("(?i)Abc", regex("(?i)Abc")),
        (r"a\ b", text("a b")),
        (r"\"a\"", text('"a"')),
        (r'"foo\\.bar baz"', text("foo.bar baz")),
        (r"a\nb", text("a\nb")),
    ],
)  # fmt: skip
def test_rules_combine(query: str, tree: Query) -> None:
    assert parse(query).query == tree


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("printf( patterntype:literal", text("printf(")),
        (r"a.b\n (c or d.) PatternType:LITERAL", both(text(r"a.b\n"), either(text("c"), text("d.")))),
        ('"a.b c" -d* patterntype:literal', both(text("a.b c"), no(text("d*")))),
        ("a.b patterntype:literal file:x.y", both(text("a.b"), regex("x.y", scope=Scope.FILE_NAME))),
        ("patterntype:literal regex:a.b content:c.d sym:e.f", both(
            regex("a.b"), content("c.d"), Symbol(text("e.f")))),
        ("patterntype:literal A. case:no", text("A.")),
        ("patterntype:literal", TRUE),
        ("foo( -bar or -file:test patterntype:keyword", both(
            text("foo("), text("-bar"), text("or"), no(name("test")))),
        ("(a or) patterntype:keyword", both(text("(a"), text("or)"))),
        ("a.b patterntype:regex", regex("a.b")),
    ],
)  # fmt: skip
def test_words_can_be_literal(query: str, tree: Query) -> None:
    assert parse(query).query == tree


def test_the_caller_may_choose_how_words_are_read_if_the_query_does_not() -> None:
    assert parse("a.b", pattern_type=PatternType.LITERAL).query == text("a.b")
    assert parse("a.b patterntype:regex", pattern_type=PatternType.LITERAL).query == regex("a.b")
    assert parse("a", pattern_type=PatternType.KEYWORD).pattern_type is PatternType.KEYWORD


@pytest.mark.parametrize(
    ("query", "count"), [("a", None), ("a count:200", 200), ("COUNT:all a", COUNT_ALL), ("count:5 a count:5", 5)]
)
def test_a_query_sets_the_number_of_files(query: str, count: int | None) -> None:
    parsed = parse(query)
    assert (parsed.query, parsed.count) == (text("a"), count)


def test_a_query_may_be_as_large_as_documented() -> None:
    assert parse("a" * QUERY_CHARACTERS_MAX).query == text("a" * QUERY_CHARACTERS_MAX)
    assert parse("a " * ATOMS_MAX).query == both(*[text("a")] * ATOMS_MAX)


def outcome(query: str) -> ParsedQuery | QuerySyntaxError:
    try:
        return parse(query)
    except QuerySyntaxError as error:
        return error


@pytest.mark.parametrize("row", [1, 49, 50, 51, 900, 3000])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ""), ("( ", ""), ("( ", ")"), ("(", ")"), ("-", ""), ("-(a ", ")"), ("type:repo (a ", ")"),
        ("a or (", ")"), ("", ")"), ('"', ""), ("\\", ""), ("(?:", ")"), ("a|", ""), ("[", "]"), ("(a|", "b)"),
        ("(?i:", "*)"), ("(A ", ")"), ("case:", ""),
    ],
)  # fmt: skip
def test_a_long_row_of_marks_is_parsed_or_rejected(opening: str, closing: str, row: int) -> None:
    query = (opening * row + "x" + closing * row)[:QUERY_CHARACTERS_MAX]
    found = outcome(query)
    if isinstance(found, ParsedQuery):
        assert parse(format_query(found.query)).query == found.query
    else:
        assert found.text == query
        assert len(str(found)) < MESSAGE_CHARACTERS_MAX + 30


pieces = st.sampled_from(
    [*' \n-()"\\|*+?[]{}^$.:', "or", "OR", "AND", "case:", "yes", "type:", "repo", "file:", "f:", "sym:", "lang:",
     "meta.x:", "count:", "patterntype:", "literal", "keyword", "a", "B", "é", "\\w", "{1001}", "(?i)", "\0", "\ud800"]
)  # fmt: skip


@given(st.lists(pieces, max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_is_parsed_or_rejected(query: str) -> None:
    found = outcome(query)
    if isinstance(found, QuerySyntaxError):
        assert found.text == query
        assert found.excerpt().count("\n") == 1
    else:
        assert parse(query) == found


PLAIN = r'(content:|c:)?([A-Za-z0-9_]{1,9}|"[A-Za-z0-9_ ]{1,9}")'


@given(st.from_regex(PLAIN, fullmatch=True), st.sampled_from(PatternType))
def test_a_plain_word_keeps_its_meaning_among_blanks(word: str, pattern_type: PatternType) -> None:
    """Read at one glance it is the same as by all the rules."""
    try:
        among_blanks: ParsedQuery | str = parse(f"{word} ", pattern_type=pattern_type)
    except QuerySyntaxError as error:
        among_blanks = str(error)
    try:
        alone: ParsedQuery | str = parse(word, pattern_type=pattern_type)
    except QuerySyntaxError as error:
        alone = str(error)
    assert alone == among_blanks


@pytest.mark.parametrize("word", ["or", "OR", "AND"])
def test_an_operator_alone_is_no_word(word: str) -> None:
    with pytest.raises(QuerySyntaxError):
        parse(word)
    assert parse(f'"{word}"').query == text(word, cased=word != word.lower())
    assert parse(word, pattern_type=PatternType.KEYWORD).query == text(word, cased=word != word.lower())
