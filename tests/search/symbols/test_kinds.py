"""The points of definitions."""

import pytest

from argosy.search.symbols import KINDS, points
from argosy.search.symbols.grammars import GRAMMARS


def test_the_numbers_of_kinds_fit_a_byte_and_begin_where_indexes_have_them() -> None:
    assert len(KINDS) == len(set(KINDS)) < 256
    assert KINDS[:6] == ("other", "function", "method", "class", "struct", "enum")


def test_every_kind_in_a_grammar_is_in_the_list() -> None:
    outline_of = {
        kind
        for grammar in GRAMMARS.values()
        for kinds in (*grammar.kinds, *grammar.inner.values())
        for kind in ([kinds] if isinstance(kinds, str) else kinds.values())
    }
    assert outline_of - {"", "owner", "name"} <= set(KINDS)


@pytest.mark.parametrize(
    ("language", "kind", "worth"),
    [
        ("C", "class", 1000), ("C", "struct", 950), ("C", "enum", 900), ("C", "type", 800), ("C", "function", 700),
        ("C", "field", 550), ("C", "constant", 500), ("C", "variable", 400), ("C", "label", 100), ("C", "no kind", 100),
        ("Go", "interface", 1000), ("Go", "struct", 900), ("Go", "method spec", 850), ("Go", "function", 800),
        ("Go", "field", 700), ("Go", "constant", 600), ("Go", "variable", 500), ("C++", "struct", 700),
        ("Python", "function", 800), ("Python", "field", 400), ("Python", "variable", 300), ("Java", "field", 600),
        ("Ruby", "method", 900), ("PHP", "trait", 700), ("Scala", "object", 800), ("Kotlin", "interface", 900),
        ("GraphQL", "type", 1000), ("Markdown", "chapter", 400), ("Markdown", "section", 300),
        ("Markdown", "subsection", 200), ("Markdown", "heading", 100),
    ],
)  # fmt: skip
def test_points_of_a_kind(language: str, kind: str, worth: int) -> None:
    assert points(language, kind, b"src/a") == worth


def test_an_exported_name_of_go_has_more_points() -> None:
    assert points("Go", "function", b"a.go", b"Serve") == points("Go", "function", b"a.go", b"serve") + 50
    assert points("Java", "method", b"A.java", b"Serve") == points("Java", "method", b"A.java", b"serve")


def test_a_definition_in_a_test_has_a_fifth_fewer_points() -> None:
    assert points("Go", "function", b"a_test.go", b"TestA") == int(850 * 0.8)
    assert points("Python", "class", b"tests/test_a.py") == 800


def test_points_fit_in_the_field_of_an_index() -> None:
    assert all(0 < points(language, kind, b"a", b"A") < 1 << 16 for language in ("Go", "C", "PHP") for kind in KINDS)
