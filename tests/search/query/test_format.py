"""Trees are formatted as text that means the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.search.languages import LANGUAGES
from argosy.search.query.format import format_query
from argosy.search.query.leaves import auto_case, in_case
from argosy.search.query.lex import QuerySyntaxError
from argosy.search.query.parse import parse
from argosy.search.query.simplify import simplify
from argosy.search.query.tree import (
    FALSE,
    TRUE,
    Alias,
    And,
    Boost,
    BranchesRepos,
    FileNameSet,
    Flag,
    Language,
    Meta,
    Not,
    OnBranch,
    Or,
    Query,
    Regexp,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Scope,
    Substring,
    Symbol,
    Type,
)
from tests.search.query.test_parse import CONFORMANCE, pieces
from tests.search.query.trees import both, content, either, name, no, regex, text

# None of these is a plain text; most would be read as something else if they were printed as they are.
REGEXES = [
    r"a.b", "[(x]", "[)x]", '["x]', "(a|b) c", r"\(.", r"a\ .b", ".*", "^-", "x{2,3}", r"\x{212A}+", "(?i)a", "[A-Z]",
    r"é\b", "or|and", "file:.", "-.", '".', r"\Q(\E.", "a\nb.", r"\\.", "(a or b|c)", r"a\ patterntype:literal.",
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (TRUE, '""'),
        (FALSE, '-""'),
        (text("abc"), "abc"),
        (text("a.b(c"), r"a\.b\(c"),
        (text("a b"), '"a b"'),
        (text('a "b" \\'), r'"a \"b\" \\\\"'),
        (text("a\n\t\x00\u200b"), r"a\n\t\x{0}\x{200b}"),
        (text("or"), '"or"'),
        (text("AND", cased=True), '"AND"'),
        (text("-x"), '"-x"'),
        (text("file:x"), '"file:x"'),
        (text("File:x", cased=True), '"File:x"'),
        (regex("(a|b)"), "(a|b)"),
        (regex("[(x]"), '"[(x]"'),
        (name("x.go"), r"file:x\.go"),
        (content("x y"), 'content:"x y"'),
        (Symbol(regex("^New")), "sym:^New case:no"),
        (Language("C++"), "lang:C++"),
        (Language("Common Lisp"), 'lang:"Common Lisp"'),
        (Language(None), 'lang:""'),
        (Meta("team", "a|b"), "meta.team:a|b"),
        (Meta("my team", ""), 'meta."my team":""'),
        (Flag("archived", False), "archived:no"),
        (both(text("a"), either(text("b"), text("c"))), "a (b or c)"),
        (either(both(text("a"), text("b")), text("c")), "a b or c"),
        (no(both(text("a"), no(text("b")))), "-(a -b)"),
        (both(Type(ResultKind.REPO, text("a")), text("b")), "(type:repo a) b"),
        (Type(ResultKind.FILE_NAME, either(text("a"), text("b"))), "type:filename a or b"),
        (text("abc", cased=True), "abc case:yes"),
        (either(text("Abc"), text("x")), "Abc or x case:no"),
        (both(text("a", cased=True), text("b")), "(a case:yes) b"),
        (both(no(text("A")), text("B", cased=True)), "-(A case:no) B"),
        (And(()), '""'),
        (Or(()), '-""'),
        (both(either(text("a"))), "a"),
    ],
)
def test_a_tree_is_formatted_as_a_user_would_type_it(query: Query, shown: str) -> None:
    assert format_query(query) == shown
    assert parse(shown).query == simplify(query)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (RepoSet(frozenset({"b", "a c"})), '<repos "a c" b>'),
        (RepoIds(frozenset(range(100, 112))), "<repo ids 100 101 102 103 104 105 106 107 108 109 and 2 more>"),
        (FileNameSet(frozenset({"x"})), "<files x>"),
        (OnBranch("main", is_exact=True), "<branch exactly main>"),
        (
            BranchesRepos((("main", frozenset({2, 1})), ("dev", frozenset({3})))),
            "<branch main of repo ids 1 2; branch dev of repo ids 3>",
        ),
        (Boost(both(text("a"), text("b")), 2.5), "<boost 2.5 a b>"),
        (both(Boost(text("Ab"), 2), text("c")), "<boost 2 Ab> c case:no"),
        (regex("(a"), '"(a"'),
    ],
)
def test_queries_without_a_text_form_are_formatted_for_display(query: Query, shown: str) -> None:
    assert format_query(query) == shown


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8) | st.sampled_from(
    ["or", "AND", "-a", "file:x", "meta.x:y", "T:", "(", ")", "(a b)", '"', "\\", " ", "a\tb\n", "\0", "K", "ſ",
     "patterntype:literal"]
)  # fmt: skip
scopes = st.sampled_from(Scope)
needles = st.builds(Substring, texts, st.booleans(), scopes) | st.builds(
    Regexp, st.sampled_from(REGEXES), st.booleans(), scopes
)
leaves = (
    needles
    | needles.filter(lambda needle: needle.scope is Scope.ANY).map(Symbol)
    | st.sampled_from([None, *LANGUAGES]).map(Language)
    | st.sampled_from(REGEXES).map(Repo)
    | texts.map(Alias)
    | texts.map(OnBranch)
    | st.builds(Flag, st.sampled_from(["archived", "fork", "public"]), st.booleans())
    | st.builds(Meta, texts, st.sampled_from(["", *REGEXES]))
    | st.sampled_from([TRUE, FALSE])
)


def grown(children: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    lists = st.lists(children, min_size=2, max_size=4).map(tuple)
    return lists.map(And) | lists.map(Or) | children.map(Not) | st.builds(Type, st.sampled_from(ResultKind), children)


trees = st.recursive(leaves, grown, max_leaves=12).map(simplify)


@given(trees)
def test_formatted_text_parses_to_the_same_query(query: Query) -> None:
    assert parse(format_query(query)).query == query


@given(trees)
def test_the_printed_form_is_canonical(query: Query) -> None:
    assert format_query(parse(format_query(query)).query) == format_query(query)


@given(st.lists(pieces, max_size=20).map("".join) | st.text(max_size=30))
def test_any_valid_query_survives_formatting(query: str) -> None:
    try:
        tree = parse(query).query
    except QuerySyntaxError:
        return
    assert parse(format_query(tree)).query == tree


@pytest.mark.parametrize("query", [query for query, _ in CONFORMANCE])
def test_the_conformance_set_survives_formatting(query: str) -> None:
    tree = parse(query).query
    assert parse(format_query(tree)).query == tree


@given(needles)
def test_case_is_only_spelled_out_where_it_must_be(needle: Substring | Regexp) -> None:
    assert " case:" not in format_query(in_case(needle, auto_case(needle)))
    assert format_query(in_case(needle, not auto_case(needle))).endswith(("case:yes", "case:no"))


@pytest.mark.parametrize("word", ["word", "Word", "a_b", "9", "or", "OR", "Or", "and", "AND", "not", "x" * 3000])
@pytest.mark.parametrize("is_case_sensitive", [False, True])
def test_a_word_is_read_as_what_it_was(word: str, is_case_sensitive: bool) -> None:
    query = Substring(word, is_case_sensitive)
    assert parse(format_query(query)).query == query
